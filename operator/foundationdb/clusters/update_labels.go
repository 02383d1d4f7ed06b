package clusters

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/outcome"
)

// updateLabels adds the labels and annotations that children lack. Others stay, so that what people and
// other programs have added is never taken away.
func updateLabels(p *pass) decision {
	var lacking []groups.Labelling
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; g.Has(v1beta2.IncorrectPodMetadata) {
			lacking = append(lacking, groups.Lacking(p.cluster, g, p.member(g.ProcessGroupID))...)
		}
	}
	if len(lacking) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), act{
		Name: "add labels and annotations to", Targets: texts(lacking, func(l groups.Labelling) string { return l.Child.GetName() }),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, lacking, "LabelsNotWritten", func(l groups.Labelling) error {
				patch, err := json.Marshal(map[string]any{"metadata": metadataPatch(l.Labels, l.Annotations)})
				if err != nil {
					return err
				}
				if err := p.patch(ctx, l.Child, patch); err != nil {
					return err
				}
				p.ours.Drop(l.Group, v1beta2.IncorrectPodMetadata, p.now)
				return nil
			})
		},
	})
}
