package flows

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// orderUpgrade stores the nodes to upgrade, in batches, as its output.
func orderUpgrade(_ context.Context, w *work) outcome.Outcome {
	if w.Input.Request == nil {
		return outcome.Fail(cluster.StateRefused.Errorf("nobody has asked for an upgrade"))
	}
	if err := w.s.options.Upgrades.MayUpgradeControl(w.Record, w.Input.Request); err != nil { // a control node may have become the only one since the request
		return outcome.Fail(err)
	}
	return outcome.Fail(w.Task.Set(w.s.options.Upgrades.Order(w.Record, w.Input.Request)))
}

// template returns the template for the nodes that this run creates.
func (w *work) template() cluster.Entity { return upgrade.TemplateOf(w.Cluster, w.Input.Request) }

// listOf returns a function that reads the items of a loop from the output of a
// step.
func listOf(step string) func(workflow.View) ([]json.RawMessage, error) {
	return func(v workflow.View) ([]json.RawMessage, error) {
		out, known := v.Step(step)
		if !known || out.Phase != runtype.StepDone {
			return nil, fmt.Errorf("step %s has not been executed", step) // only a preview asks before the step
		}
		var items []json.RawMessage
		err := unmarshal(out.Output, &items)
		return items, err
	}
}

// inPlace makes a step conditional: it runs if its batch is upgraded in place,
// or, if holds is false, if its batch is replaced.
func inPlace(step workflow.Step, holds bool) workflow.Step {
	step.WhenText = "the nodes are upgraded in place"
	if !holds {
		step.WhenText = "the nodes are replaced"
	}
	step.When = func(v workflow.View) (bool, error) {
		var b upgrade.Batch
		raw, _ := v.Item("item")
		err := unmarshal(raw, &b)
		return b.InPlace == holds, err
	}
	return step
}

func keyOf(v workflow.View) (string, error) {
	var b upgrade.Batch
	raw, _ := v.Item("item")
	if err := unmarshal(raw, &b); err != nil || len(b.Names) == 0 {
		return "none", err
	}
	return b.Names[0], nil
}

func (w *work) batch() (upgrade.Batch, error) {
	var b upgrade.Batch
	raw, ok := w.Task.View().Item("item")
	if !ok {
		return b, cluster.StateRefused.Errorf("step %s is in no loop", w.Task.Step())
	}
	err := unmarshal(raw, &b)
	return b, err
}

// siblingKey returns the key of another step of the same iteration. It is the
// prefix of the keys of the rows that the step has written.
func (w *work) siblingKey(step string) string {
	at := strings.LastIndexByte(w.Task.Step(), '/')
	return w.Task.RunID() + "/" + w.Task.Step()[:at+1] + step + "/"
}

// upgradeNew creates the nodes that replace a batch. Surplus nodes that a failed
// upgrade has left count as replacements.
func upgradeNew(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	want := resources.PoolOf(w.Cluster, b.Role)
	want.Version, want.Template, want.Prefix = w.Input.Request.Version, w.template(), w.siblingKey("new")
	spare := len(resources.Filter(w.Nodes(b.Role), func(n *cluster.Node) bool { return !strings.HasPrefix(n.Key, want.Prefix) })) - want.Count
	want.Count = max(0, len(b.Names)-max(0, spare))
	return w.FillPool(ctx, want, vmBounds)
}

// upgradeInPlace waits until the nodes of a batch report the new version and
// that they are ready. The answers to their heartbeats tell them to upgrade.
func upgradeInPlace(ctx context.Context, w *work) outcome.Outcome {
	w.ConsumeSignals()
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	to := w.s.options.Versions.Semantic(w.Input.Request.Version)
	nodes, limit := w.NodesNamed(b.Names), w.s.options.Settings.JoinWait
	for _, n := range nodes {
		switch {
		case w.s.options.Versions.Same(n.Version, w.Input.Request.Version) && n.NotReady == "" && !n.ReadyAt.IsZero():
		case w.Waited() >= limit:
			return outcome.Fail(cluster.UpgradeIncomplete.Errorf("%s was told to upgrade itself to %s and after %s still says %s", n.Name, to, limit, cmp.Or(n.NotReady, n.Version)).
				With("resource", n.Name))
		default:
			return outcome.Wait(min(resources.NodePollInterval, limit-w.Waited()), resources.WaitsForNodes, "%s has not said that it is %s and ready", n.Name, to)
		}
	}
	change := cluster.Change{}
	for _, n := range nodes {
		n.Template = w.template()
		change.Nodes = append(change.Nodes, n)
	}
	return outcome.Fail(w.Save(ctx, change))
}

// verifyUpgrade fails if a node has kept its old version.
func verifyUpgrade(_ context.Context, w *work) outcome.Outcome {
	var old []string
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		for _, n := range w.s.options.Upgrades.Outdated(w.Record, role, w.Input.Request) {
			old = append(old, n.Name+" has "+cmp.Or(n.Version, "no version"))
		}
	}
	if len(old) > 0 {
		return outcome.Fail(cluster.UpgradeIncomplete.Errorf("not upgraded to %s: %s", w.Input.Request.Version, strings.Join(old, ", ")).With("resource", old[0]))
	}
	return outcome.Done()
}

func upgradeReady(_ context.Context, w *work) outcome.Outcome {
	prefix := w.siblingKey("new")
	return w.awaitReady(resources.Filter(w.Nodes(""), func(n *cluster.Node) bool { return strings.HasPrefix(n.Key, prefix) }), time.Time{})
}

func upgradeDrain(_ context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.awaitDrained(w.NodesNamed(b.Names), drainWait, w.s.options.Settings.DrainBlocks)
}

func upgradeRemove(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removeNodes(ctx, w.NodesNamed(b.Names))
}
