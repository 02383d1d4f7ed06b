package sharedstorage_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// slow are engines that take a while to stop. Until then they run, and have no
// role that anybody could tell.
type slow struct {
	port.Engine
	takes time.Duration

	mu       sync.Mutex
	stopping map[string]time.Time // when each has ended
	early    []string             // promoted while another one stopped
	forced   bool
}

func (s *slow) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.Engine.Status(ctx, id)
	if err == nil {
		err = s.Engine.Stop(ctx, id, mode)
	}
	switch {
	case err != nil:
	case mode == port.Immediate:
		s.forced = true
		delete(s.stopping, id.Instance)
	case before.Running:
		s.stopping[id.Instance] = time.Now().Add(s.takes)
	}
	return err
}

func (s *slow) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := s.Engine.Status(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && time.Now().Before(s.stopping[id.Instance]) {
		return port.Status{Installed: true, Running: true, Version: st.Version, Lag: -1}, nil
	}
	return st, err
}

func (s *slow) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	s.mu.Lock()
	for name, end := range s.stopping {
		if name != id.Instance && time.Now().Before(end) {
			s.early = append(s.early, id.Instance)
		}
	}
	s.mu.Unlock()
	return s.Engine.Promote(ctx, id, epoch)
}

// A writer that takes its time to stop is waited for: until it has ended its log
// has no end. One that hangs is made to end.
func TestAWriterThatStopsSlowly(t *testing.T) {
	for _, takes := range []time.Duration{0, 1500 * time.Millisecond, 8 * time.Second, time.Hour} {
		t.Run(takes.String(), func(t *testing.T) {
			s := &slow{takes: takes, stopping: map[string]time.Time{}}
			wrap := func(o *sharedstorage.Options) { s.Engine, o.Ports.Engine = o.Ports.Engine, s }
			inLab(t, setup{sim: times(), options: wrap}, func(l *lab) {
				up(l, "blue")
				id, _ := l.reader("blue")
				began := time.Now()
				l.ask("blue", "switch-writer", id)
				l.until("blue", "written by another", 5*time.Minute, func(c *sharedstorage.Cluster) bool { return c.Status.Writer == id })
				if took := time.Since(began); took > min(takes, 30*time.Second)+10*time.Second {
					t.Errorf("it took %s", took)
				}
				if len(s.early) > 0 {
					t.Errorf("%v was promoted while the old writer stopped", s.early)
				}
				if s.forced != (takes == time.Hour) {
					t.Errorf("it was forced: %t", s.forced)
				}
				l.rests("blue", time.Hour)
				l.visited("Interrupted", 0)
				l.sane("blue")
			})
		})
	}
}
