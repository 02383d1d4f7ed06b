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

// scaleFlow adds workers, takes workers away, or replaces nodes one after the
// other by those of another version: its input says which.
func (s *Service) scaleFlow() workflow.Flow {
	only := func(event cluster.LifecycleEvent, step workflow.Step) workflow.Step {
		return when(step, "the event is "+string(event), func(in cluster.RunInput) bool { return in.Event == event })
	}
	removal := bounds{cluster.NodeRemoval, 5}
	return workflow.Flow{
		Name: cluster.FlowScale, Version: 1, Description: "scales or upgrades a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			only(cluster.OnScaleUp, s.step("check", "quota, capacity and entities for the new nodes", lookBounds, checkMore)),
			only(cluster.OnScaleUp, s.step("nodes", "make and start the nodes that lack", vmBounds, moreWorkers)),
			only(cluster.OnScaleUp, s.step("join", "the new nodes are ready", bounds{s.options.Settings.JoinWait, 0}, joinNew)),
			only(cluster.OnScaleDown, s.step("victims", "choose the nodes to remove, once", lookBounds, chooseVictims)),
			only(cluster.OnScaleDown, s.step("drain", "the victims give their work away", bounds{drainWait, 0}, drainVictims)),
			only(cluster.OnScaleDown, s.step("remove", "deregister, destroy and expunge the victims", removal, removeVictims)),
			only(cluster.OnUpgrade, s.step("order", "choose the nodes to upgrade, control nodes first", lookBounds, orderUpgrade)),
			only(cluster.OnUpgrade, workflow.Step{
				Name: "replace", Description: "one after the other", ForEach: &workflow.Loop{ListText: "order", List: listOf("order"), Key: keyOf, Max: 1},
				Steps: []workflow.Step{
					inPlace(s.step("upgrade", "the node upgrades itself, and says its new version", bounds{s.options.Settings.JoinWait, 0}, upgradeInPlace), true),
					inPlace(s.step("endpoint", "the endpoint answers again", bounds{s.options.Settings.EndpointWait, 0}, endpoint), true),
					inPlace(s.step("new", "make nodes with the new template", vmBounds, upgradeNew), false),
					inPlace(s.step("ready", "they are ready", bounds{s.options.Settings.JoinWait, 0}, upgradeReady), false),
					inPlace(s.step("drain", "the old ones give their work away", bounds{drainWait, 0}, upgradeDrain), false),
					inPlace(s.step("remove", "deregister, destroy and expunge the old ones", removal, upgradeRemove), false),
					s.step("rules", "lead the rules to the control nodes", resourceBounds, rules),
				},
			}),
			s.step("rules", "correct the rules", resourceBounds, rules),
			only(cluster.OnUpgrade, s.step("verify", "every node has the new version", lookBounds, verifyUpgrade)),
			s.step("publish", "save totals and endpoint, revoke the join token", publishBound, publish),
		},
		Finally: []workflow.Step{s.rollbackStep(), s.lastly()},
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

// joinNew waits for the nodes that this run has made.
func joinNew(_ context.Context, w *work) outcome.Outcome { return w.joined(w.made(), time.Time{}) }

// made are the living nodes of this run.
func (w *work) made() []*cluster.Node {
	return filter(w.nodes(""), func(n *cluster.Node) bool {
		row := w.row(n.Key)
		return row != nil && row.RunID == w.t.RunID()
	})
}

// victims are the names that a step has chosen.
type victims struct {
	Names []string `json:"names"`
}

func (w *work) victims(step string) ([]*cluster.Node, error) {
	var v victims
	if err := w.t.Output(step, &v); err != nil {
		return nil, err
	}
	return w.named(v.Names), nil
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
	return w.drained(nodes, drainWait, w.s.options.Settings.DrainBlocks)
}

func removeVictims(ctx context.Context, w *work) outcome.Outcome {
	nodes, err := w.victims("victims")
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removal(ctx, nodes)
}

// removal destroys nodes and takes them out of the books.
func (w *work) removal(ctx context.Context, nodes []*cluster.Node) outcome.Outcome {
	open, failure, err := w.remove(ctx, w.rowsOf(nodes), cluster.NodeRemoval)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case len(open) > 0:
		return w.waitFor(open, "the provider destroys VMs")
	case failure != nil:
		return outcome.Fail(failure)
	}
	return outcome.Fail(w.strike(ctx, nodes))
}

