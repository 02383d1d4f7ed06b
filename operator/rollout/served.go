package rollout

import (
	"fmt"

	"github.com/pawl-dev/pawl/rollout"
)

// served refuses what this operator cannot ask.
func (o *Operator) served(p rollout.Plan) error {
	refuse := func(field, why string) error {
		return rollout.FieldNotHonoured.Errorf("%s: %s", field, why).With("field", field)
	}
	const noExec = "this operator may not run commands in pods: start it with --rollout-exec"
	for i, r := range p.Probes {
		if r.Exec != nil && !o.mayExec {
			return refuse(fmt.Sprintf("probes[%d].exec", i), noExec)
		}
	}
	if p.Order != nil && p.Order.Handover != nil && p.Order.Handover.Exec != nil && !o.mayExec {
		return refuse("order.handover.exec", noExec)
	}
	check := func(path string, hooks []rollout.Hook) error {
		for i, h := range hooks {
			field := fmt.Sprintf("%s[%d].flow", path, i)
			switch {
			case h.Flow == "":
			case o.flows == nil:
				return refuse(field, "this operator has no flows: start it with --flows")
			default:
				if err := o.flows.Check(h.Flow, h.Input); err != nil {
					return rollout.PlanInvalid.Errorf("%s: %w", field, err).With("field", field)
				}
			}
		}
		return nil
	}
	err := check("rolloutWebhooks", p.RolloutWebhooks)
	for i := 0; err == nil && i < len(p.RolloutBatches); i++ {
		err = check(fmt.Sprintf("rolloutBatches[%d].batchRolloutWebhooks", i), p.RolloutBatches[i].BatchRolloutWebhooks)
	}
	return err
}
