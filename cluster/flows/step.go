package flows

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// work is one attempt of a step of these flows.
type work struct {
	*resources.Attempt
	s *flows
}

// stepBody is the function of a step. It keeps its state in the journal, so it may
// be called again at any time.
type stepBody func(ctx context.Context, w *work) outcome.Outcome

// step returns a step of a flow. Its grace is longer than a call to the provider:
// a cancelled attempt is not abandoned while its call may still end. Steps that
// only wait have no tries.
func (s *flows) step(name, text string, b resources.Bounds, do stepBody) workflow.Step {
	return workflow.Step{
		Name: name, Description: text, Timeout: b.Timeout, Grace: s.options.Settings.CallTimeout + 15*time.Second,
		Retry: workflow.Retry{Attempts: b.Tries, First: time.Second, Longest: time.Minute},
		Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			w, err := s.open(ctx, t)
			if err == nil {
				err = w.CheckCurrent()
			}
			if err != nil {
				return outcome.Fail(err)
			}
			return do(ctx, w)
		},
	}
}

// finalStep returns a step that runs at the end of a run, however it ends. The
// cluster may have moved on. A final failure is only logged: the collector does
// the rest.
func (s *flows) finalStep(name, text string, do stepBody) workflow.Step {
	step := s.step(name, text, resources.Bounds{Timeout: cluster.NodeRemoval, Tries: 5}, nil)
	step.Do = func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w, err := s.open(ctx, t)
		if err != nil {
			return outcome.Fail(err)
		}
		out := do(ctx, w)
		if out.IsFail() && fault.Of(out.Err()).Class != fault.Transient {
			t.Logger().WarnContext(ctx, "the end of the run left something undone", "error", out.Err())
			return outcome.Done()
		}
		return out
	}
	return step
}

// when makes a step conditional on the input of the run.
func when(step workflow.Step, text string, holds func(in cluster.RunInput) bool) workflow.Step {
	step.WhenText = text
	step.When = func(v workflow.View) (bool, error) {
		var in cluster.RunInput
		err := decodeInput(v, &in)
		return err == nil && holds(in), err
	}
	return step
}

func (s *flows) open(ctx context.Context, t *workflow.Task) (*work, error) {
	a, err := s.options.Resources.Open(ctx, t)
	return &work{a, s}, err
}

func decodeInput(v workflow.View, in *cluster.RunInput) error { return unmarshal(v.Input(), in) }

func namesOf(nodes []*cluster.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}
