package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// rounds returns the number of rounds of the long tests: PAWL_SHAREDSTORAGE_ROUNDS, or otherwise.
func rounds(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("PAWL_SHAREDSTORAGE_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// switchTo does a planned switch with the steps of the flow. It returns how long each part took.
func (b *fixture) switchTo(name string, others ...string) string {
	b.t.Helper()
	old, began := b.writer, time.Now()
	e := b.ports.Engine
	b.must(e.Stop(b.ctx(), c1.Of(old), port.Fast))
	end := b.until(old, "is stopped", func(s port.Status) bool { return !s.Running })
	if !end.Clean {
		b.t.Fatalf("%s was stopped fast and is not clean: %+v", old, end)
	}
	stopped := time.Since(began)
	b.until(name, "has everything", func(s port.Status) bool { return s.Position >= end.Position })
	b.epoch++
	b.must(b.ports.Storage.Grant(b.ctx(), c1, name, b.epoch))
	b.must(e.Promote(b.ctx(), c1.Of(name), b.epoch))
	b.until(name, "writes", func(s port.Status) bool { return s.Role == port.Primary && s.Epoch == b.epoch })
	promoted := time.Since(began)
	b.writer = name
	for _, other := range append(others, old) {
		b.must(e.Follow(b.ctx(), c1.Of(other), name))
	}
	for _, other := range append(others, old) {
		b.until(other, "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == name })
	}
	return fmt.Sprintf("stopped after %s, promoted after %s, all follow after %s", stopped.Round(time.Millisecond), promoted.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// Planned switches under a client that writes without pause: no answered row is lost, there are
// never two writers, and the old one follows.
func TestSwitchLosesNothing(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	w := b.write("a", "b", "c")
	w.more(50)
	n := rounds(4)
	var longest time.Duration
	for round := range n {
		from, to := "a", "b"
		if round%2 == 1 {
			from, to = to, from
		}
		at := time.Now()
		took := b.switchTo(to, "c")
		w.more(50)
		pause := w.pause(at)
		longest = max(longest, pause)
		t.Logf("round %d, %s to %s: writes paused for %s (%s)", round+1, from, to, pause.Round(time.Millisecond), took)
	}
	w.check(n, "a", "b", "c")
	t.Logf("%d rows, longest pause %s", w.count(), longest.Round(time.Millisecond))
}

// A stale promotion is rejected, and so is a grant that is not newer.
func TestStaleEpochsAreRefused(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	e := b.ports.Engine
	if err := e.Promote(b.ctx(), c1.Of("b"), 1); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("promoted without the grant: %v", err)
	}
	if err := b.ports.Storage.Grant(b.ctx(), c1, "b", 1); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("the grant of the same epoch went to another: %v", err)
	}
	if err := e.Follow(b.ctx(), c1.Of("a"), "b"); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("a writer with the grant follows: %v", err)
	}
	b.must(e.Promote(b.ctx(), c1.Of("a"), 1)) // it is the writer of this epoch already
}

// A writer that loses the grant stops before another one writes, although nobody told it. Then it
// comes back as a follower, rewound.
func TestAWriterWithoutGrantIsStopped(t *testing.T) {
	b := newFixture(t, Options{Lease: 2 * time.Second})
	b.create("a", "b")
	w := b.write("a", "b")
	w.more(20)
	b.epoch++
	b.must(b.ports.Storage.Grant(b.ctx(), c1, "b", b.epoch))
	b.must(b.ports.Engine.Promote(b.ctx(), c1.Of("b"), b.epoch))
	b.until("b", "writes", func(s port.Status) bool { return s.Role == port.Primary && s.Epoch == b.epoch })
	if s := b.status("a"); s.Role == port.Primary {
		t.Errorf("both write: %+v", s)
	}
	b.writer = "b"
	w.more(20)
	w.stop()
	b.must(b.ports.Engine.Follow(b.ctx(), c1.Of("a"), "b"))
	b.until("a", "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == "b" })
}

// An agent that was killed finds its engine again. The guard stops a writer whose agent does not
// come back before its lease ends.
func TestAKilledAgent(t *testing.T) {
	b := newFixture(t, Options{Lease: 3 * time.Second})
	b.create("a", "b")
	engine := func() int { return b.engineOf("a").PID }
	before := engine()
	b.must(b.agentOf("a").Signal(syscall.SIGKILL))
	b.instance("a", port.Writer)
	b.until("a", "writes again", func(s port.Status) bool { return s.Role == port.Primary && s.Epoch == 1 })
	if after := engine(); after != before {
		t.Errorf("the engine was process %d and is %d: it did not live on", before, after)
	}
	b.exec("a", "CREATE TABLE still (n int)")

	killed := time.Now()
	b.must(b.agentOf("a").Signal(syscall.SIGKILL))
	eventually(t, 30*time.Second, "the guard stops the engine", func() error {
		if b.engineOf("a").Running() {
			return errors.New("it lives")
		}
		return nil
	})
	if after := time.Since(killed); after > 3*time.Second {
		t.Errorf("the engine lived for %s, its lease is 3s", after)
	}
}

// An agent restarts a follower whose engine was killed.
func TestAKilledEngineComesBack(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	for _, name := range []string{"b", "a"} {
		old := b.engineOf(name)
		old.Kill()
		b.until(name, "is back", func(s port.Status) bool { return s.Ready && b.engineOf(name) != old })
	}
	b.exec("a", "CREATE TABLE back (n int)")
	b.until("b", "streams", func(s port.Status) bool { return s.Streaming })
}
