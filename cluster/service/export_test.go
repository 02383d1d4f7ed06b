package service

// Notify is what an operation does after its commit.
func (s *Service) Notify(uuid string) { s.notify(uuid) }

// HashOf is how credentials are stored.
func HashOf(token string) string { return hashOf(token) }
