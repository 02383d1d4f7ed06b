package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Query selects resources. Zero fields do not restrict.
type Query struct {
	Kind    cluster.Kind
	ID      string // also resources that are not yet visible
	Name    string
	Like    string // part of the name, ignoring case
	Zone    string
	Network string // the resources in it
	Address string // the rules of an address, by id
	Owner   cluster.Owner
	Tags    map[string]string
	Where   func(View) bool // it gets neither tags nor services, and must not keep its argument

	Offset, Limit int // Limit 0: all
}

// View is a resource with the fields that only the cloud knows.
type View struct {
	cluster.Resource
	Owner           cluster.Owner
	Cores, MemoryMB int
	Host            int
	Services        []string // of a network
	System          bool
}

func (t *resource) view() View {
	return View{t.toCluster(), t.Owner, t.Cores, t.MemoryMB, t.Host, slices.Clone(t.Services), t.System}
}

// shallowView is view without copies, for scans of many resources.
func (t *resource) shallowView() View {
	return View{Resource: cluster.Resource{
		Kind: t.Kind, ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Identity: t.Identity, Power: t.power(), State: t.State, Address: t.Address,
		Created: t.Created, SourceNAT: t.SourceNAT, Spec: t.Spec,
	}, Owner: t.Owner, Cores: t.Cores, MemoryMB: t.MemoryMB, Host: t.Host, System: t.System}
}

// search returns the resources of a query in the order of their creation, and their total number.
func (r *resources) search(q Query, now time.Time) (found []View, total int) {
	for _, t := range r.candidates(q) {
		if t.gone || q.ID == "" && now.Before(t.Visible) || !q.fits(t) {
			continue
		}
		if q.Where != nil && !q.Where(t.shallowView()) {
			continue
		}
		if total++; total > q.Offset && (q.Limit <= 0 || len(found) < q.Limit) {
			found = append(found, t.view())
		}
	}
	return found, total
}

func (r *resources) candidates(q Query) []*resource {
	one := func(t *resource) []*resource {
		if t == nil {
			return nil
		}
		return []*resource{t}
	}
	x := r.byKind[q.Kind]
	switch {
	case q.ID != "":
		return one(r.byID[q.ID])
	case q.Name != "":
		return one(r.byName[name{string(q.Kind), q.Name}])
	case q.Tags[cluster.TagCluster] != "":
		x = r.byCluster[q.Tags[cluster.TagCluster]]
	case q.Network != "":
		x = r.byNetwork[q.Network]
	case q.Tags[cluster.TagInstallation] != "":
		x = r.byInst[q.Tags[cluster.TagInstallation]+"/"+string(q.Kind)]
	}
	if x == nil {
		return nil
	}
	return x.items
}

func (q *Query) fits(t *resource) bool {
	switch {
	case t.Kind != q.Kind, q.Name != "" && t.Name != q.Name, q.Zone != "" && t.Spec.Zone != q.Zone,
		q.Network != "" && t.Spec.Network != q.Network, q.Address != "" && t.Spec.Address != q.Address,
		q.Owner != (cluster.Owner{}) && t.Owner != q.Owner,
		q.Like != "" && !strings.Contains(strings.ToLower(t.Name), strings.ToLower(q.Like)):
		return false
	}
	for key, value := range q.Tags {
		switch key {
		case cluster.TagInstallation:
			if t.Installation != value {
				return false
			}
		case cluster.TagCluster:
			if t.Cluster != value {
				return false
			}
		case cluster.TagKey:
			if t.Key != value {
				return false
			}
		default:
			if got, ok := t.Tags[key]; !ok || got != value {
				return false
			}
		}
	}
	return true
}
