package restores

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
)

// updateRestoreStatus says what keeps the pass from going on. What was read stands in the status already.
func updateRestoreStatus(p *pass) chain.Decision[*pass] {
	switch {
	case p.ended():
		return chain.Decision[*pass]{}
	case p.refused != nil:
		return waits(p.options.Idle, p.refused)
	case p.cluster == nil:
		return chain.Decision[*pass]{Outcome: outcome.Wait(p.options.Look, "ClusterMissing", "there is no cluster %q", p.restore.Spec.DestinationClusterName)}
	case p.unmade:
		return chain.Decision[*pass]{Outcome: outcome.Wait(p.options.Look, "ClusterUnmade", "%s", fault.Message(p.silence))}
	case p.silence != nil:
		return waits(p.options.Look, p.silence)
	}
	return chain.Decision[*pass]{}
}

// readAgain reads the restore once more after it was started, also when the reply was lost or refused it: the line of
// the tag tells.
func readAgain(p *pass) chain.Decision[*pass] {
	if !p.asked {
		return chain.Decision[*pass]{Outcome: p.look()}
	}
	return chain.Decision[*pass]{Acts: []chain.Act[*pass]{{Name: "read restore", Targets: []string{p.tag}, Do: func(ctx context.Context, p *pass) outcome.Outcome {
		state, err := p.ask(ctx, &p.facts)
		if err == nil {
			p.state = state
			p.observe()
		}
		return p.look()
	}}}}
}

// look asks for another look until the restore has ended.
func (p *pass) look() outcome.Outcome {
	switch {
	case p.ended() || !p.begun():
		return outcome.Done()
	case p.state == fdb.RestoreUnknown:
		return outcome.Later(p.options.Idle, "StateUnknown", "the database does not know the restore %s any more; it is not started again", p.tag)
	}
	return outcome.Later(p.options.Look, "Restoring", "the restore %s is %s", p.tag, p.state)
}

func waits(after time.Duration, err error) chain.Decision[*pass] {
	return chain.Decision[*pass]{Outcome: outcome.Wait(after, fault.Of(err).Reason(), "%s", condition.Message(err))}
}
