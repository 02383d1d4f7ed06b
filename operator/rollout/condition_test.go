package rollout

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

var update = flag.Bool("update", false, "write testdata/conditions.txt anew")

// situation is what a person, or a tool, may meet.
type situation struct {
	name string
	reading
}

func situations() []situation {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	early := now.Add(-time.Minute)
	waiting := func(reason, message string) *rollout.Waiting {
		return &rollout.Waiting{Reason: reason, Message: message, Since: early}
	}
	batches := map[int]rollout.BatchPosition{0: {Size: 1, Target: 1}, 1: {Size: 4, Target: 5}}
	moving := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchVerifying, Mode: rollout.Rollout, Batches: batches, TargetSize: new(5), Upgraded: 1, TargetRevision: "db-2", SourceRevision: "db-1"}
	with := func(at rollout.Position, change func(*rollout.Position)) rollout.Position {
		change(&at)
		return at
	}
	wait := outcome.Wait(0, "Waiting", "")
	all := []situation{
		{"before the first observation", reading{out: outcome.Fail(fault.APIUnavailable.Errorf("connection refused"))}},
		{"a plan that cannot be", reading{out: outcome.Fail(rollout.PlanInvalid.Errorf("rolloutBatches[1].replicas: 3x is no number"))}},
		{"nothing to do", reading{at: rollout.Position{State: rollout.Locating, Waiting: waiting("NothingToRoll", "all 5 pods have revision db-1")}, out: wait, observed: true, held: true, guarded: true}},
		{"pods are not ready", reading{at: with(moving, func(at *rollout.Position) { at.Waiting = waiting("PodsNotReady", "0 of 1 pods are ready") }), out: wait, observed: true, held: true}},
		{"past its deadline", reading{at: with(moving, func(at *rollout.Position) {
			at.Waiting = waiting("PodsNotReady", "0 of 1 pods are ready")
			at.Waiting.Deadline = &early
		}), out: wait, observed: true, held: true, guarded: true}},
		{"an edit of the plan that is refused", reading{at: with(moving, func(at *rollout.Position) {
			at.Waiting, at.PlanRefused = waiting("PodsNotReady", "0 of 1 pods are ready"), "rolloutBatches[0]: the batch has begun"
		}), out: wait, observed: true, held: true, guarded: true}},
		{"an edit to a gate that cannot be evaluated", reading{at: with(moving, func(at *rollout.Position) {
			at.Waiting, at.PlanRefused = waiting("GateInvalid", "gate g is closed: line 1, column 9: undeclared reference to 'foo'"), "gates[0].expression: gate g: line 1, column 9: undeclared reference to 'foo'"
		}), out: wait, observed: true, held: true, guarded: true}},
		{"held by the partition", reading{at: with(moving, func(at *rollout.Position) {
			at.BatchState, at.Waiting = rollout.BatchReady, waiting("HeldByPartition", "batch 1 may run when it is approved")
		}), out: wait, observed: true, held: true, guarded: true}},
		{"paused by a person", reading{at: with(moving, func(at *rollout.Position) {
			at.Pause, at.Waiting = &rollout.Pause{ID: "pause-4", By: rollout.ByUser, Reason: "PausedByUser", Message: "the plan says paused"}, waiting("PausedByUser", "the plan says paused")
		}), out: wait, observed: true, held: true, guarded: true}},
		{"paused by a deadline", reading{at: with(moving, func(at *rollout.Position) {
			at.Pause, at.Waiting = &rollout.Pause{ID: "pause-4", By: rollout.ByDeadline, Reason: "BatchDeadline", Message: "batch 0 is late"}, waiting("BatchDeadline", "batch 0 is late")
		}), out: wait, observed: true, held: true, guarded: true}},
		{"a workload of somebody else", reading{at: rollout.Position{State: rollout.Locating, Waiting: waiting("ClaimedByOther", "StatefulSet db is that of Rollout other")}, out: wait}},
		{"rolling back", reading{at: with(moving, func(at *rollout.Position) {
			at.State, at.Rollback, at.Waiting = rollout.RollingBack, &rollout.RollbackPosition{Reason: "batch 0 is late"}, waiting("PodsNotReady", "1 pods have to go back")
		}), out: wait, observed: true, held: true, guarded: true}},
		{"rolled back, and held", reading{at: with(moving, func(at *rollout.Position) {
			at.State, at.Rollback, at.Failure = rollout.Failed, &rollout.RollbackPosition{Reason: "batch 0 is late"}, &rollout.Failure{Reason: "BatchDeadline", Message: "batch 0 is late"}
		}), out: outcome.Done(), observed: true, held: true, guarded: true, source: "shop-v4"}},
		{"a Deployment rolled back", reading{at: with(moving, func(at *rollout.Position) {
			at.State, at.Rollback, at.Failure = rollout.Failed, &rollout.RollbackPosition{Reason: "batch 0 is late"}, &rollout.Failure{Reason: "BatchDeadline", Message: "batch 0 is late"}
		}), out: outcome.Done(), kind: rollout.Deployment, observed: true, held: true}},
		{"a Deployment without a source", reading{at: rollout.Position{State: rollout.Failed, Failure: &rollout.Failure{Reason: rollout.SourceMissing.Reason(), Message: "Deployment web changed: name the one with the old template in sourceRef"}},
			out: outcome.Done(), kind: rollout.Deployment, observed: true}},
		{"a Deployment that failed", reading{at: rollout.Position{State: rollout.Failed, Failure: &rollout.Failure{Reason: "BatchDeadline", Message: "batch 0 is late"}},
			out: outcome.Done(), kind: rollout.Deployment, observed: true}},
		{"a refused edit of the plan", reading{at: with(moving, func(at *rollout.Position) {
			at.Waiting, at.PlanRefused = waiting("PodsNotReady", "0 of 1 pods are ready"), "rolloutBatches[0]: the batch has begun"
		}), out: wait, observed: true, held: true, guarded: true}},
		{"rolled back", reading{at: with(moving, func(at *rollout.Position) {
			at.State, at.Rollback, at.Failure = rollout.Failed, &rollout.RollbackPosition{Reason: "batch 0 is late"}, &rollout.Failure{Reason: "BatchDeadline", Message: "batch 0 is late"}
		}), out: outcome.Done(), observed: true}},
		{"succeeded", reading{at: with(moving, func(at *rollout.Position) { at.State = rollout.Succeeded }), out: outcome.Done(), observed: true, held: true, guarded: true}},
	}
	for i := range all {
		all[i].now = now
	}
	return all
}

// TestConditions: what a person reads in each situation.
func TestConditions(t *testing.T) {
	var b strings.Builder
	for _, test := range situations() {
		fmt.Fprintf(&b, "%s\n", test.name)
		for _, c := range test.conditions() {
			fmt.Fprintf(&b, "  %-13s %-7s %-16s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
		if s := summary(test.at, test.remedy()); s != nil {
			fmt.Fprintf(&b, "  summary       batch %q, updated %q, remedy %q\n", s.Batch, s.Updated, s.Remedy)
		}
		b.WriteString("\n")
	}
	const file = "testdata/conditions.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("the conditions are not those of %s (-update writes it):\n%s", file, b.String())
	}
}
