package sharedstorage_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// topologyLock returns the lock on the topology of blue; nil if nobody has it.
func (l *harness) topologyLock() *lock.Record {
	l.t.Helper()
	text := l.observe("blue").Annotations[sharedstorage.TopologyLock]
	if text == "" {
		return nil
	}
	var r lock.Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		l.t.Fatal(err)
	}
	return &r
}

// backup takes the lock on the topology for another owner.
func (l *harness) backup(most time.Duration) {
	raw, _ := json.Marshal(lock.Record{Owner: "backup", Start: time.Now(), End: time.Now().Add(most)})
	l.clusters.user("blue", func(k *storedCluster) { k.annotations[sharedstorage.TopologyLock] = string(raw) })
}

func (l *harness) unlock() {
	l.clusters.user("blue", func(k *storedCluster) { delete(k.annotations, sharedstorage.TopologyLock) })
}

func (l *harness) backupHasLock() bool {
	r := l.topologyLock()
	return r != nil && r.Owner == "backup"
}

// lagging makes the newest reader lag.
func (l *harness) lagging(place string, bytes int64) {
	for _, i := range l.sim.Instances(ref("blue")) {
		if i.ID == place {
			l.sim.Lag(ref("blue"), i.Name, bytes)
		}
	}
}

func (l *harness) count() int { return len(l.sim.Instances(ref("blue"))) }

// addReader begins to add a reader in place 4, and keeps it lagging.
func (l *harness) addReader() *runtype.Run {
	l.t.Helper()
	up(l, "blue")
	l.edit("blue", readers(3))
	run := l.atStep("Readers[4]/AwaitCaughtUp")
	l.lagging("4", 64<<20)
	return run
}

// No instance is created while another owner has the lock. When the lock has ended, the readers
// are created (spec 4).
func TestTheTopologyIsLockedByAnother(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.backup(20 * time.Minute)
		l.edit("blue", readers(3))
		for range 19 {
			time.Sleep(time.Minute)
			if !l.backupHasLock() || l.count() != 3 {
				t.Fatalf("the lock is %+v, there are %d instances\n%s", l.topologyLock(), l.count(), l.story())
			}
		}
		if c := l.observe("blue"); c.Status.State != "Locking" {
			t.Errorf("it is %s\n%s", c.Status.State, l.story())
		}
		l.awaitRunning("blue", 10*time.Minute)
		l.checkInvariants("blue")
	})
}

// A lock that does not end interrupts the run, with the remedy; the run takes it when it is free.
func TestTheTopologyStaysLocked(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.backup(24 * time.Hour)
		l.edit("blue", readers(3))
		c := l.interrupted(sharedstorage.TopologyLocked.Code, time.Hour)
		if !l.backupHasLock() || l.count() != 3 {
			t.Errorf("the lock is %+v, there are %d instances\n%s", l.topologyLock(), l.count(), l.story())
		}
		l.unlock()
		l.resume(c)
		l.awaitRunning("blue", 10*time.Minute)
		l.checkInvariants("blue")
	})
}

// The lock is renewed as long as readers are being added, however long that takes.
func TestTheTopologyLockIsRenewed(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.addReader()
		began := l.topologyLock().Start
		for range 25 {
			l.lagging("4", 64<<20)
			time.Sleep(time.Minute)
			r := l.topologyLock()
			if r == nil || !r.Start.Equal(began) || time.Until(r.End) < lock.DefaultDuration/2-5*time.Second || time.Until(r.End) > lock.DefaultDuration {
				t.Fatalf("at %s the lock is %+v\n%s", time.Now(), r, l.story())
			}
		}
		l.lagging("4", 0)
		l.awaitRunning("blue", 10*time.Minute)
		if r := l.topologyLock(); r != nil {
			t.Errorf("at rest the lock is %+v", r)
		}
		l.checkInvariants("blue")
	})
}

// A lock that ended while no operator ran, and that another owner took: the run waits for it, and
// takes it again before it goes on.
func TestTheTopologyLockIsLost(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.addReader()
		l.halt()
		time.Sleep(lock.DefaultDuration + time.Minute)
		if r := l.topologyLock(); r == nil || r.Valid(time.Now()) {
			t.Fatalf("without an operator the lock is %+v", r)
		}
		l.backup(5 * time.Minute)
		l.start()
		l.lagging("4", 0)
		member := func() bool {
			return slices.ContainsFunc(l.sim.Topology(ref("blue")).Members, func(m port.Member) bool { return m.ID == "4" })
		}
		for range 4 {
			time.Sleep(time.Minute)
			if !l.backupHasLock() || member() {
				t.Fatalf("the lock is %+v, member %t\n%s", l.topologyLock(), member(), l.story())
			}
		}
		l.until("blue", "locked again", 5*time.Minute, func(*sharedstorage.Cluster) bool {
			r := l.topologyLock()
			return r == nil || r.Owner != "backup"
		})
		l.awaitRunning("blue", 10*time.Minute)
		l.checkInvariants("blue")
	})
}

