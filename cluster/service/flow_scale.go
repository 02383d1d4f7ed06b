package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

const drainWait = 5 * time.Minute

// scaleFlow adds workers, removes workers, or upgrades nodes one after the
// other. Its input decides which.
func (s *Service) scaleFlow() workflow.Flow {
	only := func(event cluster.LifecycleEvent, step workflow.Step) workflow.Step {
		return when(step, "the event is "+string(event), func(in cluster.RunInput) bool { return in.Event == event })
	}
	removal := bounds{cluster.NodeRemoval, 5}
	return workflow.Flow{
		Name: cluster.FlowScale, Version: 1, Description: "scales or upgrades a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			only(cluster.OnScaleUp, s.step("check", "quota, capacity and entities for the new nodes", checkBounds, checkMore)),
			only(cluster.OnScaleUp, s.step("nodes", "create and start the missing nodes", vmBounds, moreWorkers)),
			only(cluster.OnScaleUp, s.step("join", "the new nodes are ready", bounds{s.options.Settings.JoinWait, 0}, joinNew)),
			only(cluster.OnScaleDown, s.step("victims", "choose the nodes to remove, once", checkBounds, chooseVictims)),
			only(cluster.OnScaleDown, s.step("drain", "the victims drain", bounds{drainWait, 0}, drainVictims)),
			only(cluster.OnScaleDown, s.step("remove", "deregister, destroy and expunge the victims", removal, removeVictims)),
			only(cluster.OnUpgrade, s.step("order", "choose the nodes to upgrade, control nodes first", checkBounds, orderUpgrade)),
			only(cluster.OnUpgrade, workflow.Step{
				Name: "replace", Description: "one after the other", ForEach: &workflow.Loop{ListText: "order", List: listOf("order"), Key: keyOf, Max: 1},
				Steps: []workflow.Step{
					inPlace(s.step("upgrade", "the node upgrades itself, and says its new version", bounds{s.options.Settings.JoinWait, 0}, upgradeInPlace), true),
					inPlace(s.step("endpoint", "the endpoint answers again", bounds{s.options.Settings.EndpointWait, 0}, endpoint), true),
					inPlace(s.step("new", "create nodes with the new template", vmBounds, upgradeNew), false),
					inPlace(s.step("ready", "they are ready", bounds{s.options.Settings.JoinWait, 0}, upgradeReady), false),
					inPlace(s.step("drain", "the old nodes drain", bounds{drainWait, 0}, upgradeDrain), false),
					inPlace(s.step("remove", "deregister, destroy and expunge the old ones", removal, upgradeRemove), false),
					s.step("rules", "point the rules to the control nodes", resourceBounds, rules),
				},
			}),
			s.step("rules", "correct the rules", resourceBounds, rules),
			only(cluster.OnUpgrade, s.step("verify", "every node has the new version", checkBounds, verifyUpgrade)),
			s.step("publish", "save totals and endpoint, revoke the join token", publishBounds, publish),
		},
		Finally: []workflow.Step{s.rollbackStep(), s.revokeStep()},
	}
}

func checkMore(ctx context.Context, w *work) outcome.Outcome {
	more := w.c.NodeCount - len(w.nodes(cluster.Worker))
	if more <= 0 {
		return outcome.Done()
	}
	return w.check(ctx, more)
}

func moreWorkers(ctx context.Context, w *work) outcome.Outcome {
	return w.fillPool(ctx, nodePoolOf(w.c, cluster.Worker), vmBounds)
}

// joinNew waits for the nodes that this run has created.
func joinNew(_ context.Context, w *work) outcome.Outcome {
	return w.awaitReady(w.createdNodes(), time.Time{})
}

// createdNodes returns the nodes that this run has created and that still exist.
func (w *work) createdNodes() []*cluster.Node {
	return filter(w.nodes(""), func(n *cluster.Node) bool {
		row := w.row(n.Key)
		return row != nil && row.RunID == w.t.RunID()
	})
}

