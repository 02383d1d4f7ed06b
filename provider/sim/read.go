package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// find returns the resource of a want: by call id, or by name with the want's tags, or by
// name without any tags if a call of the same owner created it.
func (c *Cloud) find(w cluster.DesiredResource, now time.Time) *resource {
	if j, ok := c.byCall[w.CallID]; ok && w.CallID != "" {
		if t, ok := c.resources[j.Ref.ID]; ok {
			return t
		}
	}
	t, ok := c.byName[name{string(w.Kind), w.Name}]
	if !ok || now.Before(t.Visible) {
		return nil
	}
	untagged := t.Installation == "" && t.Cluster == "" && t.Key == "" && !t.Foreign && t.Owner == w.Owner
	same := t.Installation == w.Tags[cluster.TagInstallation] && t.Cluster == w.Tags[cluster.TagCluster] && t.Key == w.Tags[cluster.TagKey]
	if !untagged && !same {
		return nil
	}
	return t
}

// list returns a page. The cursor is the sequence number of the last resource before it,
// so that concurrent creates and deletes move nothing.
func (c *Cloud) list(installation string, f cluster.Filter, at cluster.Cursor, now time.Time) (cluster.Page, error) {
	var after int64
	if at != "" {
		n, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil {
			return cluster.Page{}, cluster.ProviderRefused.Errorf("cursor %q", at)
		}
		after = n
	}
	size := f.Size
	if size <= 0 {
		size = 500
	}
	x := c.narrowestIndex(installation, f)
	if x == nil {
		return cluster.Page{}, nil
	}
	// Allocate no more than the index holds.
	page := cluster.Page{Items: make([]cluster.Resource, 0, min(size, len(x.items)))}
	last := after
	for _, t := range x.items[x.after(after):] {
		if !c.matches(t, installation, f, now) {
			continue
		}
		if len(page.Items) == size {
			page.Next = cluster.Cursor(strconv.FormatInt(last, 10))
			break
		}
		page.Items, last = append(page.Items, t.toCluster()), t.Seq
	}
	return page, nil
}

func (c *Cloud) narrowestIndex(installation string, f cluster.Filter) *index {
	switch {
	case f.Network != "":
		return c.byNetwork[f.Network]
	case f.Cluster != "":
		return c.byCluster[f.Cluster]
	case installation != "" && !f.Foreign:
		return c.byInst[installation+"/"+string(f.Kind)]
	default:
		return c.byKind[f.Kind]
	}
}

func (c *Cloud) matches(t *resource, installation string, f cluster.Filter, now time.Time) bool {
	switch {
	case t.gone, t.Kind != f.Kind, now.Before(t.Visible), f.Zone != "" && t.Spec.Zone != f.Zone, f.Cluster != "" && t.Cluster != f.Cluster:
		return false
	case f.Network != "":
		return t.Spec.Network == f.Network
	default:
		return installation == "" || t.Installation == installation || f.Foreign && f.Cluster == ""
	}
}

func (c *Cloud) catalog(owner cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
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
func (c *Cloud) ownedEntries(kind cluster.Kind, owner cluster.Owner, show func(*resource) cluster.Entry) []cluster.Entry {
	var all []cluster.Entry
	for _, t := range indexFor(c.byKind, kind).items {
		if !t.gone && (owner == cluster.Owner{} || t.Owner == owner) {
			all = append(all, show(t))
		}
	}
	return all
}

func (c *Cloud) networkEntry(t *resource) cluster.Entry {
	e := cluster.Entry{ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Services: slices.Clone(t.Services), System: t.System, State: t.State, InUse: t.Cluster}
	for _, other := range c.inNetwork(t) {
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

func (c *Cloud) retag(t *resource, tags map[string]string) {
	was := &resource{Installation: t.Installation, Cluster: t.Cluster, Key: t.Key}
	t.setTags(tags)
	c.removeFromTagIndexes(t, was)
	if t.Installation != was.Installation && t.Installation != "" {
		indexFor(c.byInst, t.Installation+"/"+string(t.Kind)).add(t)
	}
	if t.Cluster != was.Cluster && t.Cluster != "" {
		indexFor(c.byCluster, t.Cluster).add(t)
	}
	c.persist(t)
}
