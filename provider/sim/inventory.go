package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// inventory adds, changes and removes resources: each change is counted, logged and stored.
type inventory struct {
	*resources
	capacity *capacity
	now      func() time.Time
	ids      *ids
	log      *Log
	disk     *disk
}

// add creates a new resource.
func (v *inventory) add(t *resource, by string) {
	t.Seq = v.ids.next()
	if t.Name == "" {
		t.Name = string(t.Kind) + "-" + strconv.FormatInt(t.Seq, 10)
	}
	t.ID, t.Identity = v.ids.id(t.name())
	v.restore(t)
	v.record(Made, by, t)
	v.disk.changed(t)
}

// restore adds a resource that has its id.
func (v *inventory) restore(t *resource) {
	v.resources.add(t)
	v.capacity.use(t, 1)
}

// remove removes a resource and the resources that depend on it.
func (v *inventory) remove(t *resource, by string) {
	if t.gone {
		return
	}
	v.resources.remove(t)
	v.capacity.use(t, -1)
	v.record(Destroyed, by, t)
	v.disk.removed(t)
	for _, other := range v.inNetwork(t) {
		switch {
		case t.Kind == cluster.VM && other.Kind == cluster.Balancer && slices.Contains(other.Spec.VMs, t.ID):
			other.Spec.VMs = without(other.Spec.VMs, t.ID)
			v.disk.changed(other)
		case t.Kind == cluster.VM && other.Kind == cluster.Forward && other.Spec.VM == t.ID,
			t.Kind == cluster.Address && other.Spec.Address == t.ID,
			t.Kind == cluster.Network && other.Kind != cluster.VM:
			v.remove(other, by)
		}
	}
}

func without(all []string, one string) []string {
	var rest []string
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

// retag replaces the tags of a resource.
func (v *inventory) retag(t *resource, tags map[string]string) {
	v.resources.retag(t, tags)
	v.disk.changed(t)
}

// record logs a mutation.
func (v *inventory) record(what MutationOp, by string, t *resource) {
	v.log.mutations.add(Mutation{
		Seq: v.ids.next(), At: v.now(), Op: what, By: by, Kind: t.Kind, ID: t.ID, Name: t.Name, Identity: t.Identity,
		Installation: t.Installation, Cluster: t.Cluster, Foreign: t.Foreign,
	})
}