// strike takes nodes out of the books that have no row of their own.
func (w *work) strike(ctx context.Context, nodes []*cluster.Node) error {
	var change cluster.Change
	for _, n := range nodes {
		if n.Removed.IsZero() {
			n.Removed = w.now
			change.Nodes = append(change.Nodes, n)
		}
	}
	return w.save(ctx, change)
}

// batch is so many nodes of one role that become another version at the same time.
type batch struct {
	Role    cluster.Role `json:"role"`
	Names   []string     `json:"names"`
	InPlace bool         `json:"inPlace,omitempty"` // the VM stays; otherwise a new one takes its place
}

// orderUpgrade lists the nodes of another version, once.
func orderUpgrade(_ context.Context, w *work) outcome.Outcome {
	if w.in.Request == nil {
		return outcome.Fail(cluster.StateRefused.Errorf("nobody has asked for an upgrade"))
	}
	if err := w.s.mayUpgradeControl(w.rec, w.in.Request); err != nil { // it may have become the only one
		return outcome.Fail(err)
	}
	return outcome.Fail(w.t.Set(w.s.orderOf(w.rec, w.in.Request)))
}

// orderOf lists the nodes of another version in the order of an upgrade:
// control nodes first, for no worker may be newer than its API, and one at a
// time; then workers, surge at a time.
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

// outdatedNodes are the living nodes of a role that an upgrade changes, oldest first.
func (s *Service) outdatedNodes(record *cluster.Record, role cluster.Role, ask *cluster.Request) []cluster.Node {
	old := filter(record.Nodes, func(n cluster.Node) bool {
		return n.Role == role && n.Removed.IsZero() && s.outdated(&n, &record.Cluster, ask)
	})
	slices.SortStableFunc(old, func(a, b cluster.Node) int { return a.Ordinal - b.Ordinal })
	return old
}

// inPlace reports an upgrade that keeps the VM of the control node: there is no
// other one that could take over what it holds. Only a VM that calls home can
// be told to upgrade itself; a caller who gives up what the node holds has it
// replaced instead.
func (s *Service) inPlace(c *cluster.Cluster, ask *cluster.Request) bool {
	return c.ControlCount < 2 && !(ask.Consent && !ask.Downtime) && s.callsHome(c)
}

func (s *Service) callsHome(c *cluster.Cluster) bool {
	p, err := s.provider(c.Provider)
	return err == nil && p.Capabilities().SendsHeartbeats
}

// mayUpgradeControl refuses what a caller has to allow first: that the endpoint
// is away (DOWNTIME_NOT_ALLOWED), or that the only control node is replaced
// (LAST_CONTROL_NODE). Workers alone are no upgrade: they would be newer than
// their control node.
func (s *Service) mayUpgradeControl(record *cluster.Record, ask *cluster.Request) error {
	c := &record.Cluster
	old := s.outdatedNodes(record, cluster.Control, ask)
	switch {
	case c.ControlCount > 1, len(old) == 0, ask.Consent:
		return nil
	case !s.callsHome(c):
		return cluster.LastControl.Errorf("%s is the only control node, and VMs of provider %s do not call home: it cannot be upgraded in place, only replaced", old[0].Name, c.Provider).
			With("resource", old[0].Name)
	case !ask.Downtime:
		return cluster.DowntimeRefused.Errorf("%s is the only control node: it is upgraded in place, before the workers, and the endpoint does not answer meanwhile", old[0].Name).
			With("resource", old[0].Name).With("parameter", "allowdowntime")
	}
	return nil
}

// outdated reports a node that an upgrade replaces, if it replaces its role. A
// node that has called home has the version that it says itself, x.y.z or our id.
func (s *Service) outdated(n *cluster.Node, c *cluster.Cluster, ask *cluster.Request) bool {
	return n.Template.ID != templateOf(c, ask).ID || !s.sameVersion(n.Version, ask.Version)
}

// sameVersion reports that what a node says is a version: its id or its x.y.z.
func (s *Service) sameVersion(says, id string) bool {
	return says == id || cluster.SameVersion(says, s.semantic(id))
}

