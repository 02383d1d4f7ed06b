package flows

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const drainWait = 5 * time.Minute

// scaleFlow adds workers, removes workers, or upgrades nodes one after the
// other. Its input decides which.
func (s *flows) scaleFlow() workflow.Flow {
	only := func(event cluster.LifecycleEvent, step workflow.Step) workflow.Step {
		return when(step, "the event is "+string(event), func(in cluster.RunInput) bool { return in.Event == event })
	}
	removal := resources.Bounds{Timeout: cluster.NodeRemoval, Tries: 5}
	return workflow.Flow{
		Name: cluster.FlowScale, Version: 1, Description: "scales or upgrades a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			only(cluster.OnScaleUp, s.step("check", "quota, capacity and entities for the new nodes", checkBounds, checkMore)),
			only(cluster.OnScaleUp, s.step("nodes", "create and start the missing nodes", vmBounds, moreWorkers)),
			only(cluster.OnScaleUp, s.step("join", "the new nodes are ready", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, joinNew)),
			only(cluster.OnScaleDown, s.step("victims", "choose the nodes to remove, once", checkBounds, chooseVictims)),
			only(cluster.OnScaleDown, s.step("drain", "the victims drain", resources.Bounds{Timeout: drainWait, Tries: 0}, drainVictims)),
			only(cluster.OnScaleDown, s.step("remove", "deregister, destroy and expunge the victims", removal, removeVictims)),
			only(cluster.OnUpgrade, s.step("order", "choose the nodes to upgrade, control nodes first", checkBounds, orderUpgrade)),
			only(cluster.OnUpgrade, workflow.Step{
				Name: "replace", Description: "one after the other", ForEach: &workflow.Loop{ListText: "order", List: listOf("order"), Key: keyOf, Max: 1},
				Steps: []workflow.Step{
					inPlace(s.step("upgrade", "the node upgrades itself, and says its new version", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, upgradeInPlace), true),
					inPlace(s.step("endpoint", "the endpoint answers again", resources.Bounds{Timeout: s.options.Settings.EndpointWait, Tries: 0}, endpoint), true),
					inPlace(s.step("new", "create nodes with the new template", vmBounds, upgradeNew), false),
					inPlace(s.step("ready", "they are ready", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, upgradeReady), false),
					inPlace(s.step("drain", "the old nodes drain", resources.Bounds{Timeout: drainWait, Tries: 0}, upgradeDrain), false),
					inPlace(s.step("remove", "deregister, destroy and expunge the old ones", removal, upgradeRemove), false),
					s.step("rules", "point the rules to the control nodes", resources.ResourceBounds, rules),
				},
			}),
			s.step("rules", "correct the rules", resources.ResourceBounds, rules),
			only(cluster.OnUpgrade, s.step("verify", "every node has the new version", checkBounds, verifyUpgrade)),
			s.step("publish", "save totals and endpoint, revoke the join token", publishBounds, publish),
		},
		Finally: []workflow.Step{s.rollbackStep(), s.revokeStep()},
	}
}

func checkMore(ctx context.Context, w *work) outcome.Outcome {
	more := w.Cluster.NodeCount - len(w.Nodes(cluster.Worker))
	if more <= 0 {
		return outcome.Done()
	}
	return w.check(ctx, more)
}

func moreWorkers(ctx context.Context, w *work) outcome.Outcome {
	return w.FillPool(ctx, resources.PoolOf(w.Cluster, cluster.Worker), vmBounds)
}

// joinNew waits for the nodes that this run has created.
func joinNew(_ context.Context, w *work) outcome.Outcome {
	return w.awaitReady(w.CreatedNodes(), time.Time{})
}

// victims are the nodes to remove, as a step has chosen them.
type victims struct {
	Names []string `json:"names"`
}

func (w *work) victims(step string) ([]*cluster.Node, error) {
	var v victims
	if err := w.Task.Output(step, &v); err != nil {
		return nil, err
	}
	return w.NodesNamed(v.Names), nil
}

func chooseVictims(_ context.Context, w *work) outcome.Outcome {
	var ids []string
	if w.Input.Request != nil {
		ids = w.Input.Request.Victims
	}
	chosen, err := cluster.Victims(w.Record.Nodes, ids, w.Cluster.NodeCount)
	if err != nil {
		return outcome.Fail(err)
	}
	v := victims{Names: []string{}}
	for _, n := range chosen {
		v.Names = append(v.Names, n.Name)
	}
	return outcome.Fail(w.Task.Set(v))
}

func drainVictims(_ context.Context, w *work) outcome.Outcome {
	nodes, err := w.victims("victims")
	if err != nil {
		return outcome.Fail(err)
	}
	return w.awaitDrained(nodes, drainWait, w.s.options.Settings.DrainBlocks)
}

func removeVictims(ctx context.Context, w *work) outcome.Outcome {
	nodes, err := w.victims("victims")
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removeNodes(ctx, nodes)
}

// removeNodes destroys nodes and marks them as removed.
func (w *work) removeNodes(ctx context.Context, nodes []*cluster.Node) outcome.Outcome {
	open, failure, err := w.DeleteRows(ctx, w.RowsOf(nodes), cluster.NodeRemoval)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case len(open) > 0:
		return w.WaitFor(open, "the provider destroys VMs")
	case failure != nil:
		return outcome.Fail(failure)
	}
	return outcome.Fail(w.markRemoved(ctx, nodes))
}

// markRemoved marks nodes as removed in the record. Nodes with a row already
// are.
func (w *work) markRemoved(ctx context.Context, nodes []*cluster.Node) error {
	var change cluster.Change
	for _, n := range nodes {
		if n.Removed.IsZero() {
			n.Removed = w.Now
			change.Nodes = append(change.Nodes, n)
		}
	}
	return w.Save(ctx, change)
}

// rollbackStep returns the step that removes the new nodes of a failed scale and
// restores the former size, if Settings.RollbackScale is set.
func (s *flows) rollbackStep() workflow.Step {
	step := s.finalStep("rollback", "remove the nodes of this run and restore the size", rollback)
	step.WhenText = "on_scale_failure is rollback, and the run has not published"
	step.When = func(v workflow.View) (bool, error) {
		var in cluster.RunInput
		if err := decodeInput(v, &in); err != nil {
			return false, err
		}
		done, known := v.Step("publish")
		return s.options.Settings.RollbackScale && in.Event == cluster.OnScaleUp && (!known || done.Phase != runtype.StepDone), nil
	}
	return step
}

func rollback(ctx context.Context, w *work) outcome.Outcome {
	if w.Cluster.Desired == cluster.WantDestroyed || w.Input.Request == nil {
		return outcome.Done()
	}
	if before := w.Input.Request.PreviousCount; before > 0 && w.Cluster.NodeCount != before {
		err := w.Amend(ctx, func(c *cluster.Cluster, _ *cluster.Details) bool {
			c.NodeCount = before
			return true
		})
		if err != nil {
			return outcome.Fail(err)
		}
	}
	out := w.removeNodes(ctx, w.CreatedNodes())
	if out.IsFail() && w.Waited() >= cluster.NodeRemoval {
		return outcome.Done() // the collector goes on
	}
	return out
}
