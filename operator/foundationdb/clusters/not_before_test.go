package clusters

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// A plan tells the earliest moment at which a gate can open, and not when the link looks at it again.
func TestNotBefore(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(v fdb.Verdict, before ...v1beta2.PlanEntry) v1beta2.PlanEntry {
		t.Helper()
		d := closed(v, startAgain)
		if d.Outcome.After() < startAgain {
			t.Errorf("looked at again after %s", d.Outcome.After())
		}
		links := chain.Chain[*pass]{{Name: "BounceProcesses", Decide: func(*pass) decision { return d }}}
		entries := Entries(links.Plan(nil), before, "", now)
		if len(entries) != 1 {
			t.Fatalf("entries: %v", entries)
		}
		return entries[0]
	}
	in := func(d time.Duration) fdb.Verdict {
		return fdb.Verdict{Reason: fdb.RecoveredRecently, Message: "up for 10m0s", In: d}
	}
	for _, d := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 9 * time.Minute} {
		if e := entry(in(d)); e.NotBefore == nil || !e.NotBefore.Equal(&metav1.Time{Time: now.Add(d)}) {
			t.Errorf("closed for %s: %v", d, e.NotBefore)
		}
	}
	if e := entry(fdb.Verdict{Reason: fdb.NoCleanBounce, Message: "no"}); e.NotBefore != nil {
		t.Errorf("it is not known: %v", e.NotBefore)
	}

	if e := entry(fdb.Verdict{Reason: ActedBefore, Message: "no", In: time.Minute}); e.NotBefore != nil {
		t.Errorf("it may open before: %v", e.NotBefore)
	}

	told := entry(in(time.Minute))
	if e := entry(in(time.Minute+20*time.Second), told); !e.NotBefore.Equal(told.NotBefore) {
		t.Errorf("told anew: %v", e.NotBefore)
	}
	if e := entry(in(2*time.Minute), told); e.NotBefore.Equal(told.NotBefore) {
		t.Error("another restart is not told")
	}
	now = told.NotBefore.Time // and the gate is still closed
	if e := entry(in(3*time.Second), told); !e.NotBefore.After(now) {
		t.Errorf("it tells a moment that has passed: %v", e.NotBefore)
	}
}
