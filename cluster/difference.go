package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// tolerance says when a difference becomes an alarm.
type tolerance int

const (
	alarmAtOnce      tolerance = iota
	alarmAfterTime             // after Tolerances.Transitional: the VM is starting, stopping or migrating
	alarmAfterPasses           // after Tolerances.Passes passes
	alarmNever                 // it is only reported
)

// difference is a finding that is not yet compared with the previous pass, together
// with the node, row and resource that it is about.
type difference struct {
	Finding
	tolerance tolerance
	node      *Node
	row       *JournalRow
	existing  *Resource
}

// transitionPrefix begins the evidence of a VM that is starting, stopping or
// migrating.
const transitionPrefix = "on its way: "

// comparison compares the record of a cluster with what a pass observed.
type comparison struct {
	cluster    *Cluster
	record     *Record
	observed   Observed
	now        time.Time
	tolerances Tolerances
	shouldRun  bool // the VMs should run
	previous   map[findingKey]Finding
	resources  map[resourceID]*Resource
}

type (
	findingKey struct {
		of           FindingType
		resource, id string
	}
	resourceID struct {
		kind Kind
		id   string
	}
)

func (f Finding) key() findingKey { return findingKey{f.Type, f.Resource, f.ID} }

// newComparison compares a cluster with what it should be in its state.
func newComparison(c *Cluster, b *Record, seen Observed, now time.Time, tol Tolerances) *comparison {
	l := &comparison{cluster: c, record: b, observed: seen, now: now, tolerances: tol.OrDefault(), previous: make(map[findingKey]Finding, len(c.Findings)),
		resources: make(map[resourceID]*Resource, len(seen.Resources)),
		shouldRun: c.State != Stopped && c.State != Stopping && !(c.State == Alert && c.Desired == WantStopped)}
	for _, f := range c.Findings {
		l.previous[f.key()] = f
	}
	for i := range seen.Resources {
		r := &seen.Resources[i]
		l.resources[resourceID{r.Kind, r.ID}] = r
	}
	return l
}

// differences returns all differences in a fixed order.
func (l *comparison) differences() []difference {
	var all []difference
	for i := range l.record.Nodes {
		if n := &l.record.Nodes[i]; n.Removed.IsZero() {
			all = append(all, l.nodeDifferences(n)...)
			all = append(all, l.outdated(n)...)
		}
	}
	for i := range l.record.Journal {
		if d := l.rowDifference(&l.record.Journal[i]); d != nil {
			all = append(all, *d)
		}
	}
	all = append(all, l.extraResources()...)
	all = append(all, l.countDifferences()...)
	if l.shouldRun && l.observed.Endpoint != nil {
		d := l.newDifference(EndpointUnreachable, l.cluster.Endpoint, "", alarmAfterPasses, "%v", l.observed.Endpoint)
		if old, ok := l.previous[d.key()]; ok {
			d.Evidence = old.Evidence // the error text names ports and differs each time
		}
		all = append(all, d)
	}
	for _, r := range l.observed.Foreign {
		all = append(all, l.newDifference(Foreign, r.Name, r.ID, alarmNever, "a foreign VM is in the network"))
	}
	if !l.observed.ForeignComplete {
		all = append(all, l.previousForeign()...)
	}
	slices.SortStableFunc(all, func(a, b difference) int {
		return cmp.Or(cmp.Compare(order(a.Type), order(b.Type)), strings.Compare(a.Resource, b.Resource), strings.Compare(a.ID, b.ID))
	})
	return all
}

// previousForeign returns the foreign VMs that an earlier pass found with a
// complete list of the network and that this pass has not seen.
func (l *comparison) previousForeign() (all []difference) {
	for _, f := range l.cluster.Findings {
		seen := func(r Resource) bool { return r.ID == f.ID }
		if f.Type == Foreign && !slices.ContainsFunc(l.observed.Foreign, seen) {
			all = append(all, difference{Finding: Finding{Type: f.Type, Resource: f.Resource, ID: f.ID, Evidence: f.Evidence}, tolerance: alarmNever})
		}
	}
	return all
}

var findingOrder = []FindingType{NetworkMissing, AddressMissing, Missing, PowerState, UnknownState, Count, RuleChanged, EndpointUnreachable, NotReady, ExtraOwned, Outdated, Foreign}

func order(t FindingType) int { return slices.Index(findingOrder, t) }

func (l *comparison) newDifference(t FindingType, resource, id string, p tolerance, format string, args ...any) difference {
	return difference{Finding: Finding{Type: t, Resource: resource, ID: id, Evidence: fmt.Sprintf(format, args...)}, tolerance: p}
}

