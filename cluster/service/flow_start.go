package service

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Time limits and tries of steps.
var (
	checkBounds   = bounds{time.Minute, 3}
	vmBounds      = bounds{10 * time.Minute, 3}
	publishBounds = bounds{time.Minute, 5}
)

// startFlow creates a cluster at its first start, and starts its VMs at each
// later one.
func (s *Service) startFlow() workflow.Flow {
	first := func(in cluster.RunInput) bool { return in.First }
	again := func(in cluster.RunInput) bool { return !in.First }
	onFirstStart := func(step workflow.Step) workflow.Step { return when(step, "it is the first start", first) }
	return workflow.Flow{
		Name: cluster.FlowStart, Version: 1, Description: "creates a cluster, or starts its VMs again", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			onFirstStart(s.step("check", "quota, capacity and entities for all nodes", checkBounds, checkAll)),
			when(s.step("books", "the record is complete, the entities exist", checkBounds, checkRecords), "it is a later start", again),
			onFirstStart(s.step("network", "create the network if none was given", resourceBounds, network)),
			onFirstStart(s.step("address", "find the source NAT, or acquire an address", resourceBounds, address)),
			s.step("control", "create and start the control nodes", vmBounds, controlNodes),
			onFirstStart(s.step("rules", "open port 6443 and point it to the control nodes", resourceBounds, rules)),
			when(s.step("others", "start the workers", vmBounds, startWorkers), "it is a later start", again),
			s.step("endpoint", "the control node is ready, the endpoint answers", bounds{s.options.Settings.EndpointWait, 0}, endpoint),
			onFirstStart(s.step("workers", "create and start the worker nodes", vmBounds, workers)),
			s.step("join", "every node is ready", bounds{s.options.Settings.JoinWait, 0}, join),
			s.step("publish", "publish config and endpoint, revoke the join token", publishBounds, publish),
		},
		Finally: []workflow.Step{s.revokeStep()},
	}
}

// revokeStep returns the step that revokes the join token of a run that has not
// published.
func (s *Service) revokeStep() workflow.Step {
	step := s.finalStep("revoke", "revoke the join token", revokeToken)
	step.WhenText = "the run has not published"
	step.When = func(v workflow.View) (bool, error) {
		done, known := v.Step("publish")
		return !known || done.Phase != workflow.StepDone, nil
	}
	return step
}

// checkAll fails if the account or the provider has no capacity for the cluster.
func checkAll(ctx context.Context, w *work) outcome.Outcome {
	return w.check(ctx, w.c.ControlCount+w.c.NodeCount-len(w.nodes("")))
}

// check fails if the account or the provider has no capacity for a number of
// additional nodes.
func (w *work) check(ctx context.Context, nodes int) outcome.Outcome {
	found, err := w.s.findings(ctx, w.c, max(nodes, 0), 0, withNewSize)
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(refusalOf(found))
}

// refusalOf returns the fault of the first finding with a code; nil if there is
// none.
func refusalOf(found []cluster.Finding) error {
	for _, f := range found {
		if kind, ok := fault.Lookup(string(f.Code)); ok {
			return kind.Errorf("%s", f.Evidence).With("resource", f.Resource)
		}
	}
	return nil
}

// checkRecords fails if the network of the cluster is gone. The steps that start
// VMs report missing ones, after they have started the others.
func checkRecords(ctx context.Context, w *work) outcome.Outcome {
	if w.c.Network.ID == "" || !w.supports(cluster.Network) {
		return outcome.Done()
	}
	_, err := w.provider.Get(ctx, cluster.Ref{Kind: cluster.Network, ID: w.c.Network.ID, Zone: w.c.Zone.ID})
	return outcome.Fail(entityGone(err, cluster.Network, w.c.Network.ID))
}

// entityGone replaces ErrGone by a fault that names an entity which the cluster
// needs.
func entityGone(err error, kind cluster.Kind, id string) error {
	if errors.Is(err, cluster.ErrGone) {
		return cluster.EntityRefused.Errorf("%s %s is gone", kind, id).With("resource", id)
	}
	return err
}

func network(ctx context.Context, w *work) outcome.Outcome { return w.network(ctx) }
func address(ctx context.Context, w *work) outcome.Outcome { return w.address(ctx) }
func rules(ctx context.Context, w *work) outcome.Outcome   { return w.rules(ctx) }

// controlNodes creates the control nodes, and starts those that are stopped.
func controlNodes(ctx context.Context, w *work) outcome.Outcome {
	if !w.in.First {
		return w.deferFailure(w.startNodes(ctx, w.nodes(cluster.Control), vmBounds))
	}
	if out := w.fillPool(ctx, nodePoolOf(w.c, cluster.Control), vmBounds); !out.IsDone() {
		return out
	}
	return w.startNodes(ctx, w.olderNodes(cluster.Control), vmBounds)
}

func workers(ctx context.Context, w *work) outcome.Outcome {
	if out := w.fillPool(ctx, nodePoolOf(w.c, cluster.Worker), vmBounds); !out.IsDone() {
		return out
	}
	return w.startNodes(ctx, w.olderNodes(cluster.Worker), vmBounds)
}

// olderNodes returns the nodes of a role that an earlier run has created. After a
// failed start the cluster may have been stopped.
func (w *work) olderNodes(role cluster.Role) []*cluster.Node {
	return filter(w.nodes(role), func(n *cluster.Node) bool {
		row := w.row(n.Key)
		return row != nil && row.Phase == cluster.Present && (row.RunID != w.t.RunID() || row.Step == w.t.Step() && !row.NextAt.IsZero())
	})
}

// deferFailure stores a final failure as the output of the step, so that the run
// goes on with the other nodes. A later step fails with it (deferredFailure).
func (w *work) deferFailure(out outcome.Outcome) outcome.Outcome {
	if !out.IsFail() || fault.Of(out.Err()).Class == fault.Transient && w.t.Failures()+1 < w.t.Retry().Attempts || fault.Of(out.Err()).Uncharged {
		return out
	}
	if err := w.t.Set(failedStep{fault.Of(out.Err()).Code, fault.Message(out.Err()), fault.Details(out.Err())["resource"]}); err != nil {
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
	out, _ := w.t.View().Step(step)
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
	out := w.startNodes(ctx, w.nodes(cluster.Worker), vmBounds)
	if !out.IsDone() && !out.IsFail() {
		return out
	}
	if err := w.deferredFailure("control"); err != nil {
		return outcome.Fail(err)
	}
	missing := w.c.ControlCount + w.c.NodeCount - len(w.nodes(""))
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