// semantic is the x.y.z of a version; its id if it is no longer configured.
func (s *Service) semantic(id string) string {
	v, _ := s.version(id)
	return cmp.Or(v.Semantic, id)
}

// templateOf is what nodes are made of after an ask; a version that names none keeps it.
func templateOf(c *cluster.Cluster, ask *cluster.Request) cluster.Entity {
	if ask != nil && ask.Template.ID != "" {
		return ask.Template
	}
	return c.Template
}

// template is what the nodes of this run are made of.
func (w *work) template() cluster.Entity { return templateOf(w.c, w.in.Request) }

// listOf makes a loop's list of a step's output.
func listOf(step string) func(workflow.View) ([]json.RawMessage, error) {
	return func(v workflow.View) ([]json.RawMessage, error) {
		out, known := v.Step(step)
		if !known || out.Phase != workflow.StepDone {
			return nil, fmt.Errorf("step %s has not been executed", step) // only a preview asks so early
		}
		var items []json.RawMessage
		err := unmarshal(out.Output, &items)
		return items, err
	}
}

// inPlace makes a step conditional on how the nodes of its batch are upgraded.
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

// sibling is the key of another step of the same iteration, as it begins the
// keys of the rows that the step has written.
func (w *work) sibling(step string) string {
	at := strings.LastIndexByte(w.t.Step(), '/')
	return w.t.RunID() + "/" + w.t.Step()[:at+1] + step + "/"
}

// upgradeNew makes the nodes that take the place of a batch. Nodes beyond the
// desired number, left by an upgrade that failed, are not made twice.
func upgradeNew(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	want := nodePoolOf(w.c, b.Role)
	want.version, want.template, want.prefix = w.in.Request.Version, w.template(), w.sibling("new")
	spare := len(filter(w.nodes(b.Role), func(n *cluster.Node) bool { return !strings.HasPrefix(n.Key, want.prefix) })) - want.count
	want.count = max(0, len(b.Names)-max(0, spare))
	return w.fillPool(ctx, want, vmBounds)
}

// upgradeInPlace waits until the nodes of a batch, which are told to upgrade
// themselves when they call home, say the new version and that they are ready.
func upgradeInPlace(ctx context.Context, w *work) outcome.Outcome {
	w.hear()
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	to := w.s.semantic(w.in.Request.Version)
	nodes, limit := w.named(b.Names), w.s.options.Settings.JoinWait
	for _, n := range nodes {
		switch {
		case w.s.sameVersion(n.Version, w.in.Request.Version) && n.NotReady == "" && !n.ReadyAt.IsZero():
		case w.waited() >= limit:
			return outcome.Fail(cluster.UpgradeIncomplete.Errorf("%s was told to upgrade itself to %s and after %s still says %s", n.Name, to, limit, cmp.Or(n.NotReady, n.Version)).
				With("resource", n.Name))
		default:
			return outcome.Wait(min(heartbeatLook, limit-w.waited()), waitsForNodes, "%s has not said that it is %s and ready", n.Name, to)
		}
	}
	change := cluster.Change{}
	for _, n := range nodes {
		n.Template = w.template()
		change.Nodes = append(change.Nodes, n)
	}
	return outcome.Fail(w.save(ctx, change))
}

// verifyUpgrade fails if a node has kept its version: an upgrade is done when
// all of them have the new one.
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
	prefix := w.sibling("new")
	return w.joined(filter(w.nodes(""), func(n *cluster.Node) bool { return strings.HasPrefix(n.Key, prefix) }), time.Time{})
}

func upgradeDrain(_ context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.drained(w.named(b.Names), drainWait, w.s.options.Settings.DrainBlocks)
}

func upgradeRemove(ctx context.Context, w *work) outcome.Outcome {
	b, err := w.batch()
	if err != nil {
		return outcome.Fail(err)
	}
	return w.removal(ctx, w.named(b.Names))
}

// rollbackStep takes the nodes of a scale that failed away again, if the
// policy says so, and restores the size that was wanted before.
func (s *Service) rollbackStep() workflow.Step {
	step := s.ending("rollback", "remove the nodes of this run and restore the size", rollback)
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
	out := w.removal(ctx, w.made())
	if out.IsFail() && w.waited() >= cluster.NodeRemoval {
		return outcome.Done() // the collector goes on
	}
	return out
}