func (l *comparison) nodeDifferences(n *Node) []difference {
	if n.VMID == "" {
		return nil // it does not count as a node: the difference Count reports it
	}
	row := l.vmRow(n)
	give := func(t FindingType, p tolerance, format string, args ...any) []difference {
		d := l.newDifference(t, n.Name, n.VMID, p, format, args...)
		d.node, d.row = n, row
		return []difference{d}
	}
	vm := l.resources[resourceID{VM, n.VMID}]
	switch {
	case vm == nil && l.provenGone(VM, n.VMID, Missing, n.Name):
		return give(Missing, alarmAtOnce, goneEvidence)
	case vm == nil:
		return nil // it was not seen, but it is not proven gone
	case row != nil && row.Identity != "" && vm.Identity != "" && row.Identity != vm.Identity:
		return give(Missing, alarmAtOnce, "another VM has its id")
	}
	word := cmp.Or(vm.State, string(vm.Power))
	if network := l.network(); l.shouldRun && vm.Power != PowerGone && network != "" && vm.Spec.Network != "" && vm.Spec.Network != network {
		return give(PowerState, alarmAtOnce, "broken: it is in network %s, not in that of the cluster", vm.Spec.Network)
	}
	switch vm.Power {
	case PowerGone:
		return give(Missing, alarmAtOnce, "the VM is destroyed: %s", word)
	case PowerBroken:
		return give(PowerState, alarmAtOnce, "broken: %s", word)
	case PoweredOff:
		if l.shouldRun {
			return give(PowerState, alarmAtOnce, "stopped: %s", word)
		}
		return nil
	case PoweringOn, PoweringOff:
		return give(PowerState, alarmAfterTime, transitionPrefix+"%s", vm.Power)
	case PoweredOn:
		if !l.shouldRun {
			return give(PowerState, alarmAtOnce, "running: %s", word)
		}
	default:
		return give(UnknownState, alarmAfterPasses, "the provider says %s", word)
	}
	if !l.observed.SendsHeartbeats {
		return nil
	}
	switch {
	case n.HeartbeatAt.IsZero():
		return give(NotReady, alarmAfterPasses, "it has never sent a heartbeat")
	case l.now.Sub(n.HeartbeatAt) > l.tolerances.HeartbeatTimeout:
		return give(NotReady, alarmAfterPasses, "it no longer sends heartbeats")
	case n.NotReady != "":
		return give(NotReady, alarmAfterPasses, "it reports: %s", n.NotReady)
	}
	return nil
}

// network returns the id of the cluster's network; "" if it has none now.
func (l *comparison) network() string {
	for i := range l.record.Journal {
		if row := &l.record.Journal[i]; row.Kind == Network && row.Phase == Present {
			return row.ProviderID
		}
	}
	return ""
}

// outdated reports a node whose version is not that of its cluster, because an
// upgrade left it out.
func (l *comparison) outdated(n *Node) []difference {
	want := cmp.Or(l.tolerances.Versions[l.cluster.Version], l.cluster.Version)
	if n.Version == "" || want == "" || n.Version == l.cluster.Version || n.Version == want || SameVersion(n.Version, want) {
		return nil
	}
	return []difference{l.newDifference(Outdated, n.Name, n.VMID, alarmNever, "it has version %s, the cluster %s", n.Version, want)}
}

// provenGone reports a resource that is missing from a complete list and that a
// single read proved gone, now or in an earlier pass.
func (l *comparison) provenGone(kind Kind, id string, t FindingType, name string) bool {
	return l.observed.Proven[id] || l.observed.Listed[kind] && l.wasGone(t, name, id)
}

// goneEvidence is the evidence of a resource that is proven gone.
const goneEvidence = "it is gone"

func (l *comparison) wasGone(t FindingType, name, id string) bool {
	old, known := l.previous[findingKey{t, name, id}]
	return known && old.Evidence == goneEvidence
}

func (l *comparison) vmRow(n *Node) *JournalRow {
	for i := range l.record.Journal {
		row := &l.record.Journal[i]
		if row.Kind == VM && (row.ProviderID == n.VMID && n.VMID != "" || n.Key != "" && row.Key == n.Key) {
			return row
		}
	}
	return nil
}

var missingOf = map[Kind]FindingType{Network: NetworkMissing, Address: AddressMissing, Firewall: RuleChanged, Forward: RuleChanged, Balancer: RuleChanged}

// rowDifference compares a network, an address or a rule with its journal row.
func (l *comparison) rowDifference(row *JournalRow) *difference {
	t, compared := missingOf[row.Kind]
	if !compared || row.Phase != Present || row.ProviderID == "" {
		return nil
	}
	existing := l.resources[resourceID{row.Kind, row.ProviderID}]
	evidence := ""
	switch {
	case existing == nil && l.provenGone(row.Kind, row.ProviderID, t, row.Name), existing != nil && existing.Power == PowerGone:
		evidence = goneEvidence
	case existing != nil && row.Identity != "" && existing.Identity != "" && row.Identity != existing.Identity:
		evidence = "another resource has its id"
	case existing != nil && t == RuleChanged:
		evidence = specDifference(row.Spec, existing.Spec)
	}
	if evidence == "" {
		return nil
	}
	d := l.newDifference(t, row.Name, row.ProviderID, alarmAtOnce, "%s", evidence)
	d.row, d.existing = row, existing
	return &d
}

