package rollout

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/rollout"
)

// flowPoll is how often the run of a hook is looked at.
const flowPoll = 2 * time.Second

// Flows run the flows that hooks name.
type Flows interface {
	// Check is why a flow cannot be run with this input; nil: it can.
	Check(flow string, input map[string]any) error
	// Run starts the run of a key, unless it was started before, and tells where it is: see
	// rollout.Answer.Run. An error is of a call that may be made again.
	Run(ctx context.Context, r FlowRun) (rollout.Answer, error)
}

// FlowRun is a run of a hook. The Rollout is its subject.
type FlowRun struct {
	Key     string // the same for each attempt
	Flow    string
	Input   map[string]any
	Rollout types.NamespacedName
	UID     string
}

func (o *Operator) runFlow(ctx context.Context, q question) rollout.Answer {
	a, err := o.flows.Run(ctx, FlowRun{Key: q.Key, Flow: q.Hook.Flow, Input: q.Hook.Input, Rollout: q.rollout, UID: q.body.UID})
	if err != nil {
		return rollout.Answer{Message: err.Error()} // it is looked at again
	}
	return a
}
