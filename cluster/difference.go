package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// patience is how long a difference is borne before it is an alarm.
type patience int

const (
	atOnce  patience = iota
	passing          // for Tolerances.Transitional: it is on its way
	passes           // for Tolerances.Passes
	never            // only reported
)

// difference is a finding before it is compared with those of the pass before,
// and what it is about.
type difference struct {
	Finding
	patience patience
	node     *Node
	row      *JournalRow
	thing    *Resource
}

// transition begins the evidence of a VM on its way.
const transition = "on its way: "

// look is what is compared: books with what was seen.
type look struct {
	c      *Cluster
	b      *Record
	seen   Observed
	now    time.Time
	tol    Tolerances
	up     bool // the VMs should run
	before map[finding]Finding
	things map[thingID]*Resource
}

type (
	finding struct {
		of           FindingType
		resource, id string
	}
	thingID struct {
		kind Kind
		id   string
	}
)

func (f Finding) key() finding { return finding{f.Type, f.Resource, f.ID} }

// newLook compares a cluster as it should be in its state.
func newLook(c *Cluster, b *Record, seen Observed, now time.Time, tol Tolerances) *look {
	l := &look{c: c, b: b, seen: seen, now: now, tol: tol.OrDefault(), before: make(map[finding]Finding, len(c.Findings)),
		things: make(map[thingID]*Resource, len(seen.Resources)),
		up:     c.State != Stopped && c.State != Stopping && !(c.State == Alert && c.Desired == WantStopped)}
	for _, f := range c.Findings {
		l.before[f.key()] = f
	}
	for i := range seen.Resources {
		r := &seen.Resources[i]
		l.things[thingID{r.Kind, r.ID}] = r
	}
	return l
}

// differences are in a fixed order.
func (l *look) differences() []difference {
	var all []difference
	for i := range l.b.Nodes {
		if n := &l.b.Nodes[i]; n.Removed.IsZero() {
			all = append(all, l.ofNode(n)...)
			all = append(all, l.outdated(n)...)
		}
	}
	for i := range l.b.Journal {
		if d := l.ofRow(&l.b.Journal[i]); d != nil {
			all = append(all, *d)
		}
	}
	all = append(all, l.extra()...)
	all = append(all, l.counts()...)
	if l.up && l.seen.Endpoint != nil {
		d := l.about(EndpointUnreachable, l.c.Endpoint, "", passes, "%v", l.seen.Endpoint)
		if old, ok := l.before[d.key()]; ok {
			d.Evidence = old.Evidence // it names ports and the like: another text each time
		}
		all = append(all, d)
	}
	for _, r := range l.seen.Foreign {
		all = append(all, l.about(Foreign, r.Name, r.ID, never, "a VM that is not ours is in the network"))
	}
	if !l.seen.Around {
		all = append(all, l.foreignBefore()...)
	}
	slices.SortStableFunc(all, func(a, b difference) int {
		return cmp.Or(cmp.Compare(order(a.Type), order(b.Type)), strings.Compare(a.Resource, b.Resource), strings.Compare(a.ID, b.ID))
	})
	return all
}

// foreignBefore are the foreign VMs that were found by a look that saw all that
// is in the network, and that this one has not seen.
func (l *look) foreignBefore() (all []difference) {
	for _, f := range l.c.Findings {
		seen := func(r Resource) bool { return r.ID == f.ID }
		if f.Type == Foreign && !slices.ContainsFunc(l.seen.Foreign, seen) {
			all = append(all, difference{Finding: Finding{Type: f.Type, Resource: f.Resource, ID: f.ID, Evidence: f.Evidence}, patience: never})
		}
	}
	return all
}

var orderOf = []FindingType{NetworkMissing, AddressMissing, Missing, PowerState, UnknownState, Count, RuleChanged, EndpointUnreachable, NotReady, ExtraOwned, Outdated, Foreign}

func order(t FindingType) int { return slices.Index(orderOf, t) }

func (l *look) about(t FindingType, resource, id string, p patience, format string, args ...any) difference {
	return difference{Finding: Finding{Type: t, Resource: resource, ID: id, Evidence: fmt.Sprintf(format, args...)}, patience: p}
}

func (l *look) ofNode(n *Node) []difference {
	if n.VMID == "" {
		return nil // it does not count as a node: count says so
	}
	row := l.rowOf(n)
	give := func(t FindingType, p patience, format string, args ...any) []difference {
		d := l.about(t, n.Name, n.VMID, p, format, args...)
		d.node, d.row = n, row
		return []difference{d}
	}
	vm := l.things[thingID{VM, n.VMID}]
	switch {
	case vm == nil && l.gone(VM, n.VMID, Missing, n.Name):
		return give(Missing, atOnce, isGone)
	case vm == nil:
		return nil // not seen is not gone
	case row != nil && row.Identity != "" && vm.Identity != "" && row.Identity != vm.Identity:
		return give(Missing, atOnce, "another VM has its id")
	}
	word := cmp.Or(vm.State, string(vm.Power))
	switch vm.Power {
	case Vanished:
		return give(Missing, atOnce, "the VM is destroyed: %s", word)
	case Broken:
		return give(PowerState, atOnce, "broken: %s", word)
	case Down:
		if l.up {
			return give(PowerState, atOnce, "stopped: %s", word)
		}
		return nil
	case GoingUp, GoingDown:
		return give(PowerState, passing, transition+"%s", vm.Power)
	case Up:
		if !l.up {
			return give(PowerState, atOnce, "running: %s", word)
		}
	default:
		return give(UnknownState, passes, "the provider says %s", word)
	}
	if !l.seen.CallsHome {
		return nil
	}
	switch {
	case n.HelloAt.IsZero():
		return give(NotReady, passes, "it never said hello")
	case l.now.Sub(n.HelloAt) > l.tol.Hello:
		return give(NotReady, passes, "it has fallen silent")
	case n.NotReady != "":
		return give(NotReady, passes, "it says: %s", n.NotReady)
	}
	return nil
}

