package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// RolloutKind is the kind of the objects that Rollout reads.
const RolloutKind = "Rollout"

// Rollout is a Rollout of a cluster, as its status tells.
type Rollout struct {
	Object     control.Ref      `json:"object"`
	Target     string           `json:"target"` // Kind name
	Position   rollout.Position `json:"position"`
	Conditions []Condition      `json:"conditions,omitempty"`
	Remedy     string           `json:"remedy,omitempty"`
	History    []rollout.Record `json:"history,omitempty"` // the newest ones, the oldest first
	Behind     bool             `json:"behind,omitempty"`  // the status is of an older spec
	Paused     bool             `json:"paused,omitempty"`  // the plan says so
}

// Condition is one condition of a status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RolloutOf reads a Rollout from its object.
func RolloutOf(o control.Object) (Rollout, error) {
	r := Rollout{Object: o.Ref}
	var spec struct {
		TargetRef   struct{ Kind, Name string } `json:"targetRef"`
		Application struct{ Name string }       `json:"application"`
		RolloutPlan struct{ Paused bool }       `json:"rolloutPlan"`
	}
	var status struct {
		ObservedGeneration int64                       `json:"observedGeneration"`
		Workload           struct{ Kind, Name string } `json:"workload"`
		Summary            struct{ Remedy string }     `json:"summary"`
		History            map[string]rollout.Record   `json:"history"`
		Conditions         []Condition                 `json:"conditions"`
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return r, rollout.StateUnknown.Errorf("the spec of %s cannot be read: %w", o.Ref, err)
	}
	r.Paused = spec.RolloutPlan.Paused
	if r.Target = spec.TargetRef.Kind + " " + spec.TargetRef.Name; spec.Application.Name != "" {
		r.Target = "Application " + spec.Application.Name
	}
	if len(o.Status) == 0 || string(o.Status) == "null" {
		r.Behind = true
		return r, nil
	}
	for _, into := range []any{&r.Position, &status} {
		if err := json.Unmarshal(o.Status, into); err != nil {
			return r, rollout.StateUnknown.Errorf("the status of %s cannot be read: %w", o.Ref, err)
		}
	}
	if w := status.Workload; w.Name != "" { // that of a revision of an Application
		r.Target = w.Kind + " " + w.Name
	}
	r.Behind = status.ObservedGeneration < o.Generation
	r.Conditions, r.Remedy = status.Conditions, status.Summary.Remedy
	r.History = slices.SortedFunc(maps.Values(status.History), func(a, b rollout.Record) int { return a.Sequence - b.Sequence })
	return r, nil
}

// Is reports whether a condition is True.
func (r Rollout) Is(condition string) bool {
	return slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type == condition && c.Status == "True" })
}

// Exit is the exit code of a command that waited for the rollout: success, failure, something that
// needs a person, or still under way.
func (r Rollout) Exit() int {
	switch {
	case r.Behind:
		return ExitActive
	case r.Is("Ready"):
		return ExitDone
	case r.Position.State == rollout.Failed:
		return ExitFailed
	case r.Is("Paused"), r.Is("Stalled"):
		return ExitRemedy
	}
	return ExitActive
}

// Line is the rollout in one line.
func (r Rollout) Line(now time.Time) string {
	at := r.Position
	text := r.Object.Name + "  " + cmp.Or(string(at.State), "not observed yet")
	if at.State == rollout.InBatch || at.State == rollout.RollingBack {
		text += fmt.Sprintf("  batch %d (%d/%d)", at.CurrentBatch, at.CurrentBatch+1, len(at.Batches))
	}
	if at.TargetSize != nil && at.Mode == rollout.Rollout {
		text += fmt.Sprintf("  %d/%d updated", at.Upgraded, *at.TargetSize)
	}
	switch w := at.Waiting; {
	case at.State == rollout.Failed && at.Failure != nil:
		text += "  " + at.Failure.Reason + ": " + oneLine(at.Failure.Message)
	case w != nil:
		text += "  " + w.Reason + " for " + Age(now.Sub(w.Since)) + ": " + oneLine(w.Message)
	}
	return text + "\n"
}

// DescribeRollout is the text of `pawl describe rollout NAME`.
func DescribeRollout(r Rollout, now time.Time, style Style) string {
	at := r.Position
	var f facts
	f.add("Rollout", r.Object.Namespace+"/"+r.Object.Name)
	f.add("Workload", r.Target)
	f.add("State", join("  ", cmp.Or(string(at.State), "not observed yet"), string(at.Mode)))
	if at.TargetRevision != "" {
		f.add("Revision", join(" → ", at.SourceRevision, at.TargetRevision))
	}
	if at.TargetSize != nil {
		f.add("Updated", fmt.Sprintf("%d of %d, %d ready", at.Upgraded, *at.TargetSize, at.UpgradedReady))
	}
	if w := at.Waiting; w != nil {
		f.add("Waits for", w.Reason+", for "+Age(now.Sub(w.Since))+": "+oneLine(w.Message))
		if w.Deadline != nil {
			f.add("Deadline", moment(*w.Deadline, now, style))
		}
	}
	if p := at.Pause; p != nil {
		f.add("Paused by", string(p.By)+", for "+Age(now.Sub(p.Since))+": "+oneLine(p.Message))
	}
	if at.Failure != nil {
		f.add("Failure", at.Failure.Reason+": "+oneLine(at.Failure.Message))
	}
	f.add("Plan", at.PlanRefused)
	f.add("Remedy", r.Remedy)
	if a := at.LastRequest; a != nil {
		f.add("Request", join(" ", a.Verb, "by "+a.By, cmp.Or(a.Code, "accepted"), oneLine(a.Message)))
	}
	if r.Is("HoldUnguarded") {
		f.add("Warning", "the hold is not guarded: a write of somebody else may release pods")
	}
	text := f.String()
	if len(at.Batches) > 0 {
		text += "\n" + style.paint(bold, "Batches") + "\n" + indent(r.batches(now).String(), "  ")
	}
	if n := len(r.History); n > 0 {
		text += "\n" + style.paint(bold, "History") + "\n" + indent(RolloutHistory(r.History[max(0, n-10):], style).String(), "  ")
	}
	return text
}

// batches is a table of the batches, and where each stands.
func (r Rollout) batches(now time.Time) Table {
	at := r.Position
	t := Table{Head: []string{"BATCH", "SIZE", "TARGET", "STATE", "TOOK"}}
	for i := range len(at.Batches) {
		b := at.Batches[i]
		state, took := "to come", none
		switch {
		case i < at.CurrentBatch, i == at.CurrentBatch && at.State.Terminal():
			state = "done"
		case i == at.CurrentBatch:
			state = string(at.BatchState)
		}
		if b.Start != nil {
			end := now
			if b.End != nil {
				end = *b.End
			}
			took = Took(end.Sub(*b.Start))
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(i), strconv.Itoa(b.Size), strconv.Itoa(b.Target), state, took})
	}
	return t
}

// RolloutHistory is a table of records.
func RolloutHistory(records []rollout.Record, style Style) Table {
	t := Table{Head: []string{"NUMBER", "TIME", "EVENT", "TO", "BATCH", "BY", "WHY"}}
	for _, record := range records {
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(record.Sequence), style.clock(record.Time, "2006-01-02 15:04:05"), string(record.Event), record.To,
			strconv.Itoa(record.Batch), record.By, oneLine(record.Why),
		})
	}
	return t
}
