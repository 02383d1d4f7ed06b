package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// resources are what exists in the cloud, and the indexes that find it.
type resources struct {
	byID      map[string]*resource
	byName    map[name]*resource
	byKey     map[wantKey]*resource
	byIP      map[string]*resource
	byKind    map[cluster.Kind]*index
	byInst    map[string]*index // by installation and kind
	byCluster map[string]*index
	byNetwork map[string]*index
}

func newResources() *resources {
	return &resources{
		byID: map[string]*resource{}, byName: map[name]*resource{}, byKey: map[wantKey]*resource{}, byIP: map[string]*resource{},
		byKind: map[cluster.Kind]*index{}, byInst: map[string]*index{}, byCluster: map[string]*index{}, byNetwork: map[string]*index{},
	}
}

// add adds a resource to every index.
func (r *resources) add(t *resource) {
	r.byID[t.ID] = t
	r.byName[t.name()] = t
	if t.WantKey != (wantKey{}) {
		r.byKey[t.WantKey] = t
	}
	indexFor(r.byKind, t.Kind).add(t)
	r.addToTagIndexes(t)
	if t.Spec.Network != "" {
		indexFor(r.byNetwork, t.Spec.Network).add(t)
	}
	if t.Address != "" {
		r.byIP[t.Address] = t
	}
}

func (r *resources) addToTagIndexes(t *resource) {
	if t.Installation != "" {
		indexFor(r.byInst, t.Installation+"/"+string(t.Kind)).add(t)
	}
	if t.Cluster != "" {
		indexFor(r.byCluster, t.Cluster).add(t)
	}
}

func (r *resources) removeFromTagIndexes(t *resource, was *resource) {
	if was.Installation != "" && (t.gone || t.Installation != was.Installation) {
		removeFromIndex(r.byInst, was.Installation+"/"+string(t.Kind), func(x *resource) bool { return !x.gone && x.Installation == was.Installation })
	}
	if was.Cluster != "" && (t.gone || t.Cluster != was.Cluster) {
		removeFromIndex(r.byCluster, was.Cluster, func(x *resource) bool { return !x.gone && x.Cluster == was.Cluster })
	}
}

// remove removes a resource from every index.
func (r *resources) remove(t *resource) {
	t.gone = true
	delete(r.byID, t.ID)
	if r.byName[t.name()] == t {
		delete(r.byName, t.name())
	}
	if r.byKey[t.WantKey] == t {
		delete(r.byKey, t.WantKey)
	}
	if r.byIP[t.Address] == t {
		delete(r.byIP, t.Address)
	}
	removeFromIndex(r.byKind, t.Kind, isAlive)
	r.removeFromTagIndexes(t, t)
	if t.Spec.Network != "" {
		removeFromIndex(r.byNetwork, t.Spec.Network, isAlive)
	}
}

// retag replaces the tags of a resource.
func (r *resources) retag(t *resource, tags map[string]string) {
	was := &resource{Installation: t.Installation, Cluster: t.Cluster, Key: t.Key}
	t.setTags(tags)
	r.removeFromTagIndexes(t, was)
	if t.Installation != was.Installation && t.Installation != "" {
		indexFor(r.byInst, t.Installation+"/"+string(t.Kind)).add(t)
	}
	if t.Cluster != was.Cluster && t.Cluster != "" {
		indexFor(r.byCluster, t.Cluster).add(t)
	}
}

func isAlive(t *resource) bool { return !t.gone }

// inNetwork returns the resources of a network, or the other resources in the network of
// t.
func (r *resources) inNetwork(t *resource) []*resource {
	network := t.Spec.Network
	if t.Kind == cluster.Network {
		network = t.ID
	}
	x, ok := r.byNetwork[network]
	if !ok {
		return nil
	}
	var all []*resource
	for _, other := range x.items {
		if !other.gone && other != t {
			all = append(all, other)
		}
	}
	return all
}

// nodes returns the nodes of a cluster, by tag or, without tags, by user data.
func (r *resources) nodes(uuid string) []*resource {
	x, ok := r.byCluster[uuid]
	if !ok {
		return nil
	}
	var all []*resource
	for _, t := range x.items {
		if !t.gone && t.Kind == cluster.VM && t.Node != nil && t.Node.Cluster == uuid {
			all = append(all, t)
		}
	}
	return all
}

func (r *resources) get(kind cluster.Kind, id string) (*resource, error) {
	if t, ok := r.byID[id]; ok && t.Kind == kind {
		return t, nil
	}
	return nil, cluster.ProviderRefused.Errorf("there is no %s %q", kind, id)
}

// lookup returns a resource by id or name; nil if there is none. The empty kind is every kind, of ids.
func (r *resources) lookup(kind cluster.Kind, idOrName string) *resource {
	if t, ok := r.byID[idOrName]; ok && (kind == "" || t.Kind == kind) {
		return t
	}
	return r.byName[name{string(kind), idOrName}]
}

// sorted returns all resources in the order of their creation.
func (r *resources) sorted(kinds ...cluster.Kind) []*resource {
	all := make([]*resource, 0, len(r.byID))
	for _, t := range r.byID {
		if len(kinds) == 0 || slices.Contains(kinds, t.Kind) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *resource) int { return int(a.Seq - b.Seq) })
	return all
}
