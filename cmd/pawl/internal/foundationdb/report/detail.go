package report

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// DetailOf tells a cluster with its backups and restores, from those of its namespace. links are those of the operator
// that can be held.
func DetailOf(f Facts, backups []v1beta2.FoundationDBBackup, restores []v1beta2.FoundationDBRestore, links []string) fdbview.Detail {
	d := fdbview.Detail{
		Cluster: Of(f), Conditions: []view.Condition{}, Stages: []string{}, Backups: []Backup{}, Restores: []Restore{}, Links: links, Held: Held(f.Cluster.Annotations, links),
	}
	for _, c := range f.Cluster.Status.Conditions {
		d.Conditions = append(d.Conditions, view.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if live, known := liveConfiguration(f); known {
		for _, stage := range fdb.Stages(live, desiredConfiguration(f.Cluster)) {
			d.Stages = append(d.Stages, stage.Text())
		}
	}
	for i := range backups {
		if backups[i].Spec.ClusterName == f.Cluster.Name {
			d.Backups = append(d.Backups, OfBackup(&backups[i]))
		}
	}
	for i := range restores {
		if restores[i].Spec.DestinationClusterName == f.Cluster.Name {
			d.Restores = append(d.Restores, OfRestore(&restores[i]))
		}
	}
	slices.SortFunc(d.Backups, func(a, b Backup) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Restores, func(a, b Restore) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// Held returns those of links that annotations hold.
func Held(annotations map[string]string, links []string) []string {
	held := []string{}
	holds := foundationdb.Holds(annotations)
	for _, link := range links {
		if holds != nil && holds(link) {
			held = append(held, link)
		}
	}
	return held
}
