package rollout

import (
	"encoding/json"
	"strconv"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// readPlan is the plan of a Rollout. PLAN_INVALID names the field.
func readPlan(r *api.Rollout) (rollout.Plan, error) {
	text, err := json.Marshal(r.Spec.RolloutPlan)
	if err != nil {
		return rollout.Plan{}, rollout.PlanInvalid.Errorf("%w", err)
	}
	return rollout.ParsePlan(text)
}

// readPosition is the position in a status. They have the same JSON.
func readPosition(s *api.RolloutStatus) (rollout.Position, error) {
	own := *s
	own.Preview, own.History, own.Conditions = nil, nil, nil
	var at rollout.Position
	text, err := json.Marshal(own)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return at, rollout.StateUnknown.Errorf("the status cannot be read: %w", err)
	}
	return at, nil
}

// writePosition replaces the position in a status and leaves the rest.
func writePosition(s *api.RolloutStatus, at rollout.Position) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	var next api.RolloutStatus
	if err := json.Unmarshal(text, &next); err != nil {
		return err
	}
	next.ObservedGeneration, next.Replicas, next.Selector = s.ObservedGeneration, s.Replicas, s.Selector
	next.Delivered, next.Workload, next.Sources = s.Delivered, s.Workload, s.Sources
	next.Summary, next.Preview, next.History, next.Conditions = s.Summary, s.Preview, s.History, s.Conditions
	*s = next
	return nil
}

// summary is the position in a few words.
func summary(at rollout.Position, remedy string) *api.RolloutSummary {
	s := &api.RolloutSummary{Remedy: remedy}
	if n := len(at.Batches); n > 0 {
		s.Batch = strconv.Itoa(at.CurrentBatch+1) + "/" + strconv.Itoa(n)
	}
	switch {
	case at.TargetSize == nil:
	case at.Mode == rollout.Rollout:
		s.Updated = strconv.Itoa(at.Upgraded) + "/" + strconv.Itoa(*at.TargetSize)
	case at.OriginalSize != nil: // of the pods that come or go
		all := *at.TargetSize - *at.OriginalSize
		s.Updated = strconv.Itoa(at.UpgradedReady) + "/" + strconv.Itoa(max(all, -all))
	}
	if *s == (api.RolloutSummary{}) {
		return nil
	}
	return s
}
