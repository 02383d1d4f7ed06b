package report

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// A cluster comes with the backups and restores of its own, the stages of its configuration and the links that are held.
func TestDetailOf(t *testing.T) {
	c := &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "orders", Annotations: map[string]string{foundationdb.HoldAnnotation: "UpdatePods, Typo"}}}
	c.Spec.Version, c.Spec.DatabaseConfiguration.RedundancyMode = "7.3.69", "triple"
	c.Status.DatabaseConfiguration = foundationdb.Effective(c.Spec).DatabaseConfiguration
	c.Status.DatabaseConfiguration.RedundancyMode = "double"
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available"}}
	c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{
		{ProcessGroupID: "storage-1", ProcessClass: "storage", ProcessGroupConditions: []v1beta2.ProcessGroupCondition{{Type: v1beta2.PodFailing, Timestamp: 1}, {Type: v1beta2.MissingProcesses, Timestamp: 1}}},
		{ProcessGroupID: "storage-2", ProcessClass: "storage", ProcessGroupConditions: []v1beta2.ProcessGroupCondition{{Type: v1beta2.ProcessGroupConditionReady, Timestamp: 1}}},
	}
	backups := []v1beta2.FoundationDBBackup{
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1beta2.FoundationDBBackupSpec{ClusterName: "orders"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1beta2.FoundationDBBackupSpec{ClusterName: "stock"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta2.FoundationDBBackupSpec{ClusterName: "orders"}},
	}
	restores := []v1beta2.FoundationDBRestore{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "orders"}}, {Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "stock"}}}
	d := DetailOf(Facts{Cluster: c, Now: time.Unix(100, 0)}, backups, restores, []string{"AddPods", "UpdatePods"})
	if len(d.Stages) == 0 || d.Stages[len(d.Stages)-1] != d.DesiredConfiguration {
		t.Errorf("stages %q do not end in %q", d.Stages, d.DesiredConfiguration)
	}
	if len(d.Backups) != 2 || d.Backups[0].Name != "a" || d.Backups[1].Name != "b" || len(d.Restores) != 1 || d.Restores[0].Name != "r" {
		t.Errorf("%+v, %+v", d.Backups, d.Restores)
	}
	if !slices.Equal(d.Held, []string{"UpdatePods"}) || !d.Ready || d.Problems != 1 || len(d.Conditions) != 1 {
		t.Errorf("held %q, ready %t, %d problems, %d conditions", d.Held, d.Ready, d.Problems, len(d.Conditions))
	}
}