// A lock that another owner keeps longer than the step waits interrupts the run.
func TestTheTopologyLockIsTakenAway(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.addReader()
		l.backup(24 * time.Hour)
		c := l.interrupted(sharedstorage.TopologyLocked.Code, time.Hour)
		if !l.backupHasLock() {
			t.Errorf("the lock is %+v", l.topologyLock())
		}
		l.unlock()
		l.lagging("4", 0)
		l.resume(c)
		l.awaitRunning("blue", 10*time.Minute)
		l.checkInvariants("blue")
	})
}

// A lock that ended while the run was stopped is taken again. A cancel with undo or drop releases
// it at once, one with hold lets it expire.
func TestTheTopologyLockAfterACancel(t *testing.T) {
	by := workflow.Actor{Name: "uma", Reason: "test"}
	for _, mode := range []runtype.Mode{runtype.Hold, runtype.Undo, runtype.Drop} {
		t.Run(string(mode), func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				run := l.addReader()
				if mode != runtype.Hold {
					l.edit("blue", readers(2))
				}
				l.must(l.engine.Cancel(t.Context(), run.ID, mode, false, by))
				if mode != runtype.Hold {
					l.phase(run.ID, runtype.Cancelled)
					if r := l.topologyLock(); r != nil {
						t.Errorf("after the cancel the lock is %+v\n%s", r, l.story())
					}
					l.awaitRunning("blue", 30*time.Minute)
					l.checkInvariants("blue")
					return
				}
				l.phase(run.ID, runtype.Paused)
				c := l.state("blue", "Interrupted", time.Minute)
				time.Sleep(lock.DefaultDuration)
				if r := l.topologyLock(); r == nil || r.Valid(time.Now()) {
					t.Errorf("while it is interrupted the lock is %+v\n%s", r, l.story())
				}
				l.resume(c)
				time.Sleep(time.Minute)
				if r := l.topologyLock(); r == nil || !r.Valid(time.Now()) || time.Since(r.Start) > time.Minute {
					t.Errorf("after the resume the lock is %+v\n%s", r, l.story())
				}
				l.lagging("4", 0)
				l.awaitRunning("blue", 10*time.Minute)
				l.checkInvariants("blue")
			})
		})
	}
}

// A cancel with undo of LockTopology releases the lock.
func TestTheTopologyLockIsUndone(t *testing.T) {
	by := workflow.Actor{Name: "uma", Reason: "test"}
	o := times()
	o.Latency = 500 * time.Millisecond
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		run := l.atStep("AwaitQuietTopology")
		if r := l.topologyLock(); r == nil {
			t.Fatalf("it is not locked\n%s", l.story())
		}
		l.edit("blue", readers(2))
		l.must(l.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, by))
		l.phase(run.ID, runtype.Cancelled)
		if r := l.topologyLock(); r != nil {
			t.Errorf("after the undo the lock is %+v\n%s", r, l.story())
		}
		l.awaitRunning("blue", 10*time.Minute)
		l.checkInvariants("blue")
	})
}

// A run took the lock and is gone, and the spec does not want its change any more: the lock is
// released.
func TestTheTopologyLockThatIsLeftBehind(t *testing.T) {
	o := times()
	o.Latency = 500 * time.Millisecond
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		run := l.atStep("AwaitQuietTopology")
		l.edit("blue", readers(2))
		if err := l.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{Name: "uma"}); err != nil {
			t.Fatal(err)
		}
		if l.topologyLock() == nil {
			t.Fatal("nobody had taken the lock: the test shows nothing")
		}
		l.awaitRunning("blue", 10*time.Minute)
		if r := l.topologyLock(); r != nil {
			t.Errorf("%s has the lock until %s", r.Owner, r.End)
		}
	})
}

// A lock that is younger than the state of rest belongs to a run which this pass does not know
// yet: it is left alone.
func TestTheTopologyLockOfAnUnknownRun(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		time.Sleep(time.Minute)
		raw, _ := json.Marshal(lock.Record{Owner: "sharedstorage/uid-1", Start: time.Now(), End: time.Now().Add(lock.DefaultDuration)})
		l.clusters.user("blue", func(k *storedCluster) { k.annotations[sharedstorage.TopologyLock] = string(raw) })
		time.Sleep(5 * time.Minute)
		if l.topologyLock() == nil {
			t.Errorf("it was taken away\n%s", l.story())
		}
	})
}

// Each of the two states writes the lock once, not at each poll.
func TestTheTopologyLockIsWrittenOnce(t *testing.T) {
	o := times()
	o.Latency = 500 * time.Millisecond
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		l.atStep("AwaitQuietTopology")
		written := map[time.Time]bool{}
		for r := l.topologyLock(); r != nil; r = l.topologyLock() {
			written[r.End] = true
			time.Sleep(50 * time.Millisecond)
		}
		if n := len(written); n == 0 || n > 2 {
			t.Errorf("it was written %d times\n%s", n, l.story())
		}
		l.awaitRunning("blue", 10*time.Minute)
	})
}
