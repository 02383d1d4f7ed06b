package gc

import "time"

// setFirstSeen sets the creation time of resources without one to the time of
// the first pass that saw them.
func (s *Collector) setFirstSeen(provider string, resources map[string][]foundResource, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, seen := s.firstSeen[provider], map[string]time.Time{}
	for _, items := range resources {
		for i := range items {
			t := &items[i]
			if !t.created.IsZero() {
				continue
			}
			id := string(t.kind) + "/" + t.id
			if at, known := before[id]; known {
				t.created = at
			} else {
				t.created = now
			}
			seen[id] = t.created
		}
	}
	if s.firstSeen == nil {
		s.firstSeen = map[string]map[string]time.Time{}
	}
	s.firstSeen[provider] = seen
}
