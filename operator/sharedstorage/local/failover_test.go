package local

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// manage starts the cluster manager with these members and waits until a failover would be safe.
func (b *fixture) manage(durability string, names ...string) {
	b.t.Helper()
	want := port.ManagerSpec{Present: true, HA: true, Durability: durability}
	all, err := b.ports.Instances.List(b.ctx(), c1)
	b.must(err)
	for _, i := range all {
		if slices.Contains(names, i.Name) {
			want.Members = append(want.Members, port.Member{Name: i.Name, ID: i.ID, Node: i.Node, Address: i.Address, Port: i.Port, Routed: true})
		}
		if i.Name == b.writer {
			want.AwayFrom = i.Node
		}
	}
	eventually(b.t, 30*time.Second, "the manager", func() error {
		top, err := b.ports.Manager.Ensure(b.ctx(), c1, want)
		if err == nil && (!top.Ready || top.Writer != b.writer) {
			err = fmt.Errorf("%+v", top)
		}
		return err
	})
	b.safe()
}

// safe waits until the readers that the manager counts on have the whole log.
func (b *fixture) safe() {
	b.t.Helper()
	eventually(b.t, 30*time.Second, "the list of readers is safe", func() error {
		s := b.watchState()
		if !s.Sync.Safe || s.Sync.Epoch != b.epoch || !slices.Equal(s.Sync.Names, s.Sync.Want) {
			return fmt.Errorf("%+v", s.Sync)
		}
		return nil
	})
}

// newWriter waits for a failover.
func (b *fixture) newWriter(old string) {
	b.t.Helper()
	eventually(b.t, time.Minute, "a new writer", func() error {
		top, err := b.ports.Manager.Topology(b.ctx(), c1)
		if err != nil {
			return err
		}
		if top.Writer == old || top.Writer == "" {
			return fmt.Errorf("%s %s", top.Code, top.Message)
		}
		b.writer, b.epoch = top.Writer, top.Epoch
		return nil
	})
	b.until(b.writer, "writes", func(s port.Status) bool { return s.Role == port.Primary && s.Epoch == b.epoch })
}

// power cuts the power of an instance: its agent and its engine are gone at once.
func (b *fixture) power(name string) {
	b.t.Helper()
	b.must(b.locked(func() error { b.crash(b.folder(c1, "instances", name)); return nil }))
}

// SIGKILL of the writer with failover on and strict durability: there is a failover, no answered
// row is lost, and the old writer comes back rewound.
func TestFailoverLosesNothing(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	w := b.write("a", "b", "c")
	w.more(50)
	n := rounds(2)
	for round := range n {
		old, at := b.writer, time.Now()
		b.power(old)
		b.newWriter(old)
		w.more(50)
		t.Logf("round %d, %s to %s: writes paused for %s", round+1, old, b.writer, w.pause(at).Round(time.Millisecond))
		b.instance(old, port.Reader)
		b.until(old, "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == b.writer })
		b.safe()
	}
	w.check(n, "a", "b", "c")
	t.Logf("%d rows", w.count())
}

// With strict durability, a reader that may be the only one with a commit must answer: without it
// there is no failover, and the message names it.
func TestFailoverThatCouldLoseIsRefused(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	b.power("b")
	b.power("a")
	eventually(t, 30*time.Second, "the refusal", func() error {
		top, err := b.ports.Manager.Topology(b.ctx(), c1)
		if err == nil && (top.Code != "FAILOVER_UNSAFE" || top.Writer != "a") {
			err = fmt.Errorf("%s of %s: %s", top.Code, top.Writer, top.Message)
		}
		return err
	})
	b.instance("b", port.Reader)
	b.newWriter("a")
}

// Failover that is off comes back by itself at its time, and not before.
func TestFailoverIsOffUntil(t *testing.T) {
	b := newFixture(t, Options{Lease: 2 * time.Second})
	b.create("a", "b")
	b.manage("strict", "a", "b")
	until := time.Now().Add(12 * time.Second)
	b.must(b.ports.Manager.SetHA(b.ctx(), c1, false, until))
	b.power("a")
	b.newWriter("a")
	if time.Now().Before(until) {
		t.Errorf("it failed over %s before the end of the time without", time.Until(until))
	}
}

// A switch while the manager maintains the list of readers: no answered row is lost, and the list
// is safe again afterwards. The manager is killed during the switch.
func TestSwitchWithAManager(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	w := b.write("a", "b", "c")
	w.more(50)
	n := rounds(2)
	for round := range n {
		from, to := "a", "b"
		if round%2 == 1 {
			from, to = to, from
		}
		at := time.Now()
		b.must(b.ports.Manager.SetHA(b.ctx(), c1, false, time.Now().Add(time.Minute)))
		took := b.switchTo(to, "c")
		b.must(b.ports.Manager.SetHA(b.ctx(), c1, true, time.Time{}))
		w.more(50)
		t.Logf("round %d, %s to %s: writes paused for %s (%s)", round+1, from, to, w.pause(at).Round(time.Millisecond), took)
		b.must(b.managerOf().Signal(syscall.SIGKILL))
		b.manage("strict")
	}
	w.check(n, "a", "b", "c")
}

// While no reader is healthy, a writer with available durability answers commits and one with
// strict durability does not.
func TestDurabilityWithoutReaders(t *testing.T) {
	for _, durability := range []string{"strict", "available"} {
		t.Run(durability, func(t *testing.T) {
			b := newFixture(t, Options{})
			b.create("a", "b")
			b.manage("strict", "a", "b")
			if durability == "available" {
				_, err := b.ports.Manager.Ensure(b.ctx(), c1, port.ManagerSpec{Present: true, HA: true, Durability: durability})
				b.must(err)
			}
			b.exec("a", "CREATE TABLE kept (n int)")
			b.power("b")
			done := make(chan error, 1)
			go func() {
				_, err := b.query("a", "INSERT INTO kept VALUES (1) RETURNING 'there'")
				done <- err
			}()
			select {
			case err := <-done:
				if durability == "strict" || err != nil {
					t.Fatalf("answered without a reader: %v", err)
				}
				return
			case <-time.After(map[string]time.Duration{"strict": 5 * time.Second, "available": 30 * time.Second}[durability]):
				if durability == "available" {
					t.Fatal("not answered, though no reader is healthy")
				}
			}
			b.instance("b", port.Reader)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The manager notices two engines that write, and stops the one with the lower epoch.
func TestTwoWriters(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	b.manage("strict", "a", "b", "c")
	b.must(b.ports.Manager.SetHA(b.ctx(), c1, false, time.Time{}))
	b.promoteBehindTheAgent("c")
	eventually(t, 20*time.Second, "c is stopped", func() error {
		if s := b.status("c"); s.Running && s.Role == port.Primary {
			return errors.New("it writes")
		}
		return nil
	})
	if s := b.status("a"); s.Role != port.Primary {
		t.Errorf("the writer does not write: %+v", s)
	}
}
