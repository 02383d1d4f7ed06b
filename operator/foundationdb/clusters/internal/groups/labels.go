package groups

import (
	"maps"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Labelling is what a child lacks.
type Labelling struct {
	Group               v1beta2.ProcessGroupID
	Child               port.Object
	Labels, Annotations map[string]string
}

// Lacking is what the children of a group lack.
func Lacking(c *v1beta2.FoundationDBCluster, g *v1beta2.ProcessGroupStatus, m *Member) []Labelling {
	id, err := fdb.ParseGroupID(string(g.ProcessGroupID))
	if err != nil {
		return nil
	}
	var found []Labelling
	add := func(child port.Object, labels, annotations map[string]string) {
		labels, annotations = foundationdb.Lacking(child, labels, annotations)
		if child.GetDeletionTimestamp() == nil && len(labels)+len(annotations) > 0 {
			found = append(found, Labelling{g.ProcessGroupID, child, labels, annotations})
		}
	}
	if m.Pod != nil {
		labels, annotations := foundationdb.PodMetadata(c, id, m.Pod)
		add(m.Pod, labels, annotations)
	}
	if m.Claim != nil {
		labels, annotations := foundationdb.ClaimMetadata(c, id)
		maps.Copy(annotations, foundationdb.DataAnnotations(c, id.Class, m.Claim, m.Pod))
		add(m.Claim, labels, annotations)
	}
	if m.Service != nil {
		add(m.Service, foundationdb.GroupLabels(c, id), nil)
	}
	return found
}
