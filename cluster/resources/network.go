package resources

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/outcome"
)

// resourceSpec is a desired network, address or rule.
type resourceSpec struct {
	kind      cluster.Kind
	suffix    string // of its name
	spec      cluster.Spec
	onPresent func(c *cluster.Cluster, row *cluster.JournalRow) bool // changes the cluster in the write that marks the row present; false: no change; nil: none
}

// networks create the network, the address and the rules of a cluster.
type networks struct{ rowOps }

// ensure creates a resource if it is missing. row is its journal row, which is
// present if the outcome is Done.
func (w networks) ensure(ctx context.Context, want resourceSpec, b Bounds) (row *cluster.JournalRow, out outcome.Outcome) {
	rows, out := w.ensureAll(ctx, []resourceSpec{want}, b)
	return rows[0], out
}

// ensureAll creates several missing resources at the same time. They must not
// depend on each other.
func (w networks) ensureAll(ctx context.Context, wants []resourceSpec, b Bounds) ([]*cluster.JournalRow, outcome.Outcome) {
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
			row = w.NewRow(want.kind, w.freshName(want), want.spec)
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
	if open := Filter(ops, (*rowOp).open); len(open) > 0 {
		var names []string
		for _, h := range open {
			names = append(names, string(h.row.Kind)+" "+h.row.Name)
		}
		return rows, w.WaitFor(open, "the provider creates "+strings.Join(names, ", "))
	}
	for _, h := range ops {
		switch row := h.row; {
		case h.failure != nil && !row.Phase.Open() && row.Attempt < b.Tries:
			return rows, outcome.Wait(failurePause(row.Attempt), WaitsForProvider, "%s %s was lost and is created again", row.Kind, row.Name)
		case h.failure != nil:
			return rows, outcome.Fail(h.failure)
		}
	}
	return rows, outcome.Done()
}

// lostInRun counts the resources of a kind that this run has created and lost.
func (w networks) lostInRun(kind cluster.Kind) int {
	lost := 0
	for _, row := range w.Record.Journal {
		if row.Kind == kind && row.RunID == w.Task.RunID() && givenUp(&row) {
			lost++
		}
	}
	return lost
}

// Live returns the row of the network or address of a cluster that is present or
// being created; nil if there is none.
func (w *Attempt) Live(kind cluster.Kind) *cluster.JournalRow {
	return w.liveRow(resourceSpec{kind: kind})
}