// outdated reports a node that has another version than its cluster: an upgrade
// left it behind.
func (l *look) outdated(n *Node) []difference {
	want := cmp.Or(l.tol.Versions[l.c.Version], l.c.Version)
	if n.Version == "" || want == "" || n.Version == l.c.Version || n.Version == want || SameVersion(n.Version, want) {
		return nil
	}
	return []difference{l.about(Outdated, n.Name, n.VMID, never, "it has version %s, the cluster %s", n.Version, want)}
}

// gone reports a thing that is not on a complete list and was proven gone by a
// reading of its own, now or before.
func (l *look) gone(kind Kind, id string, t FindingType, name string) bool {
	return l.seen.Proven[id] || l.seen.Listed[kind] && l.goneBefore(t, name, id)
}

// isGone is the evidence of what was proven gone.
const isGone = "it is gone"

func (l *look) goneBefore(t FindingType, name, id string) bool {
	old, known := l.before[finding{t, name, id}]
	return known && old.Evidence == isGone
}

func (l *look) rowOf(n *Node) *JournalRow {
	for i := range l.b.Journal {
		row := &l.b.Journal[i]
		if row.Kind == VM && (row.ProviderID == n.VMID && n.VMID != "" || n.Key != "" && row.Key == n.Key) {
			return row
		}
	}
	return nil
}

var missingOf = map[Kind]FindingType{Network: NetworkMissing, Address: AddressMissing, Firewall: RuleChanged, Forward: RuleChanged, Balancer: RuleChanged}

// ofRow compares a network, an address or a rule with its journal row.
func (l *look) ofRow(row *JournalRow) *difference {
	t, compared := missingOf[row.Kind]
	if !compared || row.Phase != Present || row.ProviderID == "" {
		return nil
	}
	thing := l.things[thingID{row.Kind, row.ProviderID}]
	evidence := ""
	switch {
	case thing == nil && l.gone(row.Kind, row.ProviderID, t, row.Name), thing != nil && thing.Power == Vanished:
		evidence = isGone
	case thing != nil && row.Identity != "" && thing.Identity != "" && row.Identity != thing.Identity:
		evidence = "another thing has its id"
	case thing != nil && t == RuleChanged:
		evidence = unlike(row.Spec, thing.Spec)
	}
	if evidence == "" {
		return nil
	}
	d := l.about(t, row.Name, row.ProviderID, atOnce, "%s", evidence)
	d.row, d.thing = row, thing
	return &d
}

// unlike says in what a rule differs from the journal, as far as the provider shows it.
func unlike(want, is Spec) string {
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
		{"port", number(want.Port), number(is.Port)},
		{"private port", number(want.PrivatePort), number(is.PrivatePort)},
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

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// extra are things with our tags and no row. Only one with a name of ours is an alarm.
func (l *look) extra() []difference {
	var all []difference
	for i := range l.seen.Resources {
		r := &l.seen.Resources[i]
		if r.Tags[TagCluster] != l.c.UUID || r.Power == Vanished || r.Kind == KeyPair || l.b.Knows(*r) {
			continue
		}
		d := l.about(ExtraOwned, r.Name, r.ID, atOnce, "a %s with the tags of this cluster and no row", r.Kind)
		if !NamedByUs(l.c, r.Name) {
			d.patience = never
			d.Evidence += "; its name is not of our making, it is left alone"
		}
		d.thing = r
		all = append(all, d)
	}
	return all
}

// have is the number of nodes in the books that have a VM.
func (l *look) have(role Role) (n int) {
	for _, node := range l.b.Nodes {
		if node.Role == role && node.Removed.IsZero() && node.VMID != "" {
			n++
		}
	}
	return n
}

func (l *look) counts() []difference {
	var all []difference
	for role, want := range map[Role]int{Control: l.c.ControlCount, Worker: l.c.NodeCount} {
		if have := l.have(role); have != want {
			all = append(all, l.about(Count, string(role), "", atOnce, "%d of %d %s nodes are in the books", have, want, role))
		}
	}
	return all
}

// Suspects are the things that a pass must read once more, singly, before it
// judges: what a complete list does not show, and VMs in a state that would be
// an alarm. What was found before is not read again.
func Suspects(c *Cluster, b *Record, seen Observed) []Ref {
	l := newLook(c, b, seen, seen.At, Tolerances{})
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
		if row := l.rowOf(n); row != nil {
			identity = row.Identity
		}
		if l.things[thingID{VM, n.VMID}] == nil {
			if !l.goneBefore(Missing, n.Name, n.VMID) {
				add(VM, n.Name, n.VMID, identity)
			}
			continue
		}
		for _, d := range l.ofNode(n) {
			if old, known := l.before[d.key()]; d.patience == atOnce && !(known && old.Evidence == d.Evidence) {
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
		// A given thing has no tags of ours and is on no list: it is only read
		// when something else is odd.
		listed := seen.Listed[row.Kind] && row.Origin != Given
		if l.things[thingID{row.Kind, row.ProviderID}] == nil && !l.goneBefore(t, row.Name, row.ProviderID) && (listed || row.Origin == Given && len(refs) > 0) {
			add(row.Kind, row.Name, row.ProviderID, row.Identity)
		}
	}
	return refs
}
