package rollout

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// TestOutages: what the API server was away is kept for the rollout in which it was, and a process that
// takes over adds to what the status says.
func TestOutages(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &memory{}
	outage := func(from, to time.Duration) {
		m.lost(begin.Add(from))
		m.found(begin.Add(to))
	}
	is := func(what string, want time.Duration) {
		t.Helper()
		if m.unavailable != want {
			t.Errorf("%s: %s, not %s", what, m.unavailable, want)
		}
	}
	outage(0, time.Minute) // before the first pass
	m.enter(rollout.Position{Number: 3, Outage: rollout.Duration(time.Hour)}, begin.Add(time.Minute))
	is("a process that takes over", time.Hour+time.Minute)
	outage(2*time.Minute, 3*time.Minute)
	m.enter(rollout.Position{Number: 3, CurrentBatch: 1}, begin.Add(3*time.Minute)) // the answer to the save of batch 1 was lost
	is("the next batch", time.Hour+2*time.Minute)
	m.enter(rollout.Position{Number: 4}, begin.Add(4*time.Minute))
	is("the next rollout", 0)
	if !m.since.Equal(begin.Add(time.Minute)) {
		t.Errorf("it works since %s", m.since)
	}
}
