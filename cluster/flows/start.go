package flows

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Time limits and tries of steps.
var (
	checkBounds   = resources.Bounds{Timeout: time.Minute, Tries: 3}
	vmBounds      = resources.Bounds{Timeout: 10 * time.Minute, Tries: 3}
	publishBounds = resources.Bounds{Timeout: time.Minute, Tries: 5}
)

// startFlow creates a cluster at its first start, and starts its VMs at each
// later one.
func (s *flows) startFlow() workflow.Flow {
	first := func(in cluster.RunInput) bool { return in.First }
	again := func(in cluster.RunInput) bool { return !in.First }
	onFirstStart := func(step workflow.Step) workflow.Step { return when(step, "it is the first start", first) }
	return workflow.Flow{
		Name: cluster.FlowStart, Version: 1, Description: "creates a cluster, or starts its VMs again", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			onFirstStart(s.step("check", "quota, capacity and entities for all nodes", checkBounds, checkAll)),
			when(s.step("record", "the record is complete, the entities exist", checkBounds, checkRecords), "it is a later start", again),
			onFirstStart(s.step("network", "create the network if none was given", resources.ResourceBounds, network)),
			onFirstStart(s.step("address", "find the source NAT, or acquire an address", resources.ResourceBounds, address)),
			s.step("control", "create and start the control nodes", vmBounds, controlNodes),
			onFirstStart(s.step("rules", "open port 6443 and point it to the control nodes", resources.ResourceBounds, rules)),
			when(s.step("others", "start the workers", vmBounds, startWorkers), "it is a later start", again),
			s.step("endpoint", "the control node is ready, the endpoint answers", resources.Bounds{Timeout: s.options.Settings.EndpointWait, Tries: 0}, endpoint),
			onFirstStart(s.step("workers", "create and start the worker nodes", vmBounds, workers)),
			s.step("join", "every node is ready", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, join),
			s.step("publish", "publish config and endpoint, revoke the join token", publishBounds, publish),
		},
		Finally: []workflow.Step{s.revokeStep()},
	}
}

// revokeStep returns the step that revokes the join token of a run that has not
// published.
func (s *flows) revokeStep() workflow.Step {
	step := s.finalStep("revoke", "revoke the join token", revokeToken)
	step.WhenText = "the run has not published"
	step.When = func(v workflow.View) (bool, error) {
		done, known := v.Step("publish")
		return !known || done.Phase != runtype.StepDone, nil
	}
	return step
}

// revokeToken is the step that revokes the join token at the end of a run.
func revokeToken(ctx context.Context, w *work) outcome.Outcome {
	run := w.Task.RunID()
	w.s.options.Tokens.Forget(run)
	return outcome.Fail(w.Amend(ctx, func(_ *cluster.Cluster, d *cluster.Details) bool { return heartbeat.Revoke(d, run) }))
}

// checkAll fails if the account or the provider has no capacity for the cluster.
func checkAll(ctx context.Context, w *work) outcome.Outcome {
	return w.check(ctx, w.Cluster.ControlCount+w.Cluster.NodeCount-len(w.Nodes("")))
}

// check fails if the account or the provider has no capacity for a number of
// additional nodes.
func (w *work) check(ctx context.Context, nodes int) outcome.Outcome {
	found, err := w.s.options.Capacity.Findings(ctx, w.Cluster, max(nodes, 0), 0, capacity.WithNewSize)
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(capacity.Refusal(found))
}

// checkRecords fails if the network of the cluster is gone. The steps that start
// VMs report missing ones, after they have started the others.
func checkRecords(ctx context.Context, w *work) outcome.Outcome {
	if w.Cluster.Network.ID == "" || !w.Supports(cluster.Network) {
		return outcome.Done()
	}
	_, err := w.Provider.Get(ctx, cluster.Ref{Kind: cluster.Network, ID: w.Cluster.Network.ID, Zone: w.Cluster.Zone.ID})
	return outcome.Fail(resources.EntityGone(err, cluster.Network, w.Cluster.Network.ID))
}

func network(ctx context.Context, w *work) outcome.Outcome { return w.Network(ctx) }
func address(ctx context.Context, w *work) outcome.Outcome { return w.Address(ctx) }
func rules(ctx context.Context, w *work) outcome.Outcome   { return w.Rules(ctx) }

// controlNodes creates the control nodes, and starts those that are stopped.
func controlNodes(ctx context.Context, w *work) outcome.Outcome {
	if !w.Input.First {
		return w.deferFailure(w.StartNodes(ctx, w.Nodes(cluster.Control), vmBounds))
	}
	if out := w.FillPool(ctx, resources.PoolOf(w.Cluster, cluster.Control), vmBounds); !out.IsDone() {
		return out
	}
	return w.StartNodes(ctx, w.olderNodes(cluster.Control), vmBounds)
}

func workers(ctx context.Context, w *work) outcome.Outcome {
	if out := w.FillPool(ctx, resources.PoolOf(w.Cluster, cluster.Worker), vmBounds); !out.IsDone() {
		return out
	}
	return w.StartNodes(ctx, w.olderNodes(cluster.Worker), vmBounds)
}

// olderNodes returns the nodes of a role that an earlier run has created. After a
// failed start the cluster may have been stopped.
func (w *work) olderNodes(role cluster.Role) []*cluster.Node {
	return resources.Filter(w.Nodes(role), func(n *cluster.Node) bool {
		row := w.Row(n.Key)
		return row != nil && row.Phase == cluster.Present && (row.RunID != w.Task.RunID() || row.Step == w.Task.Step() && !row.NextAt.IsZero())
	})
}

// deferFailure stores a final failure as the output of the step, so that the run
// goes on with the other nodes. A later step fails with it (deferredFailure).
func (w *work) deferFailure(out outcome.Outcome) outcome.Outcome {
	if !out.IsFail() || fault.Of(out.Err()).Class == fault.Transient && w.Task.Failures()+1 < w.Task.Retry().Attempts || fault.Of(out.Err()).Uncharged {
		return out
	}
	if err := w.Task.Set(failedStep{fault.Of(out.Err()).Code, fault.Message(out.Err()), fault.Details(out.Err())["resource"]}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// failedStep is the stored failure of a step.
type failedStep struct {
	Code     fault.Code `json:"code,omitempty"`
	Text     string     `json:"text,omitempty"`
	Resource any        `json:"resource,omitempty"`
}

// deferredFailure returns the failure that an earlier step has stored; nil if
// there is none.
func (w *work) deferredFailure(step string) error {
	var f failedStep
	out, _ := w.Task.View().Step(step)
	if err := unmarshal(out.Output, &f); err != nil || f.Code == "" {
		return err
	}
	kind, ok := fault.Lookup(string(f.Code))
	if !ok {
		kind = cluster.NodeMissing
	}
	return kind.Errorf("%s", f.Text).With("resource", f.Resource)
}

// startWorkers starts the workers. Then it fails if a control node has failed or
// nodes are missing.
func startWorkers(ctx context.Context, w *work) outcome.Outcome {
	out := w.StartNodes(ctx, w.Nodes(cluster.Worker), vmBounds)
	if !out.IsDone() && !out.IsFail() {
		return out
	}
	if err := w.deferredFailure("control"); err != nil {
		return outcome.Fail(err)
	}
	missing := w.Cluster.ControlCount + w.Cluster.NodeCount - len(w.Nodes(""))
	if out.IsDone() && missing > 0 {
		return outcome.Fail(cluster.NodeMissing.Errorf("the record has %d nodes fewer than desired", missing))
	}
	return out
}

func unmarshal(data json.RawMessage, v any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, v)
}
