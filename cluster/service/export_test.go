package service

// Notify queues a cluster, as an operation does after its commit.
func (s *Service) Notify(uuid string) { s.notify(uuid) }

// HashOf returns the stored form of a credential.
func HashOf(token string) string { return hashOf(token) }
