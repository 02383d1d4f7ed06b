package sim

import (
	"testing"
	"time"
)

// TestCausesAreToldApart: while two protocols are there, servers that have to follow may end within the window, and the
// database may look for better places while too many generations are active. Nothing else may.
func TestCausesAreToldApart(t *testing.T) {
	for _, x := range []struct {
		kind        causeKind
		since       time.Duration // the last burst
		mixed       bool
		generations int
		violated    bool
	}{
		{ended, 40 * time.Second, true, 1, false},
		{ended, 40 * time.Second, false, 1, true},
		{changed, 40 * time.Second, true, 1, true},
		{better, 40 * time.Second, true, 1, true},
		{changed, 70 * time.Second, false, 1, false},
		{better, 10 * time.Second, false, 11, false},
		{changed, 10 * time.Second, false, 11, true},
		{ended, 10 * time.Second, false, 11, true},
		{better, 70 * time.Second, false, 11, true},
	} {
		c := New(Options{Seed: 1})
		c.clock.now = time.Hour
		c.recovery.generations = make([]generation, x.generations)
		c.judge.owner, c.judge.bursts, c.judge.burst, c.judge.mixed = "operator", 1, c.clock.now-x.since, x.mixed
		c.judge.recovery(because(x.kind, "words that say nothing"))
		if got := len(c.Violations()) > 0; got != x.violated {
			t.Errorf("%+v: %v", x, c.Violations())
		}
	}
}
