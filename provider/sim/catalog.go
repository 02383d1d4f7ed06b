package sim

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// catalog is what the cloud offers.
type catalog struct {
	o         *Options
	inventory *inventory
}

func entry(all []cluster.Entry, id string) *cluster.Entry {
	at := slices.IndexFunc(all, func(e cluster.Entry) bool { return e.ID == id })
	if at < 0 {
		return nil
	}
	return &all[at]
}

func (c *catalog) entries(owner cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
	var all []cluster.Entry
	switch kind {
	case cluster.Zone:
		for _, z := range c.o.Zones {
			all = append(all, cluster.Entry{ID: z.ID, Name: z.Name, Disabled: z.Disabled})
		}
	case cluster.Offering:
		all = slices.Clone(c.o.Offerings)
	case cluster.Template:
		all = slices.Clone(c.o.Templates)
	case cluster.NetworkOffering:
		all = slices.Clone(c.o.NetworkOfferings)
	case cluster.Network:
		all = c.ownedEntries(kind, owner, c.networkEntry)
	case cluster.KeyPair:
		all = c.ownedEntries(kind, owner, func(t *resource) cluster.Entry { return cluster.Entry{ID: t.ID, Name: t.Name} })
	default:
		return nil, cluster.ProviderRefused.Errorf("there is no catalog of %s", kind)
	}
	for i := range all {
		all[i].Kind = kind
	}
	return all, nil
}

// ownedEntries returns the resources of an owner; the zero owner: everybody's.
func (c *catalog) ownedEntries(kind cluster.Kind, owner cluster.Owner, show func(*resource) cluster.Entry) []cluster.Entry {
	var all []cluster.Entry
	for _, t := range indexFor(c.inventory.byKind, kind).items {
		if !t.gone && (owner == cluster.Owner{} || t.Owner == owner) {
			all = append(all, show(t))
		}
	}
	return all
}

func (c *catalog) networkEntry(t *resource) cluster.Entry {
	e := cluster.Entry{ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Services: slices.Clone(t.Services), System: t.System, State: t.State, InUse: t.Cluster}
	for _, other := range c.inventory.inNetwork(t) {
		switch other.Kind {
		case cluster.VM:
			if other.Cluster != "" {
				e.InUse = other.Cluster
			}
		case cluster.Forward, cluster.Balancer, cluster.Firewall:
			e.Port6443InUse = e.Port6443InUse || other.Spec.Port == 6443
		}
	}
	return e
}

// check returns the findings that prevent a plan.
func (c *catalog) check(n cluster.Need) []cluster.Finding {
	var found []cluster.Finding
	say := func(code fault.Code, resource, format string, args ...any) {
		found = append(found, cluster.Finding{Type: cluster.PlanObstacle, Resource: resource, Evidence: fmt.Sprintf(format, args...), Code: code, Since: c.o.Now()})
	}
	unfit := func(kind cluster.Kind, id string, e *cluster.Entry) {
		switch {
		case e == nil:
			say(cluster.EntityRefused.Code, id, "there is no %s %q", kind, id)
		case e.Disabled:
			say(cluster.EntityRefused.Code, id, "%s %s is disabled", kind, e.Name)
		case e.Zone != "" && e.Zone != n.Zone:
			say(cluster.EntityRefused.Code, id, "%s %s is not in zone %s", kind, e.Name, n.Zone)
		}
	}
	zone, offering := c.inventory.capacity.zone(n.Zone), entry(c.o.Offerings, n.Offering)
	switch {
	case zone == nil:
		say(cluster.EntityRefused.Code, n.Zone, "there is no zone %q", n.Zone)
	case zone.Disabled:
		say(cluster.EntityRefused.Code, n.Zone, "zone %s is disabled", zone.Name)
	}
	unfit(cluster.Offering, n.Offering, offering)
	unfit(cluster.Template, n.Template, entry(c.o.Templates, n.Template))
	if n.Network != "" {
		if t := c.inventory.byID[n.Network]; t == nil || t.Kind != cluster.Network || t.Spec.Zone != n.Zone {
			say(cluster.EntityRefused.Code, n.Network, "there is no network %q in zone %s", n.Network, n.Zone)
		}
	}
	if n.KeyPair != "" {
		if t := c.inventory.lookup(cluster.KeyPair, n.KeyPair); t == nil || t.Owner != n.Owner {
			say(cluster.EntityRefused.Code, n.KeyPair, "the owner has no key pair %q", n.KeyPair)
		}
	}
	if zone == nil || offering == nil {
		return found
	}
	more := usage{vms: 1, cores: offering.Cores, memory: offering.MemoryMB}.times(n.Nodes)
	if n.Network == "" && slices.Contains(c.o.Kinds, cluster.Network) {
		more.networks = 1
	}
	if err := c.inventory.capacity.check(zone, n.Owner, more); err != nil {
		say(codeOf(err), "", "%s", fault.Message(err))
	}
	return found
}
