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
	kind   cluster.Kind
	suffix string // of its name
	spec   cluster.Spec
	made   func(c *cluster.Cluster, row *cluster.JournalRow) bool // changes the cluster in the write that marks the row present; false: no change; nil: none
}

// ensure creates a resource if it is missing. row is its journal row, which is
// present if the outcome is Done.
func (w *work) provide(ctx context.Context, want resourceSpec, b bounds) (row *cluster.JournalRow, out outcome.Outcome) {
	rows, out := w.provideAll(ctx, []resourceSpec{want}, b)
	return rows[0], out
}

// ensureAll creates several missing resources at the same time. They must not
// depend on each other.
func (w *work) provideAll(ctx context.Context, wants []resourceSpec, b bounds) ([]*cluster.JournalRow, outcome.Outcome) {
	rows, ops := make([]*cluster.JournalRow, len(wants)), []*rowOp(nil)
	for i, want := range wants {
		row := w.standing(want)
		if rows[i] = row; row != nil && row.Phase == cluster.Present {
			continue
		}
		var h *rowOp
		if row != nil {
			h = w.hold(row, false, b)
		} else {
			row = w.intent(want.kind, w.freshName(want), want.spec)
			row.Attempt = 1 + w.lostBefore(want.kind)
			h = &rowOp{row: row, within: b, fresh: true, dirty: true}
		}
		if want.made != nil {
			h.also = func(c *cluster.Cluster) bool {
				return row.Phase == cluster.Present && want.made(c, row)
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
		case h.fails != nil && !row.Phase.Open() && row.Attempt < b.tries:
			return rows, outcome.Wait(doubling(row.Attempt), waitsForProvider, "%s %s was lost and is created again", row.Kind, row.Name)
		case h.fails != nil:
			return rows, outcome.Fail(h.fails)
		}
	}
	return rows, outcome.Done()
}

// lostInRun counts the resources of a kind that this run has created and lost.
func (w *work) lostBefore(kind cluster.Kind) int {
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
func (w *work) standing(want resourceSpec) *cluster.JournalRow {
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
	if !w.makes(cluster.Network) {
		return outcome.Done()
	}
	if w.c.Network.ID != "" && !slices.ContainsFunc(w.rec.Journal, func(r cluster.JournalRow) bool { // a network that was created and is gone is created again
		return r.Kind == cluster.Network && r.ProviderID == w.c.Network.ID && (r.Phase == cluster.Present || r.Origin == cluster.OriginCreated)
	}) {
		if made := w.standing(resourceSpec{kind: cluster.Network}); made == nil || made.Origin == cluster.OriginGiven {
			return outcome.Fail(w.enter(ctx, cluster.Network, w.c.Network.ID))
		}
	}
	offering, err := find(ctx, w.provider, w.c.Owner, cluster.NetworkOffering, "")
	if err != nil {
		return outcome.Fail(err)
	}
	want := resourceSpec{kind: cluster.Network, suffix: "network", spec: cluster.Spec{Zone: w.c.Zone.ID}, made: inNetwork}
	if offering != nil {
		want.spec.Offering = offering.ID
	}
	row, out := w.provide(ctx, want, resourceBounds)
	if !out.IsDone() || w.c.Network.ID == row.ProviderID {
		return out
	}
	return outcome.Fail(w.amend(ctx, func(c *cluster.Cluster, _ *cluster.Details) bool { return inNetwork(c, row) })) // an earlier run has created it
}

// setNetwork stores the network that was created for a cluster.
func inNetwork(c *cluster.Cluster, row *cluster.JournalRow) bool {
	if c.Network.ID == row.ProviderID {
		return false
	}
	c.Network = cluster.Entity{ID: row.ProviderID, Name: row.Name}
	return true
}

// journalGiven reads a given resource and writes a row for it. It is observed
// and never deleted.
func (w *work) enter(ctx context.Context, kind cluster.Kind, id string) error {
	r, err := w.provider.Get(ctx, cluster.Ref{Kind: kind, ID: id, Zone: w.c.Zone.ID})
	if err != nil {
		return entityGone(err, kind, id)
	}
	return w.record(ctx, r)
}

func (w *work) record(ctx context.Context, r cluster.Resource) error {
	row := w.intent(r.Kind, r.Name, cluster.Spec{Zone: w.c.Zone.ID})
	row.Key += "/" + r.ID
	row.CallID, row.ProviderID, row.Identity = "", r.ID, r.Identity
	row.Phase, row.PresentAt, row.Origin = cluster.Present, w.now, cluster.OriginGiven
	return w.save(ctx, cluster.Change{Journal: []*cluster.JournalRow{row}})
}

// address uses the source NAT address of the network, or else acquires an
// address.
func (w *work) address(ctx context.Context) outcome.Outcome {
	if !w.makes(cluster.Address) || w.standing(resourceSpec{kind: cluster.Address}) != nil && w.standing(resourceSpec{kind: cluster.Address}).Phase == cluster.Present {
		return outcome.Done()
	}
	if w.standing(resourceSpec{kind: cluster.Address}) == nil {
		items, err := all(ctx, w.provider, cluster.Filter{Kind: cluster.Address, Zone: w.c.Zone.ID, Network: w.c.Network.ID})
		if err != nil {
			return outcome.Fail(err)
		}
		if i := slices.IndexFunc(items, func(r cluster.Resource) bool { return r.SourceNAT }); i >= 0 {
			return outcome.Fail(w.record(ctx, items[i]))
		}
	}
	_, out := w.provide(ctx, resourceSpec{kind: cluster.Address, suffix: "address", spec: cluster.Spec{Zone: w.c.Zone.ID, Network: w.c.Network.ID}}, resourceBounds)
	return out
}

// ruleKinds are the kinds of rules, in the order in which they are deleted.
var ruleKinds = []cluster.Kind{cluster.Balancer, cluster.Forward, cluster.Firewall}

// desiredRules returns the rules that a cluster needs now: its port is open to
// its CIDRs, and forwarded to the control node or balanced over all control
// nodes.
func (w *work) wanted() []resourceSpec {
	address := w.standing(resourceSpec{kind: cluster.Address})
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
	if w.makes(cluster.Firewall) {
		firewall := base
		firewall.CIDRs = w.c.CIDRs
		rules = append(rules, resourceSpec{kind: cluster.Firewall, suffix: "firewall", spec: firewall})
	}
	to := base
	to.PrivatePort = endpointPort
	switch {
	case len(vms) == 0:
	case w.makes(cluster.Balancer) && (w.c.ControlCount > 1 || !w.makes(cluster.Forward)):
		to.VMs = vms
		rules = append(rules, resourceSpec{kind: cluster.Balancer, suffix: "balancer", spec: to})
	case w.makes(cluster.Forward):
		to.VM = vms[0]
		rules = append(rules, resourceSpec{kind: cluster.Forward, suffix: "forward", spec: to})
	}
	return rules
}

// rules deletes outdated rules and creates missing ones.
func (w *work) rules(ctx context.Context) outcome.Outcome {
	wanted := w.wanted()
	var stale []*cluster.JournalRow
	for i := range w.rec.Journal {
		row := &w.rec.Journal[i]
		if !slices.Contains(ruleKinds, row.Kind) || !row.Phase.Open() || row.Origin == cluster.OriginGiven {
			continue
		}
		right := row.Phase != cluster.Closing && row.Phase != cluster.Leaked &&
			slices.ContainsFunc(wanted, func(t resourceSpec) bool { return t.kind == row.Kind && sameSpec(t.spec, row.Spec) })
		if !right {
			stale = append(stale, row)
		}
	}
	open, failure, err := w.remove(ctx, stale, resourceBounds.timeout)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case failure != nil:
		return outcome.Fail(failure)
	case len(open) > 0:
		return w.waitFor(open, "the provider deletes old rules")
	}
	_, out := w.provideAll(ctx, wanted, resourceBounds)
	return out
}
