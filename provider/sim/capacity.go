package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
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

func (c *Cloud) addUsage(t *resource, sign int) {
	for _, key := range []string{"zone/" + t.Spec.Zone, "owner/" + t.Owner.AccountID} {
		u, ok := c.used[key]
		if !ok {
			u = &usage{}
			c.used[key] = u
		}
		*u = u.plus(t.demand().times(sign))
	}
}

func (c *Cloud) zone(id string) *Zone {
	at := slices.IndexFunc(c.o.Zones, func(z Zone) bool { return z.ID == id })
	if at < 0 {
		return nil
	}
	return &c.o.Zones[at]
}

func (c *Cloud) usedBy(key string) usage {
	if u, ok := c.used[key]; ok {
		return *u
	}
	return usage{}
}

// checkCapacity returns QUOTA_EXCEEDED or CAPACITY_EXHAUSTED if the zone or the owner
// cannot have more.
func (c *Cloud) checkCapacity(zone *Zone, owner cluster.Owner, more usage) error {
	if err := c.checkQuota(owner, more); err != nil {
		return err
	}
	limit := usage{vms: zone.VMs, cores: zone.Cores, memory: zone.MemoryMB, addresses: zone.Addresses}
	if text := exceededBy(c.usedBy("zone/"+zone.ID).plus(more), more, limit); text != "" {
		return cluster.CapacityExhausted.Errorf("zone %s: %s", zone.Name, text)
	}
	return nil
}

func (c *Cloud) checkQuota(owner cluster.Owner, more usage) error {
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

// SetZone changes or adds a zone. Existing resources stay.
func (c *Cloud) SetZone(z Zone) {
	c.mutate(func(time.Time) {
		if old := c.zone(z.ID); old != nil {
			*old = z
			return
		}
		c.o.Zones = append(c.o.Zones, z)
	})
}

// SetQuota changes the quota of an account; an empty account: that of all accounts without
// their own.
func (c *Cloud) SetQuota(account string, q Quota) {
	c.mutate(func(time.Time) {
		if account == "" {
			c.o.Quota = q
			return
		}
		quotas := map[string]Quota{account: q}
		for other, theirs := range c.o.Quotas {
			if other != account {
				quotas[other] = theirs
			}
		}
		c.o.Quotas = quotas
	})
}

func entry(all []cluster.Entry, id string) *cluster.Entry {
	at := slices.IndexFunc(all, func(e cluster.Entry) bool { return e.ID == id })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// check returns the findings that prevent a plan.
func (c *Cloud) check(n cluster.Need) []cluster.Finding {
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
	zone, offering := c.zone(n.Zone), entry(c.o.Offerings, n.Offering)
	switch {
	case zone == nil:
		say(cluster.EntityRefused.Code, n.Zone, "there is no zone %q", n.Zone)
	case zone.Disabled:
		say(cluster.EntityRefused.Code, n.Zone, "zone %s is disabled", zone.Name)
	}
	unfit(cluster.Offering, n.Offering, offering)
	unfit(cluster.Template, n.Template, entry(c.o.Templates, n.Template))
	if n.Network != "" {
		if t := c.resources[n.Network]; t == nil || t.Kind != cluster.Network || t.Spec.Zone != n.Zone {
			say(cluster.EntityRefused.Code, n.Network, "there is no network %q in zone %s", n.Network, n.Zone)
		}
	}
	if n.KeyPair != "" {
		if t := c.byNameOrID(cluster.KeyPair, n.KeyPair); t == nil || t.Owner != n.Owner {
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
	if err := c.checkCapacity(zone, n.Owner, more); err != nil {
		say(codeOf(err), "", "%s", fault.Message(err))
	}
	return found
}
