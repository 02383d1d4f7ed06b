package rollout

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

// flowPoll is how often the run of a hook is looked at: a worker of another process may execute it, and
// tells nobody here.
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
	Key     string // names the run: a retry of a hook whose run was cancelled has another
	Flow    string
	Input   map[string]any
	Rollout types.NamespacedName
	UID     string
}

func (o *Operator) runFlow(ctx context.Context, q question) rollout.Answer {
	a, err := o.flows.Run(ctx, FlowRun{Key: runKey(q.Ask), Flow: q.Hook.Flow, Input: q.Hook.Input, Rollout: q.rollout, UID: q.body.UID})
	switch {
	case err == nil:
		return a
	case fault.Of(err).Class == fault.Invalid:
		return failed(err)
	}
	return rollout.Answer{Message: fault.Message(err)} // it is looked at again
}

// runKey is the key of a hook; after a retry the run is another one.
func runKey(a rollout.Ask) string {
	if a.Attempt <= 1 {
		return a.Key
	}
	return fmt.Sprintf("%s/%d", a.Key, a.Attempt)
}
