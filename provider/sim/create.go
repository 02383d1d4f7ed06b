package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// builder checks, completes and creates resources.
type builder struct {
	o         *Options
	inventory *inventory
	jobs      *jobs
	addresses *addresses
}

// create creates the resource of a want, or returns the one that its call id or key has
// created before.
func (b *builder) create(w cluster.DesiredResource, now time.Time, e *Entry, r *rule) (cluster.Call, error) {
	if !slices.Contains(b.o.Kinds, w.Kind) {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("this cloud cannot create the kind %s", w.Kind)
	}
	if j, ok := b.jobs.byCall[w.CallID]; ok && w.CallID != "" && (!j.Done || j.Code == "") {
		e.ID, e.Job = j.Ref.ID, j.ID
		return j.call(), nil
	}
	key := keyOf(w)
	if t, ok := b.inventory.byKey[key]; ok {
		j := b.jobs.byID[t.Job]
		if t.State != stateError || j == nil || j.What != doCreate {
			e.ID = t.ID
			if j != nil && j.What == doCreate {
				e.Job = j.ID
				return j.call(), nil
			}
			return cluster.Call{Ref: t.ref(), Done: true}, nil
		}
		b.inventory.remove(t, "call") // left by a failed create
	}
	t := &resource{
		Kind: w.Kind, Name: w.Name, Owner: w.Owner, Spec: w.Spec, Created: now, WantKey: key,
		Visible: now.Add(b.o.Visible),
	}
	t.setTags(w.Tags)
	t.Spec.UserData, t.Spec.CIDRs, t.Spec.VMs = nil, slices.Clone(w.Spec.CIDRs), slices.Clone(w.Spec.VMs)
	took, err := b.prepare(t, w)
	if err != nil {
		if !b.o.RefuseInJob || t.Kind != cluster.VM || codeOf(err) != cluster.CapacityExhausted.Code {
			return cluster.Call{}, err
		}
		r = &rule{Rule: Rule{Do: FailJob, Err: err}}
	}
	b.inventory.add(t, "call")
	j := b.jobs.begin(t, doCreate, w.CallID, took, now, r)
	e.ID, e.Job = t.ID, j.ID
	if t.Kind == cluster.Network && !b.o.LateSourceNAT {
		b.sourceNAT(t, now)
	}
	return j.call(), nil
}

// keyOf returns the zero key for a want without one.
func keyOf(w cluster.DesiredResource) wantKey {
	if w.Key == "" {
		return wantKey{}
	}
	return wantKey{w.Tags[cluster.TagInstallation], w.Tags[cluster.TagCluster], w.Key}
}

// prepare checks and completes a new resource.
func (b *builder) prepare(t *resource, w cluster.DesiredResource) (took time.Duration, err error) {
	if t.Name != "" && b.inventory.byName[t.name()] != nil {
		return 0, cluster.ProviderRefused.Errorf("the name %s is taken by another %s", t.Name, t.Kind)
	}
	if t.Kind == cluster.KeyPair {
		return 0, nil
	}
	if t.Spec.Network != "" {
		network, err := b.inventory.get(cluster.Network, t.Spec.Network)
		if err != nil {
			return 0, err
		}
		if t.Spec.Zone == "" {
			t.Spec.Zone = network.Spec.Zone
		}
		if network.Spec.Zone != t.Spec.Zone {
			return 0, cluster.ProviderRefused.Errorf("network %s is not in zone %s", network.Name, t.Spec.Zone)
		}
	}
	switch t.Kind {
	case cluster.VM:
		return b.o.Times.Create, b.prepareVM(t, w)
	case cluster.Network:
		return b.o.Times.Network, b.prepareNetwork(t)
	case cluster.Address:
		return b.o.Times.Rule, b.prepareAddress(t)
	default:
		return b.o.Times.Rule, b.prepareRule(t)
	}
}

func (b *builder) prepareVM(t *resource, w cluster.DesiredResource) error {
	zone, err := b.inventory.capacity.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	offering, template := entry(b.o.Offerings, t.Spec.Offering), entry(b.o.Templates, t.Spec.Template)
	switch {
	case offering == nil || offering.Disabled:
		return cluster.ProviderRefused.Errorf("there is no offering %q", t.Spec.Offering)
	case template == nil || template.Disabled:
		return cluster.ProviderRefused.Errorf("there is no template %q", t.Spec.Template)
	case template.Zone != "" && template.Zone != zone.ID:
		return cluster.ProviderRefused.Errorf("template %s is not in zone %s", template.Name, zone.Name)
	case len(w.Spec.UserData) > b.o.UserData:
		return cluster.ProviderRefused.Errorf("user data of %d bytes; the maximum is %d", len(w.Spec.UserData), b.o.UserData)
	}
	if t.Spec.KeyPair != "" {
		if pair := b.inventory.lookup(cluster.KeyPair, t.Spec.KeyPair); pair == nil || pair.Owner != t.Owner {
			return cluster.ProviderRefused.Errorf("the owner has no key pair %q", t.Spec.KeyPair)
		}
	}
	t.Cores, t.MemoryMB = offering.Cores, offering.MemoryMB
	if err := b.inventory.capacity.check(zone, t.Owner, t.demand()); err != nil {
		return err
	}
	t.Node = parseNode(b.o, t, w.Spec.UserData)
	if !b.o.ForgetUserData {
		t.UserData = slices.Clone(w.Spec.UserData)
	}
	t.Address, t.Host = b.privateAddress(t.Spec.Network), int(b.inventory.ids.seq%16)
	return nil
}