// victims are the nodes to remove, as a step has chosen them.
type victims struct {
	Names []string `json:"names"`
}

func (w *work) victims(step string) ([]*cluster.Node, error) {
	var v victims
	if err := w.t.Output(step, &v); err != nil {
		return nil, err
	}
	return w.nodesNamed(v.Names), nil
}

func chooseVictims(_ context.Context, w *work) outcome.Outcome {
	var ids []string
	if w.in.Request != nil {
		ids = w.in.Request.Victims
	}
	chosen, err := cluster.Victims(w.rec.Nodes, ids, w.c.NodeCount)
	if err != nil {
		return outcome.Fail(err)
	}
	v := victims{Names: []string{}}
	for _, n := range chosen {
		v.Names = append(v.Names, n.Name)
	}
	return outcome.Fail(w.t.Set(v))
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
	open, failure, err := w.deleteRows(ctx, w.rowsOf(nodes), cluster.NodeRemoval)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case len(open) > 0:
		return w.waitFor(open, "the provider destroys VMs")
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
			n.Removed = w.now
			change.Nodes = append(change.Nodes, n)
		}
	}
	return w.save(ctx, change)
}

// batch names nodes of one role that are upgraded at the same time.
type batch struct {
	Role    cluster.Role `json:"role"`
	Names   []string     `json:"names"`
	InPlace bool         `json:"inPlace,omitempty"` // the VM stays; otherwise a new VM replaces it
}

// orderUpgrade stores the nodes to upgrade, in batches, as its output.
func orderUpgrade(_ context.Context, w *work) outcome.Outcome {
	if w.in.Request == nil {
		return outcome.Fail(cluster.StateRefused.Errorf("nobody has asked for an upgrade"))
	}
	if err := w.s.mayUpgradeControl(w.rec, w.in.Request); err != nil { // a control node may have become the only one since the request
		return outcome.Fail(err)
	}
	return outcome.Fail(w.t.Set(w.s.orderOf(w.rec, w.in.Request)))
}

// orderOf returns the batches of an upgrade in order. Control nodes come first,
// one at a time, because no worker may be newer than its API; then workers,
// Surge at a time.
func (s *Service) orderOf(record *cluster.Record, ask *cluster.Request) []batch {
	batches := []batch{}
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		size := max(1, ask.Surge)
		if role == cluster.Control {
			size = 1
		}
		for part := range slices.Chunk(namesOfNodes(s.outdatedNodes(record, role, ask)), size) {
			batches = append(batches, batch{role, part, role == cluster.Control && s.inPlace(&record.Cluster, ask)})
		}
	}
	return batches
}

// outdatedNodes returns the nodes of a role that an upgrade changes, oldest
// first, without removed ones.
func (s *Service) outdatedNodes(record *cluster.Record, role cluster.Role, ask *cluster.Request) []cluster.Node {
	old := filter(record.Nodes, func(n cluster.Node) bool {
		return n.Role == role && n.Removed.IsZero() && s.outdated(&n, &record.Cluster, ask)
	})
	slices.SortStableFunc(old, func(a, b cluster.Node) int { return a.Ordinal - b.Ordinal })
	return old
}

// inPlace reports an upgrade that keeps the VM of the only control node, since
// no other node has its data. It needs a provider whose VMs send heartbeats: the
// answer tells the node to upgrade itself. A caller who consents to the loss of
// the data has the node replaced.
func (s *Service) inPlace(c *cluster.Cluster, ask *cluster.Request) bool {
	return c.ControlCount < 2 && !(ask.Consent && !ask.Downtime) && s.sendsHeartbeats(c)
}

func (s *Service) sendsHeartbeats(c *cluster.Cluster) bool {
	p, err := s.provider(c.Provider)
	return err == nil && p.Capabilities().SendsHeartbeats
}

