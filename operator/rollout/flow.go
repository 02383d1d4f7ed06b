package rollout

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/rollout"
)

// flowPoll is how often the run of a hook is looked at: one that another process executes, or that is
// paused until somebody resumes it, tells nobody here. The end of one that this process executes wakes the
// Rollout.
const flowPoll = 2 * time.Second

// Flows run the flows that hooks name.
type Flows interface {
	// Check is why a flow cannot be run with this input; nil: it can.
	Check(flow string, input map[string]any) error
	// Run starts the run of a key, unless it was started before, and tells where it is: see
	// rollout.Answer.Run. An error is of a call that may be made again. While the run goes on, ended waits
	// until it has ended or is paused; else it is nil.
	Run(ctx context.Context, r FlowRun) (a rollout.Answer, ended func(context.Context) error, err error)
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
	a, ended, err := o.flows.Run(ctx, FlowRun{Key: runKey(q.Ask), Flow: q.Hook.Flow, Input: q.Hook.Input, Rollout: q.rollout, UID: q.body.UID})
	switch {
	case err == nil:
		if ended != nil {
			o.awaitFlow(q, ended)
		}
		return a
	case fault.Of(err).Class == fault.Invalid:
		return outside.Failed(err)
	}
	return rollout.Answer{Message: fault.Message(err)} // it is looked at again
}

// awaitFlow wakes the Rollout when a run has ended before it is looked at again anyway.
func (o *Operator) awaitFlow(q question, ended func(context.Context) error) {
	o.calls.Beside(func(process context.Context) {
		ctx, cancel := context.WithTimeout(process, flowPoll)
		defer cancel()
		if ended(ctx) == nil {
			q.asked.lookAgain(q.Key)
			o.rollouts.wake(q.rollout)
		}
	})
}

// runKey is the key of a hook; after a retry the run is another one.
func runKey(a rollout.Ask) string {
	if a.Attempt <= 1 {
		return a.Key
	}
	return fmt.Sprintf("%s/%d", a.Key, a.Attempt)
}