// liveRow returns the row of a resource that is present or being created; nil if
// there is none.
func (w *Attempt) liveRow(want resourceSpec) *cluster.JournalRow {
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
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
func (w networks) freshName(want resourceSpec) string {
	name := cluster.ResourceName(w.Cluster, want.suffix)
	for n := 2; slices.ContainsFunc(w.Record.Journal, func(r cluster.JournalRow) bool { return r.Name == name }); n++ {
		name = cluster.ResourceName(w.Cluster, fmt.Sprintf("%s-%d", want.suffix, n))
	}
	return name
}

// ResourceBounds limits the creation of networks, addresses and rules.
var ResourceBounds = Bounds{Timeout: 5 * time.Minute, Tries: 5}

// network creates the network of a cluster without a given one.
func (w networks) network(ctx context.Context) outcome.Outcome {
	if !w.Supports(cluster.Network) {
		return outcome.Done()
	}
	if w.Cluster.Network.ID != "" && !slices.ContainsFunc(w.Record.Journal, func(r cluster.JournalRow) bool { // a network that was created and is gone is created again
		return r.Kind == cluster.Network && r.ProviderID == w.Cluster.Network.ID && (r.Phase == cluster.Present || r.Origin == cluster.OriginCreated)
	}) {
		if created := w.Live(cluster.Network); created == nil || created.Origin == cluster.OriginGiven {
			return outcome.Fail(w.journalGiven(ctx, cluster.Network, w.Cluster.Network.ID))
		}
	}
	offering, err := providers.FindEntry(ctx, w.Provider, w.Cluster.Owner, cluster.NetworkOffering, "")
	if err != nil {
		return outcome.Fail(err)
	}
	want := resourceSpec{kind: cluster.Network, suffix: "network", spec: cluster.Spec{Zone: w.Cluster.Zone.ID}, onPresent: setNetwork}
	if offering != nil {
		want.spec.Offering = offering.ID
	}
	row, out := w.ensure(ctx, want, ResourceBounds)
	if !out.IsDone() || w.Cluster.Network.ID == row.ProviderID {
		return out
	}
	return outcome.Fail(w.Amend(ctx, func(c *cluster.Cluster, _ *cluster.Details) bool { return setNetwork(c, row) })) // an earlier run has created it
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
func (w networks) journalGiven(ctx context.Context, kind cluster.Kind, id string) error {
	r, err := w.Provider.Get(ctx, cluster.Ref{Kind: kind, ID: id, Zone: w.Cluster.Zone.ID})
	if err != nil {
		return EntityGone(err, kind, id)
	}
	return w.journalResource(ctx, r)
}

func (w networks) journalResource(ctx context.Context, r cluster.Resource) error {
	row := w.NewRow(r.Kind, r.Name, cluster.Spec{Zone: w.Cluster.Zone.ID})
	row.Key += "/" + r.ID
	row.CallID, row.ProviderID, row.Identity = "", r.ID, r.Identity
	row.Phase, row.PresentAt, row.Origin = cluster.Present, w.Now, cluster.OriginGiven
	return w.Save(ctx, cluster.Change{Journal: []*cluster.JournalRow{row}})
}

// address uses the source NAT address of the network, or else acquires an
// address.
func (w networks) address(ctx context.Context) outcome.Outcome {
	if !w.Supports(cluster.Address) || w.Live(cluster.Address) != nil && w.Live(cluster.Address).Phase == cluster.Present {
		return outcome.Done()
	}
	if w.Live(cluster.Address) == nil {
		items, err := providers.All(ctx, w.Provider, cluster.Filter{Kind: cluster.Address, Zone: w.Cluster.Zone.ID, Network: w.Cluster.Network.ID})
		if err != nil {
			return outcome.Fail(err)
		}
		if i := slices.IndexFunc(items, func(r cluster.Resource) bool { return r.SourceNAT }); i >= 0 {
			return outcome.Fail(w.journalResource(ctx, items[i]))
		}
	}
	_, out := w.ensure(ctx, resourceSpec{kind: cluster.Address, suffix: "address", spec: cluster.Spec{Zone: w.Cluster.Zone.ID, Network: w.Cluster.Network.ID}}, ResourceBounds)
	return out
}

// RuleKinds are the kinds of rules, in the order in which they are deleted.
var RuleKinds = []cluster.Kind{cluster.Balancer, cluster.Forward, cluster.Firewall}

// desiredRules returns the rules that a cluster needs now: its port is open to
// its CIDRs, and forwarded to the control node or balanced over all control
// nodes.
func (w networks) desiredRules() []resourceSpec {
	address := w.Live(cluster.Address)
	if address == nil || address.Phase != cluster.Present {
		return nil
	}
	var vms []string
	for _, n := range w.Nodes(cluster.Control) {
		if n.VMID != "" && w.PhaseOf(n) == cluster.Present {
			vms = append(vms, n.VMID)
		}
	}
	slices.Sort(vms)
	base := cluster.Spec{Zone: w.Cluster.Zone.ID, Address: address.ProviderID, Protocol: "tcp", Port: cluster.EndpointPort}
	var rules []resourceSpec
	if w.Supports(cluster.Firewall) {
		firewall := base
		firewall.CIDRs = w.Cluster.CIDRs
		rules = append(rules, resourceSpec{kind: cluster.Firewall, suffix: "firewall", spec: firewall})
	}
	to := base
	to.PrivatePort = cluster.EndpointPort
	switch {
	case len(vms) == 0:
	case w.Supports(cluster.Balancer) && (w.Cluster.ControlCount > 1 || !w.Supports(cluster.Forward)):
		to.VMs = vms
		rules = append(rules, resourceSpec{kind: cluster.Balancer, suffix: "balancer", spec: to})
	case w.Supports(cluster.Forward):
		to.VM = vms[0]
		rules = append(rules, resourceSpec{kind: cluster.Forward, suffix: "forward", spec: to})
	}
	return rules
}

// rules deletes outdated rules and creates missing ones.
func (w networks) rules(ctx context.Context) outcome.Outcome {
	desired := w.desiredRules()
	var stale []*cluster.JournalRow
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
		if !slices.Contains(RuleKinds, row.Kind) || !row.Phase.Open() || row.Origin == cluster.OriginGiven {
			continue
		}
		right := row.Phase != cluster.Closing && row.Phase != cluster.Leaked &&
			slices.ContainsFunc(desired, func(t resourceSpec) bool { return t.kind == row.Kind && sameSpec(t.spec, row.Spec) })
		if !right {
			stale = append(stale, row)
		}
	}
	open, failure, err := w.DeleteRows(ctx, stale, ResourceBounds.Timeout)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case failure != nil:
		return outcome.Fail(failure)
	case len(open) > 0:
		return w.WaitFor(open, "the provider deletes old rules")
	}
	_, out := w.ensureAll(ctx, desired, ResourceBounds)
	return out
}

// Network creates the network of a cluster without a given one.
func (w *Attempt) Network(ctx context.Context) outcome.Outcome {
	return networks{rowOps{w}}.network(ctx)
}

// Address uses the source NAT address of the network, or else acquires an
// address.
func (w *Attempt) Address(ctx context.Context) outcome.Outcome {
	return networks{rowOps{w}}.address(ctx)
}

// Rules deletes outdated rules and creates missing ones.
func (w *Attempt) Rules(ctx context.Context) outcome.Outcome {
	return networks{rowOps{w}}.rules(ctx)
}

// EntityGone replaces ErrGone by a fault that names an entity which the cluster
// needs.
func EntityGone(err error, kind cluster.Kind, id string) error {
	if errors.Is(err, cluster.ErrGone) {
		return cluster.EntityRefused.Errorf("%s %s is gone", kind, id).With("resource", id)
	}
	return err
}
