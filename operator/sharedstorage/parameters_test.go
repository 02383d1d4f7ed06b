package sharedstorage_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func parameters(pairs ...string) func(s *v1alpha1.SharedStorageClusterSpec) {
	return func(s *v1alpha1.SharedStorageClusterSpec) {
		s.Parameters = map[string]string{}
		for n := 0; n < len(pairs); n += 2 {
			s.Parameters[pairs[n]] = pairs[n+1]
		}
	}
}

// Parameters that are edited while a run works are not lost: the run sets them, or a later one
// does. They are recorded only when every engine has them.
func TestParametersEditedDuringARun(t *testing.T) {
	wide := parameters("work_mem", "16MB", "max_connections", "300")
	for _, c := range []struct {
		what, step string
		begin      func(l *harness)
		first      bool // the cluster is being created
	}{
		{"create, at its readers", "CreateRoPods[2]/CreateReader", func(l *harness) { l.create("blue", nil) }, true},
		{"create, at its manager", "CreateClusterManager", func(l *harness) { l.create("blue", nil) }, true},
		{"clone, at its readers", "CreateRoPods[3]/CreateReader", func(l *harness) {
			l.create("red", nil)
			l.awaitRunning("red", time.Hour)
			l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "red" })
		}, true},
		{"class, at a reader", "HA/Readers[3]/Recreate/RecreateInstance", func(l *harness) { l.edit("blue", large) }, false},
		{"class, at the writer", "HA/RecreateWriter/Switch/FenceOldWriter", func(l *harness) { l.edit("blue", large) }, false},
		{"class, behind the engines", "EnsureManagerApart", func(l *harness) { l.edit("blue", large) }, false},
		{"upgrade", "HA/RecreateWriter/ChooseCandidate", func(l *harness) {
			l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" })
		}, false},
		{"more readers", "Readers[4]/AwaitCaughtUp", func(l *harness) { l.edit("blue", readers(3)) }, false},
		{"parameters, at the restarts", "HA/RestartIfNeeded", func(l *harness) { l.edit("blue", parameters("max_connections", "200")) }, false},
		{"a rebuild", "CreateRoPods[4]/AwaitCaughtUp", func(l *harness) { l.request("blue", "rebuild", "cluster") }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			o := times()
			o.Latency = 50 * time.Millisecond // no step ends before the test sees it
			inHarness(t, setup{sim: o}, func(l *harness) {
				if !c.first {
					up(l, "blue")
				}
				c.begin(l)
				l.atStep(c.step)
				l.edit("blue", wide)
				l.awaitRunning("blue", time.Hour)
				l.checkInvariants("blue")
			})
		})
	}
}

// An edit that is reverted while a reader is created leaves nothing behind.
func TestParametersTakenBackWhileAReaderIsMade(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		l.atStep("Readers[4]/CreateReader")
		l.edit("blue", parameters("max_connections", "300"))
		l.atStep("Readers[4]/AwaitCaughtUp")
		l.edit("blue", parameters())
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// flushes counts the runs of FlushParameters.
func (l *harness) flushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.moves {
		if strings.Contains(m, ">ModifyingParameters event") {
			n++
		}
	}
	return n
}

// A reader that does not answer gets the parameters later. Until then they are not recorded, and
// no run is repeated for it.
func TestParametersOfAReaderThatDoesNotAnswer(t *testing.T) {
	for what, told := range map[string]bool{"at all": false, "since it was told, and has not restarted": true} {
		t.Run(what, func(t *testing.T) {
			o := times()
			o.Latency = 200 * time.Millisecond
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				was := l.observe("blue").Status.ParametersHash
				_, i := l.reader("blue")
				silent := sim.Rule{Port: "Engine", Instance: i.Name, Do: sim.Timeout}
				if !told {
					l.sim.Inject(silent)
				}
				l.sim.ClearLog()
				l.edit("blue", parameters("work_mem", "16MB", "max_connections", "300"))
				for told && !slices.ContainsFunc(l.sim.Calls(), func(c sim.Call) bool { return c.Method == "Apply" && c.Ref.Instance == i.Name }) {
					time.Sleep(20 * time.Millisecond)
				}
				l.sim.Inject(silent)
				time.Sleep(20 * time.Minute)
				if got := l.observe("blue").Status.ParametersHash; got != was {
					t.Errorf("the hash %s is recorded, and a reader was not asked\n%s", got, l.story())
				}
				if n := l.flushes(); n != 1 {
					t.Errorf("%d runs\n%s", n, l.story())
				}
				l.sim.Heal()
				time.Sleep(2 * time.Minute)
				l.awaitRunning("blue", time.Hour)
				l.checkInvariants("blue")
				if n := l.flushes(); n != 2 {
					t.Errorf("%d runs after it came back\n%s", n, l.story())
				}
			})
		})
	}
}

