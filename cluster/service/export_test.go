package service

// Ring is what an operation does after its commit.
func (s *Service) Ring(uuid string) { s.ring(uuid) }

// HashOf is how credentials are stored.
func HashOf(token string) string { return hashOf(token) }
