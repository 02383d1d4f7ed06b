package sim

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// usage is the used part of a zone's capacity or of an owner's quota.
type usage struct{ vms, cores, memory, networks, addresses int }

func (u usage) plus(v usage) usage {
	return usage{u.vms + v.vms, u.cores + v.cores, u.memory + v.memory, u.networks + v.networks, u.addresses + v.addresses}
}

func (u usage) times(n int) usage {
	return usage{u.vms * n, u.cores * n, u.memory * n, u.networks * n, u.addresses * n}
}

// exceeded returns the name of the first limit that is exceeded. Limits of 0 are none.
func (u usage) exceeded(limit usage) string {
	for _, x := range []struct {
		what       string
		have, most int
	}{
		{"VMs", u.vms, limit.vms}, {"cores", u.cores, limit.cores}, {"MB of memory", u.memory, limit.memory},
		{"networks", u.networks, limit.networks}, {"addresses", u.addresses, limit.addresses},
	} {
		if x.most > 0 && x.have > x.most {
			return fmt.Sprintf("%d %s are needed, %d is the limit", x.have, x.what, x.most)
		}
	}
	return ""
}

// demand returns what a resource uses in any state: a stopped VM keeps its capacity.
func (t *resource) demand() usage {
	switch t.Kind {
	case cluster.VM:
		return usage{vms: 1, cores: t.Cores, memory: t.MemoryMB}
	case cluster.Network:
		return usage{networks: 1}
	case cluster.Address:
		return usage{addresses: 1}
	default:
		return usage{}
	}
}

// capacity is what zones and owners may have, and how much of it is used.
type capacity struct {
	o    *Options // Zones, Quota and Quotas may change
	used map[string]*usage
}

// use counts a resource, or takes it back.
func (c *capacity) use(t *resource, sign int) {
	for _, key := range []string{"zone/" + t.Spec.Zone, "owner/" + t.Owner.AccountID} {
		u, ok := c.used[key]
		if !ok {
			u = &usage{}
			c.used[key] = u
		}
		*u = u.plus(t.demand().times(sign))
	}
}

func (c *capacity) zone(id string) *Zone {
	at := slices.IndexFunc(c.o.Zones, func(z Zone) bool { return z.ID == id })
	if at < 0 {
		return nil
	}
	return &c.o.Zones[at]
}

func (c *capacity) usedBy(key string) usage {
	if u, ok := c.used[key]; ok {
		return *u
	}
	return usage{}
}

// check returns QUOTA_EXCEEDED or CAPACITY_EXHAUSTED if the zone or the owner
// cannot have more.
func (c *capacity) check(zone *Zone, owner cluster.Owner, more usage) error {
	if err := c.checkQuota(owner, more); err != nil {
		return err
	}
	limit := usage{vms: zone.VMs, cores: zone.Cores, memory: zone.MemoryMB, addresses: zone.Addresses}
	if text := exceededBy(c.usedBy("zone/"+zone.ID).plus(more), more, limit); text != "" {
		return cluster.CapacityExhausted.Errorf("zone %s: %s", zone.Name, text)
	}
	return nil
}

func (c *capacity) checkQuota(owner cluster.Owner, more usage) error {
	q, ok := c.o.Quotas[owner.AccountID]
	if !ok {
		q = c.o.Quota
	}
	limit := usage{vms: q.VMs, cores: q.Cores, memory: q.MemoryMB, networks: q.Networks, addresses: q.Addresses}
	if text := exceededBy(c.usedBy("owner/"+owner.AccountID).plus(more), more, limit); text != "" {
		return cluster.QuotaExceeded.Errorf("account %s: %s", owner.AccountID, text)
	}
	return nil
}

// exceededBy checks only the limits of resources that more adds to.
func exceededBy(all, more, limit usage) string {
	for _, x := range []struct {
		more  int
		limit *int
	}{{more.vms, &limit.vms}, {more.cores, &limit.cores}, {more.memory, &limit.memory}, {more.networks, &limit.networks}, {more.addresses, &limit.addresses}} {
		if x.more == 0 {
			*x.limit = 0
		}
	}
	return all.exceeded(limit)
}

func (c *capacity) usableZone(zone string) (*Zone, error) {
	z := c.zone(zone)
	switch {
	case z == nil:
		return nil, cluster.ProviderRefused.Errorf("there is no zone %q", zone)
	case z.Disabled:
		return nil, cluster.ProviderRefused.Errorf("zone %s is disabled", z.Name)
	}
	return z, nil
}
