package clusters

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

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
