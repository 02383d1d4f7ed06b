package lease

import (
	"testing"
	"time"
)

// TestFinding3LeaseByTwoClocks: the lease ends by the clock that shows more time. A gap ends the
// term. A call that began before the gap belongs to no term.
func TestFinding3LeaseByTwoClocks(t *testing.T) {
	start := Now()
	asleep := func(awake, whole time.Duration) Instant { return Instant{start.at.Add(awake), start.boot + whole} }
	l := &Lease{Duration: 15 * time.Second}
	if l.TermOf(start) != 0 || l.Remaining(0) != 0 {
		t.Error("a worker without a lease has one")
	}
	first := l.Extend(start, 0)
	for _, c := range []struct {
		awake, whole time.Duration
		term         int
	}{{time.Second, time.Second, first}, {time.Second, 16 * time.Second, 0}, {16 * time.Second, 16 * time.Second, 0}, {16 * time.Second, time.Second, 0}} {
		if got := l.TermOf(asleep(c.awake, c.whole)); got != c.term {
			t.Errorf("after %s awake of %s: term %d, want %d", c.awake, c.whole, got, c.term)
		}
	}
	if left := l.Remaining(first); left <= 0 || left > l.Duration {
		t.Errorf("%s are left", left)
	}
	if l.Extend(asleep(10*time.Second, 10*time.Second), 0) != first {
		t.Error("a renewal in time starts a new term")
	}
	second := l.Extend(asleep(11*time.Second, 26*time.Second), 0) // the machine slept
	if second == first || l.Remaining(first) != 0 {
		t.Error("a renewal behind a gap goes on with the old term")
	}
	if l.Extend(asleep(10*time.Second, 12*time.Second), 0) == second {
		t.Error("a call from before the gap belongs to the new term")
	}
	l.Lose()
	if l.Remaining(second) != 0 {
		t.Error("a lost lease holds")
	}
	if third := l.Extend(asleep(12*time.Second, 27*time.Second), 0); third == second || third == first {
		t.Error("a lost term goes on")
	}
}
