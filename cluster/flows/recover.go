package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// recoverFlow repairs a cluster. It observes the cluster once, and makes those
// of the necessary repairs that the policy allows.
func (s *flows) recoverFlow() workflow.Flow {
	removal := resources.Bounds{Timeout: cluster.NodeRemoval, Tries: 5}
	return workflow.Flow{
		Name: cluster.FlowRecover, Version: 1, Description: "repairs a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			s.step("plan", "observe the cluster, decide by the policy", checkBounds, planRepair),
			s.step("changed", "remove changed resources: network, address, rules", resources.ResourceBounds, closeChanged),
			s.step("network", "create the network again if it is gone", resources.ResourceBounds, network),
			s.step("address", "find or acquire the address again if it is gone", resources.ResourceBounds, address),
			{
				Name: "repair", Description: "as many nodes at a time as may be unavailable", ForEach: &workflow.Loop{ListText: "plan.batches", List: repairItems, Key: repairKey, Max: 1},
				Steps: []workflow.Step{
					s.step("start", "start VMs that are stopped", vmBounds, repairStart),
					s.step("remove", "destroy the VMs that are replaced", removal, repairRemove),
					s.step("new", "create VMs in their place", vmBounds, repairCreate),
					s.step("ready", "they are ready", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, repairReady),
				},
			},
			s.step("adopt", "record VMs that carry our tags", checkBounds, adopt),
			s.step("control", "create control nodes up to the desired number", vmBounds, fillRole(cluster.Control)),
			s.step("workers", "create workers up to the desired number", vmBounds, fillRole(cluster.Worker)),
			s.step("drain", "surplus workers drain", resources.Bounds{Timeout: drainWait, Tries: 0}, drainSurplus),
			s.step("surplus", "destroy surplus workers, and VMs of this cluster without a row", removal, removeSurplus),
			s.step("rules", "correct the rules", resources.ResourceBounds, repairRules),
			s.step("policy", "fail if the policy forbids a repair", checkBounds, failForbidden),
			s.step("endpoint", "the endpoint answers", resources.Bounds{Timeout: s.options.Settings.EndpointWait, Tries: 0}, endpoint),
			s.step("join", "every node is ready", resources.Bounds{Timeout: s.options.Settings.JoinWait, Tries: 0}, join),
			s.step("publish", "save totals and endpoint, revoke the join token", publishBounds, publish),
		},
		Finally: []workflow.Step{s.revokeStep()},
	}
}

// repairPlan is a RecoveryPlan for the checkpoint: names instead of records.
type repairPlan struct {
	Batches []repairBatch `json:"batches,omitempty"`
	Fill    bool          `json:"fill,omitempty"`
	Keep    bool          `json:"keep,omitempty"`    // no control node is created: the last one is replaced only with consent
	Adopt   []string      `json:"adopt,omitempty"`   // provider ids
	Remove  []string      `json:"remove,omitempty"`  // provider ids of VMs
	Drop    []string      `json:"drop,omitempty"`    // names
	Changed []string      `json:"changed,omitempty"` // journal keys
	failedStep
}

// repairBatch names the nodes that are repaired at the same time.
type repairBatch struct {
	At      int      `json:"at"`
	Start   []string `json:"start,omitempty"`
	Replace []string `json:"replace,omitempty"`
}

