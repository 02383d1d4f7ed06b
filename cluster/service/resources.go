package service

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/outcome"
)

// endpointPort is the port of a cluster's endpoint.
const endpointPort = 6443

// resourceSpec is a desired network, address or rule.
type resourceSpec struct {
	kind      cluster.Kind
	suffix    string // of its name
	spec      cluster.Spec
	onPresent func(c *cluster.Cluster, row *cluster.JournalRow) bool // changes the cluster in the write that marks the row present; false: no change; nil: none
}

// ensure creates a resource if it is missing. row is its journal row, which is
// present if the outcome is Done.
func (w *work) ensure(ctx context.Context, want resourceSpec, b bounds) (row *cluster.JournalRow, out outcome.Outcome) {
	rows, out := w.ensureAll(ctx, []resourceSpec{want}, b)
	return rows[0], out
}

// ensureAll creates several missing resources at the same time. They must not
// depend on each other.
func (w *work) ensureAll(ctx context.Context, wants []resourceSpec, b bounds) ([]*cluster.JournalRow, outcome.Outcome) {
	rows, ops := make([]*cluster.JournalRow, len(wants)), []*rowOp(nil)
	for i, want := range wants {
		row := w.liveRow(want)
		if rows[i] = row; row != nil && row.Phase == cluster.Present {
			continue
		}
		var h *rowOp
		if row != nil {
			h = w.newRowOp(row, false, b)
		} else {
			row = w.newRow(want.kind, w.freshName(want), want.spec)
			row.Attempt = 1 + w.lostInRun(want.kind)
			h = &rowOp{row: row, limits: b, isNew: true, dirty: true}
		}
		if want.onPresent != nil {
			h.onSave = func(c *cluster.Cluster) bool {
				return row.Phase == cluster.Present && want.onPresent(c, row)
			}
		}
		rows[i], ops = row, append(ops, h)
	}
	if len(ops) == 0 {
		return rows, outcome.Done()
	}
	if err := w.advance(ctx, ops); err != nil {
		return rows, outcome.Fail(err)
	}
	if open := filter(ops, (*rowOp).open); len(open) > 0 {
		var names []string
		for _, h := range open {
			names = append(names, string(h.row.Kind)+" "+h.row.Name)
		}
		return rows, w.waitFor(open, "the provider creates "+strings.Join(names, ", "))
	}
	for _, h := range ops {
		switch row := h.row; {
		case h.failure != nil && !row.Phase.Open() && row.Attempt < b.tries:
			return rows, outcome.Wait(failurePause(row.Attempt), waitsForProvider, "%s %s was lost and is created again", row.Kind, row.Name)
		case h.failure != nil:
			return rows, outcome.Fail(h.failure)
		}
	}
	return rows, outcome.Done()
}

// lostInRun counts the resources of a kind that this run has created and lost.
func (w *work) lostInRun(kind cluster.Kind) int {
	lost := 0
	for _, row := range w.rec.Journal {
		if row.Kind == kind && row.RunID == w.t.RunID() && givenUp(&row) {
			lost++
		}
	}
	return lost
}

// liveRow returns the row of a resource that is present or being created; nil if
// there is none.
func (w *work) liveRow(want resourceSpec) *cluster.JournalRow {
	for i := range w.rec.Journal {
		row := &w.rec.Journal[i]
		alive := row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Present
		if alive && row.Kind == want.kind && (want.kind == cluster.Network || want.kind == cluster.Address || sameSpec(row.Spec, want.spec)) {
			return row
		}
	}
	return nil
}