// privateAddress returns the next address of a network, or of the zone if network is empty.
func (b *builder) privateAddress(network string) string {
	n, ok := b.inventory.byID[network]
	if !ok {
		return b.addresses.nextHost()
	}
	n.Hosts++
	b.inventory.disk.changed(n)
	return fmt.Sprintf("10.%d.%d.%d", n.Nets>>8&255, n.Nets&255, 2+(n.Hosts-1)%252)
}

func (b *builder) prepareNetwork(t *resource) error {
	zone, err := b.inventory.capacity.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	offering := entry(b.o.NetworkOfferings, t.Spec.Offering)
	if offering == nil || offering.Disabled {
		return cluster.ProviderRefused.Errorf("there is no network offering %q", t.Spec.Offering)
	}
	more := t.demand()
	if !b.o.LateSourceNAT {
		more.addresses++
	}
	if err := b.inventory.capacity.check(zone, t.Owner, more); err != nil {
		return err
	}
	t.Nets, t.Services = b.addresses.nextNetwork(), offering.Services
	if len(t.Services) == 0 {
		t.Services = Services
	}
	return nil
}

// sourceNAT creates the source NAT address of a network.
func (b *builder) sourceNAT(network *resource, now time.Time) {
	t := &resource{
		Kind: cluster.Address, Name: network.Name + "-source-nat", Owner: network.Owner, Created: now, Visible: network.Visible,
		Spec: cluster.Spec{Zone: network.Spec.Zone, Network: network.ID}, State: stateReady, SourceNAT: true, Address: b.addresses.nextPublic(),
	}
	b.inventory.add(t, "call")
}

func (b *builder) prepareAddress(t *resource) error {
	zone, err := b.inventory.capacity.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	if t.Spec.Network == "" {
		return cluster.ProviderRefused.Errorf("an address needs a network")
	}
	if err := b.inventory.capacity.check(zone, t.Owner, t.demand()); err != nil {
		return err
	}
	t.SourceNAT = b.o.LateSourceNAT && !slices.ContainsFunc(b.inventory.inNetwork(t), func(o *resource) bool { return o.Kind == cluster.Address })
	t.Address = b.addresses.nextPublic()
	return nil
}

func (b *builder) prepareRule(t *resource) error {
	address, err := b.inventory.get(cluster.Address, t.Spec.Address)
	if err != nil {
		return err
	}
	if t.Spec.Network != "" && t.Spec.Network != address.Spec.Network {
		return cluster.ProviderRefused.Errorf("address %s is not of network %s", address.Address, t.Spec.Network)
	}
	t.Spec.Network, t.Spec.Zone = address.Spec.Network, address.Spec.Zone
	if t.Spec.Protocol == "" {
		t.Spec.Protocol = "tcp"
	}
	if t.Spec.Port < 1 || t.Spec.Port > 65535 {
		return cluster.ProviderRefused.Errorf("port %d", t.Spec.Port)
	}
	if t.Spec.PrivatePort == 0 {
		t.Spec.PrivatePort = t.Spec.Port
	}
	vms := t.Spec.VMs
	if t.Kind == cluster.Forward {
		vms = []string{t.Spec.VM}
	}
	for _, id := range vms {
		if _, err := b.inventory.get(cluster.VM, id); err != nil {
			return err
		}
	}
	for _, other := range b.inventory.inNetwork(t) {
		if other.Spec.Address == t.Spec.Address && sameLayer(other.Kind, t.Kind) && other.Spec.Protocol == t.Spec.Protocol && other.Spec.Port == t.Spec.Port {
			return cluster.RuleConflict.Errorf("%s %s has %s port %d of %s", other.Kind, other.Name, t.Spec.Protocol, t.Spec.Port, address.Address)
		}
	}
	return nil
}

// sameLayer reports whether two rules exclude each other on a port: a firewall rule does
// not exclude a forward or a balancer.
func sameLayer(a, b cluster.Kind) bool {
	leads := func(k cluster.Kind) bool { return k == cluster.Forward || k == cluster.Balancer }
	return a == b || leads(a) && leads(b)
}
