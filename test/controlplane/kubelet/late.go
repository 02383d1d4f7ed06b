package kubelet

import (
	"slices"
	"sync"
	"time"
)

// late shows the sources of a pod's volumes with a delay, as a kubelet does: the pod begins
// with the current one, and sees a change only some time after the kubelet has noticed it.
type late struct {
	mu      sync.Mutex
	sources map[string]*lateSource
}

// lateSource is one ConfigMap or Secret as the pod sees it.
type lateSource struct {
	shown   map[string][]byte
	noticed string // the newest version
	changes []lateChange
}

type lateChange struct {
	due  time.Time
	data map[string][]byte
}

// see notes the current version of a source and returns the data that the pod sees at the time
// now. next is when it will see another; zero: it sees the current one.
func (l *late) see(now time.Time, source, version string, data map[string][]byte, delay time.Duration) (shown map[string][]byte, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sources[source]
	if s == nil {
		if l.sources == nil {
			l.sources = map[string]*lateSource{}
		}
		l.sources[source] = &lateSource{shown: data, noticed: version}
		return data, time.Time{}
	}
	if s.noticed != version {
		s.noticed = version
		s.changes = append(s.changes, lateChange{now.Add(delay), data})
	}
	for i, change := range slices.Backward(s.changes) {
		if !change.due.After(now) { // later ones may have been due before, after SetFileDelay
			s.shown, s.changes = change.data, s.changes[i+1:]
			break
		}
	}
	for _, change := range s.changes {
		if next.IsZero() || change.due.Before(next) {
			next = change.due
		}
	}
	return s.shown, next
}
