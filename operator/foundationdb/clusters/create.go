package clusters

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/removal"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

const largestNumber = 99999 // of a group

// addProcessGroups adds the groups that are missing. They are saved before anything of them is made, so
// that what is made is never without a group.
func addProcessGroups(p *pass) decision {
	have := map[fdb.Class]int{}
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; !g.Marked() {
			have[classOf(g)]++
		}
	}
	wanted := foundationdb.Groups(p.cluster.Spec)
	taken := takenIDs(p)
	var added []v1beta2.ProcessGroupStatus
	for _, class := range slices.Sorted(maps.Keys(wanted)) {
		for range max(0, wanted[class]-have[class]) {
			id := newID(p.cluster.Spec.ProcessGroupIDPrefix, class, p.random, taken)
			g := v1beta2.ProcessGroupStatus{ProcessGroupID: id, ProcessClass: v1beta2.ProcessClass(class)}
			groups.SetConditions(&g, foundationdb.FirstConditions(class), p.now)
			added = append(added, g)
		}
	}
	if len(added) == 0 {
		return decision{}
	}
	ids := make([]string, len(added))
	for i, g := range added {
		ids[i] = string(g.ProcessGroupID)
	}
	return acts(outcome.Done(), saving("add group", ids, func(p *pass) {
		p.cluster.Status.ProcessGroups = append(p.cluster.Status.ProcessGroups, added...)
		p.order()
		p.count()
	}))
}

// takenIDs are those of groups, of what is left of groups, and those that the database excludes.
func takenIDs(p *pass) map[v1beta2.ProcessGroupID]bool {
	taken := map[v1beta2.ProcessGroupID]bool{}
	for id := range p.ours {
		taken[id] = true
	}
	for id := range p.members {
		taken[id] = true
	}
	for _, e := range p.exclusions().All() {
		if id, ok := removal.GroupOf(e); ok {
			taken[id] = true
		}
	}
	return taken
}

// newID draws the id of a new group.
func newID(prefix string, class fdb.Class, random *rand.Rand, taken map[v1beta2.ProcessGroupID]bool) v1beta2.ProcessGroupID {
	for {
		id := v1beta2.ProcessGroupID(fdb.GroupID{Prefix: prefix, Class: class, Number: 1 + random.IntN(largestNumber)}.String())
		if !taken[id] {
			taken[id] = true
			return id
		}
	}
}

// addPVCs makes the claims of stateful groups.
func addPVCs(p *pass) decision {
	var missing []*corev1.PersistentVolumeClaim
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if g.Marked() || p.member(g.ProcessGroupID).Claim != nil {
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if !known {
			continue
		}
		if claim, err := foundationdb.Claim(p.cluster, id); err == nil && claim != nil {
			missing = append(missing, claim)
		}
	}
	if len(missing) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), creating("create claim", "ClaimNotCreated", missing, func(m *member, claim *corev1.PersistentVolumeClaim) { m.Claim = claim }))
}

// addPods makes the pods that are missing, also those of groups that are being drained: only a group
// that holds nothing any more stays without.
func addPods(p *pass) decision {
	var missing []*corev1.Pod
	out := outcome.Done()
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		if m.Pod != nil || g.Marked() && g.Excluded() {
			continue
		}
		if p.cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService && (m.Service == nil || m.Service.Spec.ClusterIP == "") {
			out = outcome.Later(upgradeAgain, "ServiceHasNoIP", "%s waits for the IP of its service", g.ProcessGroupID)
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if !known {
			continue
		}
		f := foundationdb.PodFacts{ConfigMap: p.wanted, ClaimName: p.pods.ClaimName(id)}
		if m.Service != nil {
			f.ServiceIP = m.Service.Spec.ClusterIP
		}
		pod, err := foundationdb.Pod(foundationdb.WithDataOf(p.cluster, id.Class, m.Claim), id, f)
		if err != nil {
			out = outcome.Later(0, foundationdb.SpecInvalid.Reason(), "%s: %s", g.ProcessGroupID, fault.Message(err))
			continue
		}
		missing = append(missing, pod)
	}
	if len(missing) == 0 {
		return decision{Outcome: out}
	}
	return acts(out, creating("create pod", "PodNotCreated", missing, func(m *member, pod *corev1.Pod) { m.Pod = pod }))
}

// creating is the act of making children of groups. add notes one.
func creating[T port.Object](name, reason string, missing []T, add func(*member, T)) act {
	note := func(p *pass, child T) {
		if id, ok := p.ownerOf(child); ok {
			add(p.member(id), child)
		}
	}
	return act{
		Name: name, Targets: objectNames(missing),
		Assume: func(p *pass) {
			for _, child := range missing {
				note(p, child)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, missing, reason, func(child T) error {
				err := p.create(ctx, child)
				if err == nil {
					note(p, child)
				}
				if errors.Is(err, control.Exists) { // the list was late
					return nil
				}
				return err
			})
		},
	}
}