func sameSpec(a, b cluster.Spec) bool {
	for _, s := range []*cluster.Spec{&a, &b} {
		s.UserData = nil
		s.CIDRs, s.VMs = slices.Clone(s.CIDRs), slices.Clone(s.VMs)
		slices.Sort(s.CIDRs)
		slices.Sort(s.VMs)
		if len(s.CIDRs) == 0 {
			s.CIDRs = nil
		}
		if len(s.VMs) == 0 {
			s.VMs = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// freshName returns a name that no row of the cluster has had.
func (w *work) freshName(want resourceSpec) string {
	name := cluster.ResourceName(w.c, want.suffix)
	for n := 2; slices.ContainsFunc(w.rec.Journal, func(r cluster.JournalRow) bool { return r.Name == name }); n++ {
		name = cluster.ResourceName(w.c, fmt.Sprintf("%s-%d", want.suffix, n))
	}
	return name
}

// resourceBounds limits the creation of networks, addresses and rules.
var resourceBounds = bounds{5 * time.Minute, 5}

// network creates the network of a cluster without a given one.
func (w *work) network(ctx context.Context) outcome.Outcome {
	if !w.supports(cluster.Network) {
		return outcome.Done()
	}
	if w.c.Network.ID != "" && !slices.ContainsFunc(w.rec.Journal, func(r cluster.JournalRow) bool { // a network that was created and is gone is created again
		return r.Kind == cluster.Network && r.ProviderID == w.c.Network.ID && (r.Phase == cluster.Present || r.Origin == cluster.OriginCreated)
	}) {
		if created := w.liveRow(resourceSpec{kind: cluster.Network}); created == nil || created.Origin == cluster.OriginGiven {
			return outcome.Fail(w.journalGiven(ctx, cluster.Network, w.c.Network.ID))
		}
	}
	offering, err := findEntry(ctx, w.provider, w.c.Owner, cluster.NetworkOffering, "")
	if err != nil {
		return outcome.Fail(err)
	}
	want := resourceSpec{kind: cluster.Network, suffix: "network", spec: cluster.Spec{Zone: w.c.Zone.ID}, onPresent: setNetwork}
	if offering != nil {
		want.spec.Offering = offering.ID
	}
	row, out := w.ensure(ctx, want, resourceBounds)
	if !out.IsDone() || w.c.Network.ID == row.ProviderID {
		return out
	}
	return outcome.Fail(w.amend(ctx, func(c *cluster.Cluster, _ *cluster.Details) bool { return setNetwork(c, row) })) // an earlier run has created it
}

// setNetwork stores the network that was created for a cluster.
func setNetwork(c *cluster.Cluster, row *cluster.JournalRow) bool {
	if c.Network.ID == row.ProviderID {
		return false
	}
	c.Network = cluster.Entity{ID: row.ProviderID, Name: row.Name}
	return true
}

// journalGiven reads a given resource and writes a row for it. It is observed
// and never deleted.
func (w *work) journalGiven(ctx context.Context, kind cluster.Kind, id string) error {
	r, err := w.provider.Get(ctx, cluster.Ref{Kind: kind, ID: id, Zone: w.c.Zone.ID})
	if err != nil {
		return entityGone(err, kind, id)
	}
	return w.journalResource(ctx, r)
}

func (w *work) journalResource(ctx context.Context, r cluster.Resource) error {
	row := w.newRow(r.Kind, r.Name, cluster.Spec{Zone: w.c.Zone.ID})
	row.Key += "/" + r.ID
	row.CallID, row.ProviderID, row.Identity = "", r.ID, r.Identity
	row.Phase, row.PresentAt, row.Origin = cluster.Present, w.now, cluster.OriginGiven
	return w.save(ctx, cluster.Change{Journal: []*cluster.JournalRow{row}})
}

// address uses the source NAT address of the network, or else acquires an
// address.
func (w *work) address(ctx context.Context) outcome.Outcome {
	if !w.supports(cluster.Address) || w.liveRow(resourceSpec{kind: cluster.Address}) != nil && w.liveRow(resourceSpec{kind: cluster.Address}).Phase == cluster.Present {
		return outcome.Done()
	}
	if w.liveRow(resourceSpec{kind: cluster.Address}) == nil {
		items, err := all(ctx, w.provider, cluster.Filter{Kind: cluster.Address, Zone: w.c.Zone.ID, Network: w.c.Network.ID})
		if err != nil {
			return outcome.Fail(err)
		}
		if i := slices.IndexFunc(items, func(r cluster.Resource) bool { return r.SourceNAT }); i >= 0 {
			return outcome.Fail(w.journalResource(ctx, items[i]))
		}
	}
	_, out := w.ensure(ctx, resourceSpec{kind: cluster.Address, suffix: "address", spec: cluster.Spec{Zone: w.c.Zone.ID, Network: w.c.Network.ID}}, resourceBounds)
	return out
}

// ruleKinds are the kinds of rules, in the order in which they are deleted.
var ruleKinds = []cluster.Kind{cluster.Balancer, cluster.Forward, cluster.Firewall}

// desiredRules returns the rules that a cluster needs now: its port is open to
// its CIDRs, and forwarded to the control node or balanced over all control
// nodes.
func (w *work) desiredRules() []resourceSpec {
	address := w.liveRow(resourceSpec{kind: cluster.Address})
	if address == nil || address.Phase != cluster.Present {
		return nil
	}
	var vms []string
	for _, n := range w.nodes(cluster.Control) {
		if n.VMID != "" && w.phaseOf(n) == cluster.Present {
			vms = append(vms, n.VMID)
		}
	}
	slices.Sort(vms)
	base := cluster.Spec{Zone: w.c.Zone.ID, Address: address.ProviderID, Protocol: "tcp", Port: endpointPort}
	var rules []resourceSpec
	if w.supports(cluster.Firewall) {
		firewall := base
		firewall.CIDRs = w.c.CIDRs
		rules = append(rules, resourceSpec{kind: cluster.Firewall, suffix: "firewall", spec: firewall})
	}
	to := base
	to.PrivatePort = endpointPort
	switch {
	case len(vms) == 0:
	case w.supports(cluster.Balancer) && (w.c.ControlCount > 1 || !w.supports(cluster.Forward)):
		to.VMs = vms
		rules = append(rules, resourceSpec{kind: cluster.Balancer, suffix: "balancer", spec: to})
	case w.supports(cluster.Forward):
		to.VM = vms[0]
		rules = append(rules, resourceSpec{kind: cluster.Forward, suffix: "forward", spec: to})
	}
	return rules
}

// rules deletes outdated rules and creates missing ones.
func (w *work) rules(ctx context.Context) outcome.Outcome {
	desired := w.desiredRules()
	var stale []*cluster.JournalRow
	for i := range w.rec.Journal {
		row := &w.rec.Journal[i]
		if !slices.Contains(ruleKinds, row.Kind) || !row.Phase.Open() || row.Origin == cluster.OriginGiven {
			continue
		}
		right := row.Phase != cluster.Closing && row.Phase != cluster.Leaked &&
			slices.ContainsFunc(desired, func(t resourceSpec) bool { return t.kind == row.Kind && sameSpec(t.spec, row.Spec) })
		if !right {
			stale = append(stale, row)
		}
	}
	open, failure, err := w.deleteRows(ctx, stale, resourceBounds.timeout)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case failure != nil:
		return outcome.Fail(failure)
	case len(open) > 0:
		return w.waitFor(open, "the provider deletes old rules")
	}
	_, out := w.ensureAll(ctx, desired, resourceBounds)
	return out
}
