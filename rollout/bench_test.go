package rollout_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// large is a rollout of 1,000 pods in 100 batches that stands in the middle.
func large(b *testing.B) (rollout.Plan, rollout.Position, rollout.Facts) {
	b.Helper()
	plan := rollout.Plan{NumBatches: new(100), Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{
		Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority,
	}}}
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 1000, plan)
	at := rollout.Position{}
	for at.State != rollout.InBatch {
		d := rollout.Next(plan, at, f, f.Now)
		at = d.Position
		for _, a := range d.Acts {
			if a.Claim == rollout.TakeClaim {
				f.Target.Controller, f.Target.Anchored, f.Target.Held = &rollout.Owner{Name: "db", UID: f.Rollout.UID}, true, true
			}
		}
	}
	at.CurrentBatch, at.BatchState = 50, rollout.BatchVerifying
	f.Target.Partition = 490
	for i := range f.Pods {
		if f.Pods[i].Ordinal >= 500 {
			f.Pods[i].Revision = "new"
		}
		f.Pods[i].Zone = "zone-" + strconv.Itoa(i%3)
	}
	return plan, at, f
}

func BenchmarkNext(b *testing.B) {
	plan, at, f := large(b)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if d := rollout.Next(plan, at, f, now); d.Outcome.Reason() != "PodsNotReady" {
		b.Fatal(d.Outcome)
	}
	b.ReportAllocs()
	for b.Loop() {
		rollout.Next(plan, at, f, now)
	}
}

// BenchmarkRelease is the decision about the next pod, with its budgets.
func BenchmarkRelease(b *testing.B) {
	plan, at, f := large(b)
	at.BatchState, f.Target.Partition = rollout.BatchInRolling, 500
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if d := rollout.Next(plan, at, f, now); len(d.Acts) != 1 {
		b.Fatal(d.Outcome)
	}
	b.ReportAllocs()
	for b.Loop() {
		rollout.Next(plan, at, f, now)
	}
}

func BenchmarkPreview(b *testing.B) {
	plan := rollout.Plan{NumBatches: new(100)}
	f := rollout.IdealFacts(rollout.StatefulSet, "db", 1000, plan)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rollout.Preview(plan, f); err != nil {
			b.Fatal(err)
		}
	}
}
