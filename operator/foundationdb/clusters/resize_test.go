package clusters_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

func (l *life) claims() []corev1.PersistentVolumeClaim {
	l.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := l.As("").Objects.List(context.Background(), &list, namespace, nil); err != nil {
		l.t.Fatal(err)
	}
	return list.Items
}

const larger = `{"spec":{"processes":{"general":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"256Gi"}}}}}}}}`

// Volumes grow in place, zone by zone.
func TestVolumesGrow(t *testing.T) {
	l := begin(t, sim.Options{Nodes: 3}, nil)
	l.settle(30 * time.Minute)
	before := l.groupIDs()
	zones := map[string]time.Time{}
	l.Before(func(e sim.Effect) error {
		if e.Verb == "Patch" && e.Kind == "PersistentVolumeClaim" {
			for _, claim := range l.claims() {
				has, wants := claim.Status.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
				if zone := l.zoneOf(claim.Name); has.Cmp(wants) < 0 && zone != l.zoneOf(e.Name) {
					t.Errorf("%s grows while one of zone %s does", e.Name, zone)
				}
			}
			zones[l.zoneOf(e.Name)] = l.Now()
		}
		return nil
	})
	l.edit(larger)
	l.settle(time.Hour)
	for _, claim := range l.claims() {
		if size := claim.Status.Capacity[corev1.ResourceStorage]; size.String() != "256Gi" {
			l.fail("%s has %s", claim.Name, &size)
		}
	}
	if len(zones) < 3 {
		t.Errorf("zones %v", zones)
	}
	for id := range l.groupIDs() {
		if !before[id] {
			l.fail("%s is new", id)
		}
	}
	l.settled()
}

// Where the class does not let them grow, groups are replaced.
func TestVolumesThatCannotGrow(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	l.lasts(3 * time.Minute)
	before := l.groupIDs()
	l.Before(func(e sim.Effect) error {
		if e.Verb == "Patch" && e.Kind == "PersistentVolumeClaim" {
			return control.Invalid.Errorf("only dynamically provisioned pvc can be resized")
		}
		return nil
	})
	l.edit(larger)
	l.settle(6 * time.Hour)
	for _, claim := range l.claims() {
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "256Gi" {
			l.fail("%s has %s", claim.Name, &size)
		}
	}
	for id := range l.groupIDs() {
		if before[id] {
			l.fail("%s is still there", id)
		}
	}
}

func (l *life) groupIDs() map[v1beta2.ProcessGroupID]bool {
	ids := map[v1beta2.ProcessGroupID]bool{}
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessClass == "storage" || g.ProcessClass == "log" {
			ids[g.ProcessGroupID] = true
		}
	}
	return ids
}

// zoneOf is the zone of the group with a claim.
func (l *life) zoneOf(claim string) string {
	for _, g := range l.cluster().Status.ProcessGroups {
		if l.podOf(g.ProcessGroupID)+"-data" == claim {
			return g.FaultDomain
		}
	}
	return ""
}
