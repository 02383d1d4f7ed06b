package sharedstorage_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// laggingCandidate is a candidate that reports the end of the log some time after the writer has
// stopped: the first time after first, later ones after then.
type laggingCandidate struct {
	port.Engine
	old, candidate string
	first, then    time.Duration
	mu             sync.Mutex
	stopped        time.Time
	stops, starts  int
	down           bool
}

func (e *laggingCandidate) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	e.mu.Lock()
	if id.Instance == e.old && !e.down {
		e.stopped, e.down = time.Now(), true
		e.stops++
	}
	e.mu.Unlock()
	return e.Engine.Stop(ctx, id, mode)
}

func (e *laggingCandidate) Start(ctx context.Context, id port.Ref) error {
	e.mu.Lock()
	if id.Instance == e.old && e.down {
		e.down = false
		e.starts++
	}
	e.mu.Unlock()
	return e.Engine.Start(ctx, id)
}

func (e *laggingCandidate) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := e.Engine.Status(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	late := e.first
	if e.stops > 1 {
		late = e.then
	}
	if err == nil && id.Instance == e.candidate && e.down && time.Since(e.stopped) < late {
		st.Position -= 1000
		st.Received = st.Position
	}
	return st, err
}

// A candidate that missed the end of the log receives it from the old writer, which is started
// again for that a few times, but not without limit.
func TestTheEndOfTheLogIsToldAgain(t *testing.T) {
	for _, then := range []time.Duration{0, 1500 * time.Millisecond, time.Hour} {
		t.Run(then.String(), func(t *testing.T) {
			e := &laggingCandidate{first: 7 * time.Second, then: then}
			wrap := func(o *sharedstorage.Options) { e.Engine, o.Ports.Engine = o.Ports.Engine, e }
			inHarness(t, setup{sim: times(), options: wrap}, func(l *harness) {
				up(l, "blue")
				time.Sleep(time.Minute)
				id, candidate := l.reader("blue")
				old := l.sim.Writer(ref("blue"))
				e.mu.Lock()
				e.old, e.candidate = old, candidate.Name
				e.mu.Unlock()
				l.request("blue", "switch-writer", id)
				run := l.phase(l.atStep("HA/DisableHA").ID, runtype.Succeeded, runtype.Paused)
				if came := then < time.Hour; came != (run.Phase == runtype.Succeeded) {
					t.Errorf("the run is %s: %v", run.Phase, run.Fault)
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.stops > 3 || e.starts > 3 {
					t.Errorf("the old writer was stopped %d times and started %d times", e.stops, e.starts)
				}
			})
		})
	}
}

// delayedAgent is an agent that starts its engine some time after the call, as the real one does,
// and a candidate that replays its own log for a while after it has come back.
type delayedAgent struct {
	port.Engine
	old, candidate string
	takes, replays time.Duration
	mu             sync.Mutex
	stopped        time.Time
	starts, gen    int
}

func (e *delayedAgent) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	e.mu.Lock()
	if id.Instance == e.old && e.stopped.IsZero() {
		e.stopped = time.Now()
	}
	if id.Instance == e.old {
		e.gen++ // as callStop does: it withdraws an earlier start
	}
	e.mu.Unlock()
	return e.Engine.Stop(ctx, id, mode)
}

func (e *delayedAgent) Start(ctx context.Context, id port.Ref) error {
	e.mu.Lock()
	delayed := id.Instance == e.old && !e.stopped.IsZero() && e.starts == 0
	if delayed {
		e.starts++
	}
	gen := e.gen
	again := id.Instance == e.old && !e.stopped.IsZero() && !delayed
	e.mu.Unlock()
	if delayed {
		go func() {
			time.Sleep(e.takes)
			e.mu.Lock()
			off := gen != e.gen
			e.mu.Unlock()
			if !off {
				_ = e.Engine.Start(context.Background(), id)
			}
		}()
		return nil
	}
	if again {
		return nil
	}
	return e.Engine.Start(ctx, id)
}

func (e *delayedAgent) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := e.Engine.Status(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && id.Instance == e.candidate && !e.stopped.IsZero() && time.Since(e.stopped) < e.replays {
		st.Position -= 1000
		st.Received = 0
	}
	return st, err
}

// The grant is not taken from a writer that is about to start: it would write under its old lease
// while the new writer writes, too.
func TestAStartThatIsUnderWay(t *testing.T) {
	for replays := 7500; replays <= 9000; replays += 500 {
		for takes := 1560; takes <= 1760; takes += 20 {
			t.Run(fmt.Sprintf("replays %d takes %d", replays, takes), func(t *testing.T) {
				o := times()
				o.Latency, o.Times.Start = 200*time.Millisecond, 100*time.Millisecond
				e := &delayedAgent{takes: time.Duration(takes) * time.Millisecond, replays: time.Duration(replays) * time.Millisecond}
				wrap := func(o *sharedstorage.Options) { e.Engine, o.Ports.Engine = o.Ports.Engine, e }
				inHarness(t, setup{sim: o, options: wrap}, func(l *harness) { // inHarness checks for violations
					up(l, "blue")
					time.Sleep(time.Minute)
					id, candidate := l.reader("blue")
					old := l.sim.Writer(ref("blue"))
					e.mu.Lock()
					e.old, e.candidate = old, candidate.Name
					e.mu.Unlock()
					l.request("blue", "switch-writer", id)
					l.until("blue", "written by another", time.Hour, func(c *sharedstorage.Cluster) bool { return c.Status.Writer == id })
					l.awaitRunning("blue", time.Hour)
				})
			})
		}
	}
}

// A failover that ended between its revocation and its grant leaves nobody with the grant. A
// switch to a reader that lacks rows is refused in that case, too.
func TestASwitchWhileNobodyHasTheGrant(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			off := false
			l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.HA.Enabled = &off })
			l.awaitRunning("blue", 10*time.Minute)
			time.Sleep(time.Minute)
			old := l.sim.Writer(ref("blue"))
			id, candidate := l.reader("blue")
			l.sim.KillEngine(ref("blue"), candidate.Name)
			time.Sleep(10 * time.Second) // clients get answers for rows that only the other reader has
			l.sim.KillEngine(ref("blue"), old)
			if revoked {
				l.must(l.sim.Ports().Storage.Grant(t.Context(), ref("blue"), "", l.sim.Volume(ref("blue")).Epoch))
			}
			l.must(l.sim.Ports().Engine.Start(t.Context(), ref("blue").Of(candidate.Name)))
			time.Sleep(4 * time.Second)
			l.request("blue", "switch-writer", id)
			run := l.phase(l.atStep("CheckCandidate").ID, runtype.Succeeded, runtype.Paused)
			if run.Fault == nil || run.Fault.Code != port.SwitchRefused.Code {
				t.Errorf("revoked %t: the run is %s, %v", revoked, run.Phase, run.Fault)
			}
		})
	}
}