// specDifference says how a rule differs from the journal, as far as the provider
// shows it.
func specDifference(want, is Spec) string {
	set := func(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }
	cidrs := func(all []string) []string {
		if len(all) == 0 {
			return []string{"0.0.0.0/0"}
		}
		return set(all)
	}
	for _, f := range []struct {
		name     string
		want, is string
	}{
		{"protocol", strings.ToLower(want.Protocol), strings.ToLower(is.Protocol)},
		{"address", want.Address, is.Address},
		{"VM", want.VM, is.VM},
		{"port", numberText(want.Port), numberText(is.Port)},
		{"private port", numberText(want.PrivatePort), numberText(is.PrivatePort)},
	} {
		if f.want != "" && f.is != "" && f.want != f.is {
			return fmt.Sprintf("its %s is %s, not %s", f.name, f.is, f.want)
		}
	}
	if is.CIDRs != nil && !slices.Equal(cidrs(want.CIDRs), cidrs(is.CIDRs)) {
		return fmt.Sprintf("it is open to %s, not %s", strings.Join(cidrs(is.CIDRs), ","), strings.Join(cidrs(want.CIDRs), ","))
	}
	if is.VMs != nil && !slices.Equal(set(want.VMs), set(is.VMs)) {
		return fmt.Sprintf("it leads to %d VMs, not to the %d that it should", len(set(is.VMs)), len(set(want.VMs)))
	}
	return ""
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// extraResources returns the resources with the tags of this cluster and no row.
// Only those with a name that Pawl chose are alarms.
func (l *comparison) extraResources() []difference {
	var all []difference
	for i := range l.observed.Resources {
		r := &l.observed.Resources[i]
		if r.Tags[TagCluster] != l.cluster.UUID || r.Power == PowerGone || r.Kind == KeyPair || l.record.Contains(*r) {
			continue
		}
		d := l.newDifference(ExtraOwned, r.Name, r.ID, alarmAtOnce, "a %s with the tags of this cluster and no row", r.Kind)
		if !namedByUs(l.cluster, r.Name) {
			d.tolerance = alarmNever
			d.Evidence += "; Pawl did not choose its name; it is left alone"
		}
		d.existing = r
		all = append(all, d)
	}
	return all
}

// nodeCount is the number of recorded nodes that have a VM.
func (l *comparison) nodeCount(role Role) (n int) {
	for _, node := range l.record.Nodes {
		if node.Role == role && node.Removed.IsZero() && node.VMID != "" {
			n++
		}
	}
	return n
}

func (l *comparison) countDifferences() []difference {
	var all []difference
	for role, want := range map[Role]int{Control: l.cluster.ControlCount, Worker: l.cluster.NodeCount} {
		if have := l.nodeCount(role); have != want {
			all = append(all, l.newDifference(Count, string(role), "", alarmAtOnce, "%d of %d %s nodes are recorded", have, want, role))
		}
	}
	return all
}

// Suspects returns the resources that a pass must read again, one by one, before it
// decides: resources missing from a complete list, and VMs in a state that would be
// an alarm. Those that the previous pass already found are not read again.
func Suspects(c *Cluster, b *Record, seen Observed) []Ref {
	l := newComparison(c, b, seen, seen.At, Tolerances{})
	var refs []Ref
	add := func(kind Kind, name, id, identity string) {
		refs = append(refs, Ref{Kind: kind, ID: id, Name: name, Zone: c.Zone.ID, Identity: identity})
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if n.VMID == "" || !n.Removed.IsZero() || !seen.Listed[VM] {
			continue
		}
		identity := ""
		if row := l.vmRow(n); row != nil {
			identity = row.Identity
		}
		if l.resources[resourceID{VM, n.VMID}] == nil {
			if !l.wasGone(Missing, n.Name, n.VMID) {
				add(VM, n.Name, n.VMID, identity)
			}
			continue
		}
		for _, d := range l.nodeDifferences(n) {
			if old, known := l.previous[d.key()]; d.tolerance == alarmAtOnce && !(known && old.Evidence == d.Evidence) {
				add(VM, n.Name, n.VMID, identity)
			}
		}
	}
	for i := range b.Journal {
		row := &b.Journal[i]
		t, compared := missingOf[row.Kind]
		if !compared || row.Phase != Present || row.ProviderID == "" {
			continue
		}
		// A given resource has no tags of Pawl and is on no list. It is read only
		// when something else differs.
		listed := seen.Listed[row.Kind] && row.Origin != OriginGiven
		if l.resources[resourceID{row.Kind, row.ProviderID}] == nil && !l.wasGone(t, row.Name, row.ProviderID) && (listed || row.Origin == OriginGiven && len(refs) > 0) {
			add(row.Kind, row.Name, row.ProviderID, row.Identity)
		}
	}
	return refs
}
