package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// create creates the resource of a want, or returns the one that its call id or key has
// created before.
func (c *Cloud) create(w cluster.DesiredResource, now time.Time, e *Entry, r *rule) (cluster.Call, error) {
	if !slices.Contains(c.o.Kinds, w.Kind) {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("this cloud cannot create the kind %s", w.Kind)
	}
	if j, ok := c.byCall[w.CallID]; ok && w.CallID != "" && (!j.Done || j.Code == "") {
		e.ID, e.Job = j.Ref.ID, j.ID
		return j.call(), nil
	}
	key := keyOf(w)
	if t, ok := c.byKey[key]; ok {
		j := c.jobs[t.Job]
		if t.State != stateError || j == nil || j.What != doCreate {
			e.ID = t.ID
			if j != nil && j.What == doCreate {
				e.Job = j.ID
				return j.call(), nil
			}
			return cluster.Call{Ref: t.ref(), Done: true}, nil
		}
		c.remove(t, "call") // left by a failed create
	}
	t := &resource{
		Kind: w.Kind, Name: w.Name, Owner: w.Owner, Spec: w.Spec, Created: now, WantKey: key,
		Visible: now.Add(c.o.Visible),
	}
	t.setTags(w.Tags)
	t.Spec.UserData, t.Spec.CIDRs, t.Spec.VMs = nil, slices.Clone(w.Spec.CIDRs), slices.Clone(w.Spec.VMs)
	took, err := c.prepare(t, w)
	if err != nil {
		if !c.o.RefuseInJob || t.Kind != cluster.VM || codeOf(err) != cluster.CapacityExhausted.Code {
			return cluster.Call{}, err
		}
		r = &rule{Rule: Rule{Do: FailJob, Err: err}}
	}
	c.add(t, "call")
	j := c.begin(t, doCreate, w.CallID, took, now, r)
	e.ID, e.Job = t.ID, j.ID
	if t.Kind == cluster.Network && !c.o.LateSourceNAT {
		c.sourceNAT(t, now)
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

// add adds a new resource to the cloud.
func (c *Cloud) add(t *resource, by string) {
	t.Seq = c.next()
	if t.Name == "" {
		t.Name = fmt.Sprintf("%s-%d", t.Kind, t.Seq)
	}
	t.ID, t.Identity = c.id(t.name())
	c.addToIndexes(t)
	c.recordMutation(Made, by, t)
	c.persist(t)
}

// prepare checks and completes a new resource.
func (c *Cloud) prepare(t *resource, w cluster.DesiredResource) (took time.Duration, err error) {
	if t.Name != "" && c.byName[t.name()] != nil {
		return 0, cluster.ProviderRefused.Errorf("the name %s is taken by another %s", t.Name, t.Kind)
	}
	if t.Kind == cluster.KeyPair {
		return 0, nil
	}
	if t.Spec.Network != "" {
		network, err := c.get(cluster.Network, t.Spec.Network)
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
		return c.o.Times.Create, c.prepareVM(t, w)
	case cluster.Network:
		return c.o.Times.Network, c.prepareNetwork(t)
	case cluster.Address:
		return c.o.Times.Rule, c.prepareAddress(t)
	default:
		return c.o.Times.Rule, c.prepareRule(t)
	}
}

func (c *Cloud) get(kind cluster.Kind, id string) (*resource, error) {
	if t, ok := c.resources[id]; ok && t.Kind == kind {
		return t, nil
	}
	return nil, cluster.ProviderRefused.Errorf("there is no %s %q", kind, id)
}

func (c *Cloud) usableZone(zone string) (*Zone, error) {
	z := c.zone(zone)
	switch {
	case z == nil:
		return nil, cluster.ProviderRefused.Errorf("there is no zone %q", zone)
	case z.Disabled:
		return nil, cluster.ProviderRefused.Errorf("zone %s is disabled", z.Name)
	}
	return z, nil
}

func (c *Cloud) prepareVM(t *resource, w cluster.DesiredResource) error {
	zone, err := c.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	offering, template := entry(c.o.Offerings, t.Spec.Offering), entry(c.o.Templates, t.Spec.Template)
	switch {
	case offering == nil || offering.Disabled:
		return cluster.ProviderRefused.Errorf("there is no offering %q", t.Spec.Offering)
	case template == nil || template.Disabled:
		return cluster.ProviderRefused.Errorf("there is no template %q", t.Spec.Template)
	case template.Zone != "" && template.Zone != zone.ID:
		return cluster.ProviderRefused.Errorf("template %s is not in zone %s", template.Name, zone.Name)
	case len(w.Spec.UserData) > c.o.UserData:
		return cluster.ProviderRefused.Errorf("user data of %d bytes; the maximum is %d", len(w.Spec.UserData), c.o.UserData)
	}
	if t.Spec.KeyPair != "" {
		if pair := c.byNameOrID(cluster.KeyPair, t.Spec.KeyPair); pair == nil || pair.Owner != t.Owner {
			return cluster.ProviderRefused.Errorf("the owner has no key pair %q", t.Spec.KeyPair)
		}
	}
	t.Cores, t.MemoryMB = offering.Cores, offering.MemoryMB
	if err := c.checkCapacity(zone, t.Owner, t.demand()); err != nil {
		return err
	}
	t.Node = c.parse(t, w.Spec.UserData)
	if !c.o.ForgetUserData {
		t.UserData = slices.Clone(w.Spec.UserData)
	}
	t.Address, t.Host = c.nextPrivateAddress(t.Spec.Network), int(c.seq%16)
	return nil
}

// nextPrivateAddress returns the next address of a network, or of the zone if network is
// empty.
func (c *Cloud) nextPrivateAddress(network string) string {
	n, ok := c.resources[network]
	if !ok {
		c.hosts++
		return fmt.Sprintf("172.%d.%d.%d", 16+c.hosts>>16&15, c.hosts>>8&255, c.hosts&255)
	}
	n.Hosts++
	c.persist(n)
	return fmt.Sprintf("10.%d.%d.%d", n.Nets>>8&255, n.Nets&255, 2+(n.Hosts-1)%252)
}

func (c *Cloud) prepareNetwork(t *resource) error {
	zone, err := c.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	offering := entry(c.o.NetworkOfferings, t.Spec.Offering)
	if offering == nil || offering.Disabled {
		return cluster.ProviderRefused.Errorf("there is no network offering %q", t.Spec.Offering)
	}
	more := t.demand()
	if !c.o.LateSourceNAT {
		more.addresses++
	}
	if err := c.checkCapacity(zone, t.Owner, more); err != nil {
		return err
	}
	c.networks++
	t.Nets, t.Services = c.networks, offering.Services
	if len(t.Services) == 0 {
		t.Services = Services
	}
	return nil
}

// sourceNAT creates the source NAT address of a network.
func (c *Cloud) sourceNAT(network *resource, now time.Time) {
	t := &resource{
		Kind: cluster.Address, Name: network.Name + "-source-nat", Owner: network.Owner, Created: now, Visible: network.Visible,
		Spec: cluster.Spec{Zone: network.Spec.Zone, Network: network.ID}, State: stateReady, SourceNAT: true, Address: c.nextPublicAddress(),
	}
	c.add(t, "call")
}

func (c *Cloud) nextPublicAddress() string {
	c.addresses++
	n := c.addresses + 1
	return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
}

func (c *Cloud) prepareAddress(t *resource) error {
	zone, err := c.usableZone(t.Spec.Zone)
	if err != nil {
		return err
	}
	if t.Spec.Network == "" {
		return cluster.ProviderRefused.Errorf("an address needs a network")
	}
	if err := c.checkCapacity(zone, t.Owner, t.demand()); err != nil {
		return err
	}
	t.SourceNAT = c.o.LateSourceNAT && !slices.ContainsFunc(c.inNetwork(t), func(o *resource) bool { return o.Kind == cluster.Address })
	t.Address = c.nextPublicAddress()
	return nil
}

func (c *Cloud) prepareRule(t *resource) error {
	address, err := c.get(cluster.Address, t.Spec.Address)
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
		if _, err := c.get(cluster.VM, id); err != nil {
			return err
		}
	}
	for _, other := range c.inNetwork(t) {
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
