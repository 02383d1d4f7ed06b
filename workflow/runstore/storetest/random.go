package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// drawRun changes the fields that a save may change in a run that has not ended.
func drawRun(t *rapid.T, r *runtype.Run) {
	r.Phase = rapid.SampledFrom([]runtype.Phase{runtype.Running, runtype.Cancelling}).Draw(t, "phase")
	r.StartedAt, r.NextAt = drawTime(t), drawTime(t)
	r.State.Ord = rapid.Int64Range(0, 1<<40).Draw(t, "ord")
	r.State.Finally = rapid.Bool().Draw(t, "finally")
	r.State.Warning = drawText(t)
	r.State.Healing = nil
	if rapid.Bool().Draw(t, "healing") {
		r.State.Healing = []runtype.Healing{{Code: "X", Attempts: 2, Since: testTime(1), NextAt: testTime(2), Child: "c"}}
	}
	r.Fault = nil
	if rapid.Bool().Draw(t, "fault") {
		r.Fault = drawFault(t)
	}
	if rapid.Bool().Draw(t, "migrated") {
		r.Version, r.Hash = rapid.IntRange(0, 9).Draw(t, "version"), drawText(t)
	}
}

// drawRecord draws a new record, or changes an existing one.
func drawRecord(t *rapid.T, r *runtype.Run) *runtype.StepRecord {
	s := &runtype.StepRecord{Name: fmt.Sprintf("Loop[%d]/Step", r.Len()), Ord: int64(r.Len()) + 1}
	if known := records(r); len(known) > 0 && rapid.Bool().Draw(t, "known") {
		old := rapid.SampledFrom(known).Draw(t, "which")
		s.Name, s.Ord, s.Row = old.Name, old.Ord, old.Row
		if rapid.Bool().Draw(t, "the same value") {
			s = old
		}
	}
	number := func(label string) int { return rapid.SampledFrom([]int{0, 0, 1, 2, 1 << 30}).Draw(t, label) }
	s.Phase = rapid.SampledFrom([]runtype.StepPhase{runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting, runtype.StepFailed,
		runtype.StepDone, runtype.StepSkipped, runtype.StepPending, runtype.StepUndone, runtype.StepEntered}).Draw(t, "step phase")
	s.Round, s.Attempt, s.Failures, s.Uncharged, s.Lost = number("round"), number("attempt"), number("failures"), number("free"), number("lost")
	s.Isolated, s.Undoing = rapid.Bool().Draw(t, "isolated"), rapid.Bool().Draw(t, "undoing")
	s.StartedAt, s.AttemptAt, s.EndedAt, s.NextAt, s.UnchargedSince = drawTime(t), drawTime(t), drawTime(t), drawTime(t), drawTime(t)
	s.Note, s.Actor = drawText(t), drawText(t)
	s.Output, s.Fault, s.Wait, s.Progress, s.Items = nil, nil, nil, nil, nil
	if rapid.Bool().Draw(t, "output") {
		s.Output = drawJSON(t)
	}
	if rapid.Bool().Draw(t, "step fault") {
		s.Fault = drawFault(t)
	}
	if rapid.Bool().Draw(t, "wait") {
		s.Wait = &runtype.WaitRecord{Reason: drawText(t), Message: drawText(t), Since: drawTime(t), Deadline: drawTime(t),
			Every: time.Duration(number("every")), Signal: drawText(t), Child: drawText(t), Until: drawTime(t)}
	}
	if rapid.Bool().Draw(t, "progress") {
		s.Progress = &runtype.Progress{Done: int64(number("done")), Total: int64(number("total")), Text: drawText(t), At: drawTime(t), High: 5}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "items") {
		s.Items = append(s.Items, runtype.LoopItem{Key: fmt.Sprint("k", i), Value: drawJSON(t)})
	}
	return s
}

func drawFault(t *rapid.T) *runtype.Fault {
	f := &runtype.Fault{Code: fault.Code(rapid.StringMatching(`[A-Z]{1,8}`).Draw(t, "code")), Message: drawText(t), Step: drawText(t),
		Attempt: rapid.IntRange(0, 9).Draw(t, "fault attempt"), At: drawTime(t), Exhausted: rapid.Bool().Draw(t, "exhausted"), Healer: drawText(t)}
	if rapid.Bool().Draw(t, "details") {
		f.Details = map[string]any{"text": drawText(t), "whole": rapid.Int64().Draw(t, "whole"), "half": 0.5, "list": []any{int64(1), true, nil}}
	}
	return f
}

func drawTime(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "no time") {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "sec"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
}

// drawText omits NUL, which some databases refuse in text.
func drawText(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "plain", "new\nline \"quoted\" \\", "Grüße, 世界 🙂", "'; DROP TABLE run; --"}).Draw(t, "text")
}

func drawJSON(t *rapid.T) json.RawMessage {
	return json.RawMessage(rapid.SampledFrom([]string{`null`, `0`, `""`, `{}`, `[]`, `9007199254740993`, `{"a":{"b":[1,2.5,"x"]},"é":null}`}).Draw(t, "json"))
}