func planRepair(ctx context.Context, w *work) outcome.Outcome {
	seen, err := w.s.options.Observer.Observe(ctx, w.Record)
	if err == nil {
		err = seen.Err
	}
	if err != nil {
		return outcome.Fail(err)
	}
	plan := cluster.PlanRecovery(w.Record, seen, w.policy(), cluster.RecoveryOptions{
		Consent: w.Input.Request != nil && w.Input.Request.Consent, MaxUnavailable: w.s.options.Settings.MaxUnavailable, Now: w.Now, Tolerances: w.s.options.Settings.Health(w.s.options.Versions),
	})
	doc := repairPlan{Fill: len(plan.Create) > 0, Drop: namesOfNodes(plan.Drop), Keep: slices.ContainsFunc(plan.Forbidden, func(f cluster.Finding) bool { return f.Code == cluster.LastControl.Code })}
	for _, b := range plan.Batches {
		if len(b.Start)+len(b.Replace) > 0 {
			doc.Batches = append(doc.Batches, repairBatch{len(doc.Batches), namesOfNodes(b.Start), namesOfNodes(b.Replace)})
		}
	}
	unableToJoin, err := w.UnableToJoin(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	doc.replaceNodes(unableToJoin, w.policy(), plan)
	for _, r := range plan.Adopt {
		doc.Adopt = append(doc.Adopt, r.ID)
	}
	for _, r := range plan.Remove {
		if r.Kind == cluster.VM {
			doc.Remove = append(doc.Remove, r.ID)
		}
	}
	for _, row := range plan.Repair {
		doc.Changed = append(doc.Changed, row.Key)
	}
	if w.Input.Request != nil && len(w.Input.Request.Victims) > 0 { // the caller chose the nodes to remove
		doc.choose(w.Input.Request.Victims)
	}
	if err := plan.Err(); err != nil {
		doc.failedStep = failedStep{fault.Of(err).Code, fault.Message(err), fault.Details(err)["resource"]}
	}
	return outcome.Fail(w.Task.Set(doc))
}

// replaceNodes adds a batch that replaces all nodes that can never join. They
// carry no work, so one batch replaces all of them.
func (p *repairPlan) replaceNodes(nodes []*cluster.Node, policy cluster.Recovery, plan cluster.RecoveryPlan) {
	going := slices.Concat(namesOfNodes(plan.Drop), namesOfNodes(plan.Replace))
	var names []string
	for _, n := range nodes {
		if !slices.Contains(going, n.Name) {
			names = append(names, n.Name)
		}
	}
	switch {
	case len(names) == 0:
	case policy.Allows(cluster.Replace):
		p.Batches = append(p.Batches, repairBatch{At: len(p.Batches), Replace: names})
	default:
		p.failedStep = failedStep{cluster.RecoveryForbidden.Code, "nodes never called home, their token is no longer valid, and replace is not allowed: " + strings.Join(names, ", "), names[0]}
	}
}

// choose removes the nodes that a caller named instead of those of the plan.
func (p *repairPlan) choose(names []string) {
	p.Drop = names
	named := func(name string) bool { return slices.Contains(names, name) }
	for i := range p.Batches {
		p.Batches[i].Start = slices.DeleteFunc(p.Batches[i].Start, named)
		p.Batches[i].Replace = slices.DeleteFunc(p.Batches[i].Replace, named)
	}
}

// policy returns the recovery policy of this run. For a request it is the
// policy in the request, or else restart and replace; without a request it is
// the policy of the cluster.
func (w *work) policy() cluster.Recovery {
	switch {
	case w.Input.Request == nil:
		return w.Cluster.Recovery.Or(w.s.options.Settings.Recovery)
	case w.Input.Request.Recovery != nil:
		return w.Input.Request.Recovery
	default:
		return cluster.Recovery{cluster.Restart, cluster.Replace}
	}
}

func namesOfNodes(nodes []cluster.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

func (w *work) repairPlan() (p repairPlan, err error) {
	err = w.Task.Output("plan", &p)
	return p, err
}

// closeChanged closes the rows of resources that are gone or changed. Later
// steps create them again.
func closeChanged(ctx context.Context, w *work) outcome.Outcome {
	plan, err := w.repairPlan()
	if err != nil {
		return outcome.Fail(err)
	}
	var rows []*cluster.JournalRow
	var given cluster.Change
	for _, key := range plan.Changed {
		switch row := w.Row(key); {
		case row == nil || !row.Phase.Open():
		case row.Origin != cluster.OriginGiven:
			rows = append(rows, row)
		case row.Kind == cluster.Network:
			return outcome.Fail(cluster.EntityRefused.Errorf("the network %s that the cluster was given is gone", row.Name).With("resource", row.Name))
		default: // the address of a network: a later step finds the new one
			row.Phase, row.GoneAt = cluster.Gone, w.Now
			given.Journal = append(given.Journal, row)
		}
	}
	if err := w.Save(ctx, given); err != nil {
		return outcome.Fail(err)
	}
	open, failure, err := w.DeleteRows(ctx, rows, resources.ResourceBounds.Timeout)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case len(open) > 0:
		return w.WaitFor(open, "the provider deletes changed resources")
	}
	return outcome.Fail(failure)
}

func repairItems(v workflow.View) (items []json.RawMessage, err error) {
	var p struct {
		Batches []json.RawMessage `json:"batches"`
	}
	out, _ := v.Step("plan")
	err = unmarshal(out.Output, &p)
	return p.Batches, err
}

func repairKey(v workflow.View) (string, error) {
	var r repairBatch
	raw, _ := v.Item("item")
	err := unmarshal(raw, &r)
	return fmt.Sprint(r.At), err
}

func (w *work) repairBatch() (r repairBatch, err error) {
	raw, ok := w.Task.View().Item("item")
	if !ok {
		return r, cluster.StateRefused.Errorf("step %s is in no loop", w.Task.Step())
	}
	err = unmarshal(raw, &r)
	return r, err
}

func repairStart(ctx context.Context, w *work) outcome.Outcome {
	r, err := w.repairBatch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.StartNodes(ctx, w.NodesNamed(r.Start), vmBounds)
}

func repairRemove(ctx context.Context, w *work) outcome.Outcome {
	r, err := w.repairBatch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removeNodes(ctx, w.NodesNamed(r.Replace))
}

// repairCreate creates as many nodes of each role as were removed.
func repairCreate(ctx context.Context, w *work) outcome.Outcome {
	r, err := w.repairBatch()
	if err != nil {
		return outcome.Fail(err)
	}
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		want := resources.PoolOf(w.Cluster, role)
		want.Prefix = w.siblingKey("new")
		want.Count = len(resources.Filter(r.Replace, func(name string) bool { of, _, _ := cluster.RoleOf(w.Cluster, name); return of == role }))
		if out := w.FillPool(ctx, want, vmBounds); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

func repairReady(_ context.Context, w *work) outcome.Outcome {
	r, err := w.repairBatch()
	if err != nil {
		return outcome.Fail(err)
	}
	prefix := w.siblingKey("new")
	return w.awaitReady(resources.Filter(w.Nodes(""), func(n *cluster.Node) bool {
		return slices.Contains(r.Start, n.Name) || len(n.Key) > len(prefix) && n.Key[:len(prefix)] == prefix
	}), w.heartbeatsSince())
}

// adopt records VMs of the cluster that have no row.
func adopt(ctx context.Context, w *work) outcome.Outcome {
	plan, err := w.repairPlan()
	if err != nil {
		return outcome.Fail(err)
	}
	var change cluster.Change
	for _, id := range plan.Adopt {
		r, err := w.Provider.Get(ctx, cluster.Ref{Kind: cluster.VM, ID: id, Zone: w.Cluster.Zone.ID})
		if errors.Is(err, cluster.ErrGone) || err == nil && w.Record.Contains(r) {
			continue
		}
		if err != nil {
			return outcome.Fail(err)
		}
		role, ordinal, ours := cluster.RoleOf(w.Cluster, r.Name)
		if !ours || !cluster.Ours(nil, r, w.s.options.Installation, w.Cluster) {
			continue
		}
		row := w.NewRow(cluster.VM, r.Name, r.Spec)
		row.CallID, row.Spec.Role, row.Spec.UserData, row.Attempts = "", role, nil, 0
		row.ProviderID, row.Identity, row.Phase, row.PresentAt, row.Origin = r.ID, r.Identity, cluster.Present, w.Now, cluster.OriginAdopted
		change.Journal = append(change.Journal, row)
		change.Nodes = append(change.Nodes, &cluster.Node{
			ClusterID: w.Cluster.ID, VMID: r.ID, Key: row.Key, Name: r.Name, Role: role, Ordinal: ordinal, Version: w.Cluster.Version, Template: w.Cluster.Template, Address: r.Address,
		})
	}
	return outcome.Fail(w.Save(ctx, change))
}

// fillRole creates the missing nodes of a role, if the plan allows it.
func fillRole(role cluster.Role) stepBody {
	return func(ctx context.Context, w *work) outcome.Outcome {
		plan, err := w.repairPlan()
		if err != nil || !plan.Fill || plan.Keep && role == cluster.Control {
			return outcome.Fail(err)
		}
		want := resources.PoolOf(w.Cluster, role)
		if role == cluster.Worker { // nodes that are removed do not count
			want.Count += len(w.NodesNamed(plan.Drop))
		}
		return w.FillPool(ctx, want, vmBounds)
	}
}

func drainSurplus(_ context.Context, w *work) outcome.Outcome {
	plan, err := w.repairPlan()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.awaitDrained(w.NodesNamed(plan.Drop), drainWait, w.s.options.Settings.DrainBlocks)
}

// removeSurplus destroys workers beyond the desired number, and VMs of the
// cluster without a row, for which it writes rows first.
func removeSurplus(ctx context.Context, w *work) outcome.Outcome {
	plan, err := w.repairPlan()
	if err != nil {
		return outcome.Fail(err)
	}
	var change cluster.Change
	for _, id := range plan.Remove {
		r, err := w.Provider.Get(ctx, cluster.Ref{Kind: cluster.VM, ID: id, Zone: w.Cluster.Zone.ID})
		if errors.Is(err, cluster.ErrGone) || err == nil && (w.Record.Contains(r) || !cluster.Ours(nil, r, w.s.options.Installation, w.Cluster)) {
			continue
		}
		if err != nil {
			return outcome.Fail(err)
		}
		change.Journal = append(change.Journal, w.orphanRow(r))
	}
	if err := w.Save(ctx, change); err != nil {
		return outcome.Fail(err)
	}
	if len(change.Journal) > 0 {
		if err := w.Reload(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	orphans := resources.Filter(w.Record.Journal, func(row cluster.JournalRow) bool {
		return slices.Contains(plan.Remove, row.ProviderID) && row.Phase.Open()
	})
	var rows []*cluster.JournalRow
	for _, orphan := range orphans {
		rows = append(rows, w.Row(orphan.Key))
	}
	if open, failure, err := w.DeleteRows(ctx, rows, cluster.NodeRemoval); err != nil {
		return outcome.Fail(err)
	} else if len(open) > 0 {
		return w.WaitFor(open, "the provider destroys VMs")
	} else if failure != nil {
		return outcome.Fail(failure)
	}
	return w.removeNodes(ctx, w.NodesNamed(plan.Drop))
}

// repairRules corrects the rules, unless there is no control node as their
// target.
func repairRules(ctx context.Context, w *work) outcome.Outcome {
	plan, err := w.repairPlan()
	if err != nil || plan.Keep {
		return outcome.Fail(err)
	}
	return w.Rules(ctx)
}

// failForbidden fails with the repair that the policy forbids, after all other
// repairs.
func failForbidden(_ context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.deferredFailure("plan"))
}
