package view

import (
	"cmp"

	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// WaitingOf returns what a run waits for; nil if it does not wait, has ended, or is
// paused (then its fault has the remedy). The flow may be nil.
func WaitingOf(r *runtype.Run, flow *workflow.Flow) *api.Waiting {
	rec := r.Current()
	if rec == nil || r.Phase.Final() || r.Phase == runtype.Paused {
		return nil
	}
	w := &api.Waiting{Run: r.ID, Step: rec.Name, Tries: rec.Attempt, Since: rec.StartedAt, Next: rec.NextAt}
	switch {
	case rec.Phase == runtype.StepWaiting && rec.Wait != nil:
		w.For, w.Since, w.Until = cmp.Or(rec.Wait.Message, rec.Wait.Reason), rec.Wait.Since, rec.Wait.Deadline
		if w.Until.IsZero() {
			w.Until = rec.Wait.Until
		}
	case rec.Phase == runtype.StepRetrying:
		w.For = "the next attempt"
	default:
		return nil
	}
	if f := rec.Fault; f != nil {
		w.Code, w.Error = string(f.Code), f.Message
	}
	if flow != nil && flow.Deadline > 0 && !r.StartedAt.IsZero() {
		if end := r.StartedAt.Add(flow.Deadline); w.Until.IsZero() || end.Before(w.Until) {
			w.Until = end
		}
	}
	return w
}