// A reader that fails for good is rebuilt with the newest parameters.
func TestParametersOfAReaderThatFailed(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		_, i := l.reader("blue")
		l.sim.BreakEngine(ref("blue"), i.Name, "no shared memory")
		l.edit("blue", parameters("max_connections", "300"))
		time.Sleep(5 * time.Minute)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		if n := l.flushes(); n != 1 {
			t.Errorf("%d runs\n%s", n, l.story())
		}
	})
}

// A parameter that engines reject interrupts the run, also one that is edited while the class
// changes. It is neither recorded nor tried again and again.
func TestAParameterThatIsRefusedDuringARun(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", large)
		l.atStep("HA/RecreateWriter/Switch/FollowNewWriter")
		l.edit("blue", parameters("bad_one", "1"))
		l.interrupted(port.ParameterInvalid.Code, time.Hour)
		time.Sleep(20 * time.Minute)
		c := l.interrupted(port.ParameterInvalid.Code, time.Hour)
		if n := l.flushes(); n != 0 {
			t.Errorf("%d runs\n%s", n, l.story())
		}
		l.edit("blue", parameters("work_mem", "1MB"))
		l.resume(c)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// alwaysPendingRestart is a writer with a setting that always waits for a restart, such as one
// that a newer version of its agent has set.
type alwaysPendingRestart struct{ port.Engine }

func (r alwaysPendingRestart) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := r.Engine.Status(ctx, id)
	st.Restart = st.Restart || st.Role == port.Primary
	return st, err
}

// An engine that waits for a restart although it has the parameters of the spec is left alone.
func TestNoRestartThatNobodyAskedFor(t *testing.T) {
	odd := false
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) {
		if odd {
			o.Ports.Engine = alwaysPendingRestart{o.Ports.Engine}
		}
	}}, func(l *harness) {
		up(l, "blue")
		odd = true
		l.kill()
		time.Sleep(time.Hour)
		if n := l.flushes(); n != 0 {
			t.Errorf("%d runs\n%s", n, l.story())
		}
		l.awaitRunning("blue", time.Minute)
		l.checkInvariants("blue")
	})
}

// A surplus reader without data is removed instead of rebuilt.
func TestAReaderWithoutDataThatNobodyWants(t *testing.T) {
	var away atomic.Bool
	o := times()
	o.Latency = 500 * time.Millisecond
	o.Around = func(call sim.Call, _ sim.When) error {
		if away.Load() && call.Port == "Engine" && call.Method == "Install" {
			return port.PodLost.Errorf("the copy fails")
		}
		return nil
	}
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		away.Store(true)
		l.edit("blue", readers(3))
		run := l.atStep("Readers[4]/CreateReader")
		time.Sleep(8 * time.Minute)
		l.edit("blue", readers(2))
		_ = l.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{Name: "uma"}) // the run may have been given up by itself
		l.awaitRunning("blue", 30*time.Minute)
		l.checkInvariants("blue")
		l.visited("RebuildingReader", 0)
	})
}

// A run that adds a reader is dropped before the reader has data. The reader is rebuilt, and a
// change of parameters meanwhile does not try to start it.
func TestAReaderWithoutData(t *testing.T) {
	for name, edit := range map[string]func(s *v1alpha1.SharedStorageClusterSpec){
		"left alone":       func(*v1alpha1.SharedStorageClusterSpec) {},
		"other parameters": parameters("max_connections", "300"),
	} {
		t.Run(name, func(t *testing.T) {
			o := times()
			o.Latency = 500 * time.Millisecond
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				l.edit("blue", readers(3))
				run := l.atStep("Readers[4]/CreateReader")
				for l.count() < 4 {
					time.Sleep(100 * time.Millisecond)
				}
				l.must(l.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{Name: "uma"}))
				l.edit("blue", edit)
				time.Sleep(10 * time.Minute)
				l.awaitRunning("blue", time.Minute)
				l.checkInvariants("blue")
				for _, call := range l.sim.Calls() {
					if strings.Contains(call.String(), "has no data") {
						t.Error(call)
					}
				}
			})
		})
	}
}
