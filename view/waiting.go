package view

import (
	"cmp"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/workflow"
)

// WaitingOf returns what a run waits for; nil if it does not wait, has ended, or is
// paused (then its fault has the remedy). The flow may be nil.
func WaitingOf(r *workflow.Run, flow *workflow.Flow) *service.Waiting {
	rec := r.Current()
	if rec == nil || r.Phase.Final() || r.Phase == workflow.Paused {
		return nil
	}
	w := &service.Waiting{Run: r.ID, Step: rec.Name, Tries: rec.Attempt, Since: rec.StartedAt, Next: rec.NextAt}
	switch {
	case rec.Phase == workflow.StepWaiting && rec.Wait != nil:
		w.For, w.Since, w.Until = cmp.Or(rec.Wait.Message, rec.Wait.Reason), rec.Wait.Since, rec.Wait.Deadline
		if w.Until.IsZero() {
			w.Until = rec.Wait.Until
		}
	case rec.Phase == workflow.StepRetrying:
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
