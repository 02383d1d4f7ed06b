package clusters

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// addPVCs makes the claims of stateful groups.
func addPVCs(p *pass) decision {
	var missing []*corev1.PersistentVolumeClaim
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if g.Marked() || p.member(g.ProcessGroupID).claim != nil {
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
	return acts(outcome.Done(), act{
		Name: "create claim", Targets: objectNames(missing),
		Assume: func(p *pass) {
			for _, claim := range missing {
				if id, ok := p.ownerOf(claim); ok {
					p.member(id).claim = claim
				}
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, missing, "ClaimNotCreated", func(claim *corev1.PersistentVolumeClaim) error {
				err := p.create(ctx, claim)
				if err == nil {
					if id, ok := p.ownerOf(claim); ok {
						p.member(id).claim = claim
					}
				}
				if errors.Is(err, control.Exists) {
					return nil
				}
				return err
			})
		},
	})
}
