package sharedstorage_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// slowEngines take a while to stop. Until then they run without a role.
type slowEngines struct {
	port.Engine
	takes time.Duration

	mu       sync.Mutex
	stopping map[string]time.Time // when each has ended
	early    []string             // promoted while another one was stopping
	forced   bool
}

func (s *slowEngines) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
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

func (s *slowEngines) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := s.Engine.Status(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && time.Now().Before(s.stopping[id.Instance]) {
		return port.Status{Installed: true, Running: true, Version: st.Version, Lag: -1}, nil
	}
	return st, err
}

func (s *slowEngines) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	s.mu.Lock()
	for name, end := range s.stopping {
		if name != id.Instance && time.Now().Before(end) {
			s.early = append(s.early, id.Instance)
		}
	}
	s.mu.Unlock()
	return s.Engine.Promote(ctx, id, epoch)
}

// A switch waits for a writer that stops slowly, because its log has no end before. A writer that
// hangs is killed.
func TestAWriterThatStopsSlowly(t *testing.T) {
	for _, takes := range []time.Duration{0, 1500 * time.Millisecond, 8 * time.Second, time.Hour} {
		t.Run(takes.String(), func(t *testing.T) {
			s := &slowEngines{takes: takes, stopping: map[string]time.Time{}}
			wrap := func(o *sharedstorage.Options) { s.Engine, o.Ports.Engine = o.Ports.Engine, s }
			inHarness(t, setup{sim: times(), options: wrap}, func(l *harness) {
				up(l, "blue")
				id, _ := l.reader("blue")
				began := time.Now()
				l.request("blue", "switch-writer", id)
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
				l.awaitRunning("blue", time.Hour)
				l.visited("Interrupted", 0)
				l.checkInvariants("blue")
			})
		})
	}
}

// hookedEngine calls a function before or after one call of an engine, once.
type hookedEngine struct {
	port.Engine
	moment string // before or after a call
	do     func()

	once sync.Once
}

func (e *hookedEngine) at(moment string) {
	if moment == e.moment && e.do != nil {
		e.once.Do(e.do)
	}
}

func (e *hookedEngine) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	e.at("before stop")
	defer e.at("after stop")
	return e.Engine.Stop(ctx, id, mode)
}

func (e *hookedEngine) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	e.at("before promote")
	defer e.at("after promote")
	return e.Engine.Promote(ctx, id, epoch)
}

// A candidate that goes down during a switch comes back and takes over. If it does not, the old
// writer is started again. But if the candidate has the grant it may have written, and a person
// decides.
func TestACandidateThatFalls(t *testing.T) {
	falls := []struct {
		what string
		fall func(w *sim.Simulation, name string)
		back bool
	}{
		{"its engine", func(w *sim.Simulation, name string) { w.KillEngine(ref("blue"), name) }, true},
		{"its pod", func(w *sim.Simulation, name string) { w.KillInstance(ref("blue"), name) }, true},
		{"it with its data", func(w *sim.Simulation, name string) { w.DropInstance(ref("blue"), name) }, false},
		{"its disk", func(w *sim.Simulation, name string) { w.BreakEngine(ref("blue"), name, "its disk is broken") }, false},
	}
	for _, moment := range []string{"before stop", "after stop", "before promote", "after promote"} {
		for _, f := range falls {
			t.Run(f.what+" "+moment, func(t *testing.T) {
				e := &hookedEngine{moment: moment}
				wrap := func(o *sharedstorage.Options) { e.Engine, o.Ports.Engine = o.Ports.Engine, e }
				inHarness(t, setup{sim: times(), options: wrap}, func(l *harness) {
					up(l, "blue")
					old := l.sim.Writer(ref("blue"))
					id, candidate := l.reader("blue")
					var fell time.Time
					e.do = func() { fell = time.Now(); f.fall(l.sim, candidate.Name) }
					l.request("blue", "switch-writer", id)
					run := l.phase(l.atStep("HA/DisableHA").ID, runtype.Succeeded, runtype.Paused)
					granted := strings.HasSuffix(moment, "promote")
					switch {
					case fell.IsZero():
						t.Fatal("nothing has fallen")
					case f.back:
						if run.Phase != runtype.Succeeded {
							t.Fatalf("the run is %s: %v", run.Phase, run.Fault)
						}
					case !granted:
						if run.Fault == nil || run.Fault.Code != port.SwitchRefused.Code {
							t.Errorf("the run is %s: %v", run.Phase, run.Fault)
						}
						l.until("blue", "written by the old writer", 10*time.Second, func(*sharedstorage.Cluster) bool { return l.sim.Writer(ref("blue")) == old })
						l.must(l.engine.Cancel(l.t.Context(), run.ID, runtype.Undo, false, workflow.Actor{Name: "uma"}))
					default:
						if run.Fault == nil || run.Fault.Code != port.WriterUnhealthy.Code {
							t.Errorf("the run is %s: %v", run.Phase, run.Fault)
						}
						l.request("blue", "rebuild", "cluster")
					}
					if took := time.Since(fell); took > 30*time.Second {
						t.Errorf("it took %s", took)
					}
					l.sim.BreakEngine(ref("blue"), candidate.Name, "")
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
				})
			})
		}
	}
}
