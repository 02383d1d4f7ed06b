package rollout

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// TestWhatIsWrittenLater: which decisions may wait for the write of the next one.
func TestWhatIsWrittenLater(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	waiting := func(reason string) *rollout.Waiting {
		return &rollout.Waiting{Reason: reason, Message: reason, Since: now}
	}
	records := func(events ...rollout.Event) (all []rollout.Record) {
		for _, e := range events {
			all = append(all, rollout.Record{Event: e})
		}
		return all
	}
	busy := rollout.WorkloadBusy.Reason()
	rest := rollout.Position{State: rollout.Succeeded, Number: 1, Sequence: 9}
	batch := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchInRolling, Number: 1, CurrentBatch: 2, Sequence: 9, Waiting: waiting("Applying")}
	ended := rollout.Position{State: rollout.Finalising, BatchState: rollout.BatchReady, Number: 1, CurrentBatch: 2, Sequence: 12, Upgraded: 3, Waiting: waiting(busy), Verified: &now}
	closes := records(rollout.RolloutOneBatch, rollout.OneBatchAvailable, rollout.AllBatchFinished)
	act := []rollout.Act{{Why: "release the workload"}}
	with := func(at rollout.Position, edit func(*rollout.Position)) rollout.Position {
		edit(&at)
		return at
	}
	for _, test := range []struct {
		name   string
		was    rollout.Position
		is     rollout.Decision
		counts bool // for some seconds after the last write
		passes bool // for some seconds after it was seen first
	}{
		{"a workload that is not observed yet, at rest", rest, rollout.Decision{Position: with(rest, func(at *rollout.Position) { at.Waiting = waiting(busy) })}, false, true},
		{"the end of such a wait", with(rest, func(at *rollout.Position) { at.Waiting = waiting(busy) }), rollout.Decision{Position: rest}, false, false},
		{"a missing workload, at rest", rest, rollout.Decision{Position: with(rest, func(at *rollout.Position) { at.Waiting = waiting("TargetMissing") })}, false, false},
		{"one more pod is ready", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.Upgraded, at.Waiting = 1, waiting("PodsNotReady") })}, true, false},
		{"the pods of a batch have gone", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.BatchState, at.Sequence = rollout.BatchVerifying, 10 }), Records: records(rollout.RolloutOneBatch)}, true, false},
		{"they have, and a hook is asked", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.BatchState, at.Sequence = rollout.BatchVerifying, 10 }), Records: records(rollout.RolloutOneBatch), Asks: []rollout.Ask{{}}}, false, false},
		{"the last batch ends, and the controller has not followed", batch, rollout.Decision{Position: ended, Records: closes}, false, true},
		{"it ends, and the workload is let go", batch, rollout.Decision{Position: ended, Records: closes, Acts: act}, false, false},
		{"it ends with an answer", batch, rollout.Decision{Position: with(ended, func(at *rollout.Position) { at.Answers = map[string]rollout.AnswerPosition{"k": {Verdict: "Passed"}} }), Records: closes}, false, false},
		{"a batch in the middle ends", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.CurrentBatch, at.Sequence = 3, 12 }), Records: records(rollout.FinishedOneBatch)}, false, false},
		{"an act that changes nothing of the position", ended, rollout.Decision{Position: with(ended, func(at *rollout.Position) { at.Waiting = waiting("Applying") }), Acts: act}, true, true},
		{"a release", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.Released = &now }), Acts: act}, false, false},
		{"a wait for a person", batch, rollout.Decision{Position: with(batch, func(at *rollout.Position) { at.Waiting = waiting("HeldByPartition") })}, false, false},
	} {
		if got := onlyCounts(test.was, test.is); got != test.counts {
			t.Errorf("%s: only counts: %v", test.name, got)
		}
		if got := passes(test.was, test.is); got != test.passes {
			t.Errorf("%s: passes by itself: %v", test.name, got)
		}
	}
}
