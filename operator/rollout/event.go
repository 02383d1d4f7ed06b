package rollout

import (
	"strings"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

// events tell people what a Rollout does.
type events struct{ controller.Events }

// report writes Events of what a saved decision has passed: one for each batch, each stop and the end.
func (e events) report(r *api.Rollout, d rollout.Decision) {
	at := d.Position
	for _, record := range d.Records {
		switch record.Event { //nolint:exhaustive // the others are steps on the way
		case rollout.RollingSpecVerified:
			e.Normal(r, "Verified", "rollout %d is verified: %s", at.Number, record.Why)
			if r.Spec.RolloutPlan.RolloutStrategy == string(rollout.DecreaseFirst) && r.Spec.SourceRef == nil {
				e.Warn(r, "StrategyIgnored", "rolloutStrategy counts only for a rollout of two Deployments")
			}
		case rollout.OneBatchAvailable:
			e.Normal(r, "BatchAvailable", "%s is available", batchText(record.Batch, len(at.Batches)))
		case rollout.RollbackRequested:
			e.Warn(r, "RollbackBegun", "the pods go back: %s", record.Why)
		case rollout.PausedEvent:
			reason := "Paused"
			if at.Pause != nil {
				reason = at.Pause.Reason
			}
			e.Warn(r, reason, "%s", withRemedy(reason, record.Why))
		case rollout.ResumedEvent:
			e.Normal(r, "Resumed", "%s", record.Why)
		case rollout.Replanned:
			e.Normal(r, "Replanned", "%s", record.Why)
		case rollout.RolloutStopped, rollout.BatchRolloutFailed:
			e.stopped(r, d, record)
		case rollout.RollingFinalized:
			e.ended(r, at, record)
		case rollout.RequestAnswered:
			if last := at.LastRequest; last != nil && last.ID == record.Request && last.Code != "" {
				e.Warn(r, fault.Camel(fault.Code(last.Code)), "%s", withRemedy(last.Code, record.Why))
			}
		}
	}
}

func (e events) stopped(r *api.Rollout, d rollout.Decision, record rollout.Record) {
	reason := "Stopped"
	if f := d.Position.Failure; f != nil {
		reason = f.Reason
	}
	e.Warn(r, reason, "%s", withRemedy(reason, record.Why))
}

func (e events) ended(r *api.Rollout, at rollout.Position, record rollout.Record) {
	switch {
	case strings.HasPrefix(record.To, string(rollout.Succeeded)):
		e.Normal(r, "Succeeded", "rollout %d has ended: revision %s", at.Number, at.TargetRevision)
	case record.To == string(rollout.Failed) && at.Rollback != nil:
		e.Warn(r, "RolledBack", "rollout %d was taken back: %s", at.Number, at.Rollback.Reason)
	case record.To == string(rollout.Failed) && at.Failure != nil:
		e.Warn(r, "Failed", "rollout %d has failed: %s", at.Number, at.Failure.Message)
	}
}