// mayUpgradeControl refuses an upgrade that the caller must allow first: one
// with downtime of the endpoint (DOWNTIME_NOT_ALLOWED), or one that replaces the
// only control node (LAST_CONTROL_NODE). The workers are never upgraded alone:
// they would be newer than their control node.
func (s *Service) mayUpgradeControl(record *cluster.Record, ask *cluster.Request) error {
	c := &record.Cluster
	old := s.outdatedNodes(record, cluster.Control, ask)
	switch {
	case c.ControlCount > 1, len(old) == 0, ask.Consent:
		return nil
	case !s.sendsHeartbeats(c):
		return cluster.LastControl.Errorf("%s is the only control node, and VMs of provider %s do not call home: it cannot be upgraded in place, only replaced", old[0].Name, c.Provider).
			With("resource", old[0].Name)
	case !ask.Downtime:
		return cluster.DowntimeRefused.Errorf("%s is the only control node: it is upgraded in place, before the workers, and the endpoint does not answer meanwhile", old[0].Name).
			With("resource", old[0].Name).With("parameter", "allowdowntime")
	}
	return nil
}

// outdated reports a node whose template or version differs from that of an
// upgrade. A node that has sent a heartbeat has the version that it reported:
// x.y.z, or the id of a version.
func (s *Service) outdated(n *cluster.Node, c *cluster.Cluster, ask *cluster.Request) bool {
	return n.Template.ID != templateOf(c, ask).ID || !s.sameVersion(n.Version, ask.Version)
}

// sameVersion reports that a reported version, an id or x.y.z, is the version
// with an id.
func (s *Service) sameVersion(reported, id string) bool {
	return reported == id || cluster.SameVersion(reported, s.semantic(id))
}

// semantic returns the x.y.z of a version, or its id if it is no longer
// configured.
func (s *Service) semantic(id string) string {
	v, _ := s.version(id)
	return cmp.Or(v.Semantic, id)
}

// templateOf returns the template of nodes after a request: that of the request,
// or else that of the cluster.
func templateOf(c *cluster.Cluster, ask *cluster.Request) cluster.Entity {
	if ask != nil && ask.Template.ID != "" {
		return ask.Template
	}
	return c.Template
}

// template returns the template for the nodes that this run creates.
func (w *work) template() cluster.Entity { return templateOf(w.c, w.in.Request) }

