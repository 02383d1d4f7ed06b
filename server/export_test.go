package server

// Streams returns the number of open event streams.
func (s *Server) Streams() int { return s.admission.Streams() }
