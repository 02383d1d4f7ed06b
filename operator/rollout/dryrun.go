package rollout

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// DryRunAnnotation with the value "true" keeps a Rollout from beginning: status.preview says what it
// would do. One that has begun goes on.
const DryRunAnnotation = "pawl.dev/dry-run"

const dryRunReason = "DryRun"

func dryRun(r *api.Rollout) bool { return r.Annotations[DryRunAnnotation] == "true" }

// rehearse puts a preview in the place of a rollout that would begin now.
func (p *pass) rehearse() error {
	begins := p.decision.Position.State != p.was.State && p.decision.Position.State != rollout.Locating
	if !dryRun(p.rollout()) || p.deleting() || moves(p.was.State) || !begins {
		return nil
	}
	reason, message := dryRunReason, "status.preview says what would happen; remove the annotation "+DryRunAnnotation+" to begin"
	batches, err := rollout.Preview(p.plan, p.facts)
	if err != nil {
		reason, message = fault.Of(err).Reason(), fault.Message(err)
	}
	if p.preview, err = previewStatus(batches); err != nil {
		return err
	}
	p.rehearsed = true
	asked := p.decision
	p.waits(outcome.Wait(0, reason, "%s", message))
	at := &p.decision.Position
	at.LastRequest, at.Approved = asked.Position.LastRequest, asked.Position.Approved
	if n := slices.IndexFunc(asked.Records, func(r rollout.Record) bool { return r.Event == rollout.RequestAnswered }); n >= 0 {
		p.decision.Records, at.Sequence = asked.Records[:n+1], asked.Records[n].Sequence
	}
	return nil
}

// previewStatus is a preview by the index of the batch. It has the same JSON.
func previewStatus(batches []rollout.BatchPreview) (map[string]api.RolloutBatchPreview, error) {
	if len(batches) == 0 {
		return nil, nil
	}
	byIndex := make(map[string]rollout.BatchPreview, len(batches))
	for _, b := range batches {
		byIndex[strconv.Itoa(b.Index)] = b
	}
	text, err := json.Marshal(byIndex)
	if err != nil {
		return nil, err
	}
	var all map[string]api.RolloutBatchPreview
	err = json.Unmarshal(text, &all)
	return all, err
}