// listOf returns a function that reads the items of a loop from the output of a
// step.
func listOf(step string) func(workflow.View) ([]json.RawMessage, error) {
	return func(v workflow.View) ([]json.RawMessage, error) {
		out, known := v.Step(step)
		if !known || out.Phase != workflow.StepDone {
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
		var b batch
		raw, _ := v.Item("item")
		err := unmarshal(raw, &b)
		return b.InPlace == holds, err
	}
	return step
}

func keyOf(v workflow.View) (string, error) {
	var b batch
	raw, _ := v.Item("item")
	if err := unmarshal(raw, &b); err != nil || len(b.Names) == 0 {
		return "none", err
	}
	return b.Names[0], nil
}

func (w *work) batch() (batch, error) {
	var b batch
	raw, ok := w.t.View().Item("item")
	if !ok {
		return b, cluster.StateRefused.Errorf("step %s is in no loop", w.t.Step())
	}
	err := unmarshal(raw, &b)
	return b, err
}

// siblingKey returns the key of another step of the same iteration. It is the
// prefix of the keys of the rows that the step has written.
func (w *work) siblingKey(step string) string {
	at := strings.LastIndexByte(w.t.Step(), '/')
	return w.t.RunID() + "/" + w.t.Step()[:at+1] + step + "/"
}

// upgradeNew creates the nodes that replace a batch. Surplus nodes that a failed
// upgrade has left count as replacements.
func upgradeNew(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	want := nodePoolOf(w.c, b.Role)
	want.version, want.template, want.prefix = w.in.Request.Version, w.template(), w.siblingKey("new")
	spare := len(filter(w.nodes(b.Role), func(n *cluster.Node) bool { return !strings.HasPrefix(n.Key, want.prefix) })) - want.count
	want.count = max(0, len(b.Names)-max(0, spare))
	return w.fillPool(ctx, want, vmBounds)
}

// upgradeInPlace waits until the nodes of a batch report the new version and
// that they are ready. The answers to their heartbeats tell them to upgrade.
func upgradeInPlace(ctx context.Context, w *work) outcome.Outcome {
	w.consumeSignals()
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	to := w.s.semantic(w.in.Request.Version)
	nodes, limit := w.nodesNamed(b.Names), w.s.options.Settings.JoinWait
	for _, n := range nodes {
		switch {
		case w.s.sameVersion(n.Version, w.in.Request.Version) && n.NotReady == "" && !n.ReadyAt.IsZero():
		case w.waited() >= limit:
			return outcome.Fail(cluster.UpgradeIncomplete.Errorf("%s was told to upgrade itself to %s and after %s still says %s", n.Name, to, limit, cmp.Or(n.NotReady, n.Version)).
				With("resource", n.Name))
		default:
			return outcome.Wait(min(nodePollInterval, limit-w.waited()), waitsForNodes, "%s has not said that it is %s and ready", n.Name, to)
		}
	}
	change := cluster.Change{}
	for _, n := range nodes {
		n.Template = w.template()
		change.Nodes = append(change.Nodes, n)
	}
	return outcome.Fail(w.save(ctx, change))
}

// verifyUpgrade fails if a node has kept its old version.
func verifyUpgrade(_ context.Context, w *work) outcome.Outcome {
	var old []string
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		for _, n := range w.s.outdatedNodes(w.rec, role, w.in.Request) {
			old = append(old, n.Name+" has "+cmp.Or(n.Version, "no version"))
		}
	}
	if len(old) > 0 {
		return outcome.Fail(cluster.UpgradeIncomplete.Errorf("not upgraded to %s: %s", w.in.Request.Version, strings.Join(old, ", ")).With("resource", old[0]))
	}
	return outcome.Done()
}

func upgradeReady(_ context.Context, w *work) outcome.Outcome {
	prefix := w.siblingKey("new")
	return w.awaitReady(filter(w.nodes(""), func(n *cluster.Node) bool { return strings.HasPrefix(n.Key, prefix) }), time.Time{})
}

func upgradeDrain(_ context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.awaitDrained(w.nodesNamed(b.Names), drainWait, w.s.options.Settings.DrainBlocks)
}

func upgradeRemove(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removeNodes(ctx, w.nodesNamed(b.Names))
}

// rollbackStep returns the step that removes the new nodes of a failed scale and
// restores the former size, if Settings.RollbackScale is set.
func (s *Service) rollbackStep() workflow.Step {
	step := s.finalStep("rollback", "remove the nodes of this run and restore the size", rollback)
	step.WhenText = "on_scale_failure is rollback, and the run has not published"
	step.When = func(v workflow.View) (bool, error) {
		var in cluster.RunInput
		if err := decodeInput(v, &in); err != nil {
			return false, err
		}
		done, known := v.Step("publish")
		return s.options.Settings.RollbackScale && in.Event == cluster.OnScaleUp && (!known || done.Phase != workflow.StepDone), nil
	}
	return step
}

func rollback(ctx context.Context, w *work) outcome.Outcome {
	if w.c.Desired == cluster.WantDestroyed || w.in.Request == nil {
		return outcome.Done()
	}
	if before := w.in.Request.PreviousCount; before > 0 && w.c.NodeCount != before {
		err := w.amend(ctx, func(c *cluster.Cluster, _ *cluster.Details) bool {
			c.NodeCount = before
			return true
		})
		if err != nil {
			return outcome.Fail(err)
		}
	}
	out := w.removeNodes(ctx, w.createdNodes())
	if out.IsFail() && w.waited() >= cluster.NodeRemoval {
		return outcome.Done() // the collector goes on
	}
	return out
}
