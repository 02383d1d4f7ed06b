package clusters

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// labelling is what a child lacks.
type labelling struct {
	group               v1beta2.ProcessGroupID
	child               port.Object
	labels, annotations map[string]string
}

// lacking is what the children of a group lack.
func (p *pass) lacking(g *v1beta2.ProcessGroupStatus) []labelling {
	id, known := p.ids[g.ProcessGroupID]
	if !known {
		return nil
	}
	var found []labelling
	m := p.member(g.ProcessGroupID)
	add := func(child port.Object, labels, annotations map[string]string) {
		labels, annotations = foundationdb.Lacking(child, labels, annotations)
		if child.GetDeletionTimestamp() == nil && len(labels)+len(annotations) > 0 {
			found = append(found, labelling{g.ProcessGroupID, child, labels, annotations})
		}
	}
	if m.pod != nil {
		labels, annotations := foundationdb.PodMetadata(p.cluster, id, m.pod)
		add(m.pod, labels, annotations)
	}
	if m.claim != nil {
		labels, annotations := foundationdb.ClaimMetadata(p.cluster, id)
		maps.Copy(annotations, foundationdb.DataAnnotations(p.cluster, id.Class, m.claim, m.pod))
		add(m.claim, labels, annotations)
	}
	if m.service != nil {
		add(m.service, foundationdb.GroupLabels(p.cluster, id), nil)
	}
	return found
}

// updateLabels adds the labels and annotations that children lack. Others stay, so that what people and
// other programs have added is never taken away.
func updateLabels(p *pass) decision {
	var lacking []labelling
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; g.Has(v1beta2.IncorrectPodMetadata) {
			lacking = append(lacking, p.lacking(g)...)
		}
	}
	if len(lacking) == 0 {
		return decision{}
	}
	targets := make([]string, len(lacking))
	for i, l := range lacking {
		targets[i] = l.child.GetName()
	}
	return acts(outcome.Done(), act{
		Name: "add labels and annotations to", Targets: targets,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, lacking, "LabelsNotWritten", func(l labelling) error {
				patch, err := json.Marshal(map[string]any{"metadata": metadataPatch(l.labels, l.annotations)})
				if err != nil {
					return err
				}
				if err := p.patch(ctx, l.child, patch); err != nil {
					return err
				}
				p.drop(l.group, v1beta2.IncorrectPodMetadata)
				return nil
			})
		},
	})
}
