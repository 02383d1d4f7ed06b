package clusters_test

import (
	"testing"
	"time"
)

// TestWaitingWritesNothing: a cluster that waits for a gate, or for the lock of another, is looked at again and again,
// and its status tells points in time, so it is not written each time.
func TestWaitingWritesNothing(t *testing.T) {
	t.Parallel()
	f, u := alone(t, true)
	u.edit(knob) // the database must be up for ten minutes
	f.goOn(2 * time.Minute)
	since, passes := len(f.acts), u.passes
	f.goOn(4 * time.Minute)
	if n := u.passes - passes; len(f.acts) != since || n < 10 || u.last.Reason() != "RecoveredRecently" {
		f.fail("%d effects in %d passes, %s: %s", len(f.acts)-since, n, u.last, f.acts[since:])
	}
	told := false
	for _, e := range u.object().Status.Plan {
		told = told || e.Link == "BounceProcesses" && e.NotBefore != nil && e.NotBefore.After(f.Now()) && e.NotBefore.Sub(f.Now()) < 10*time.Minute
	}
	if !told {
		f.fail("the plan does not tell when the restart can be")
	}
	f.settle(time.Hour)

	f = kubernetesClusters(t, shared(24, 3), nil)
	kc1, kc2 := f.units[0], f.units[1]
	kc1.replace()
	f.holds("kc1")
	kc1.stopped = true
	kc2.replace()
	f.goOn(2 * time.Minute)
	since = len(f.acts)
	f.goOn(4 * time.Minute)
	for _, d := range f.acts[since:] {
		if d.Owner == "kc2" && d.Verb != "Transact" {
			f.fail("%s", d)
		}
	}
}
