package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestClusterMetrics: clusters are counted by their conditions; one that is paused is not waited for.
func TestClusterMetrics(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	cluster := func(conditions ...metav1.Condition) v1beta2.FoundationDBCluster {
		c := v1beta2.FoundationDBCluster{}
		c.Status.Conditions = conditions
		return c
	}
	is := func(condition string, status metav1.ConditionStatus, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: condition, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	list := []v1beta2.FoundationDBCluster{
		cluster(is("Available", "True", time.Hour), is("Reconciled", "True", 9*time.Hour)),
		cluster(is("Available", "Unknown", time.Hour), is("Reconciled", "False", 2*time.Minute)),
		cluster(is("Reconciled", "False", 5*time.Hour), is("Paused", "True", time.Hour)),
		cluster(),
	}
	var wrong error
	m := &ClusterMetrics{now: func() time.Time { return now }, list: func(context.Context) ([]v1beta2.FoundationDBCluster, error) { return list, wrong }}
	registry := prometheus.NewRegistry()
	if _, err := registered(registry, m); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP pawl_foundationdb_clusters FoundationDBClusters by conditions and their status.
# TYPE pawl_foundationdb_clusters gauge
pawl_foundationdb_clusters{condition="Available",status="True"} 1
pawl_foundationdb_clusters{condition="Available",status="Unknown"} 1
pawl_foundationdb_clusters{condition="Paused",status="True"} 1
pawl_foundationdb_clusters{condition="Reconciled",status="False"} 2
pawl_foundationdb_clusters{condition="Reconciled",status="True"} 1
# HELP pawl_foundationdb_longest_unreconciled_seconds How long the FoundationDBCluster that waits longest is not as its spec says; 0: all are.
# TYPE pawl_foundationdb_longest_unreconciled_seconds gauge
pawl_foundationdb_longest_unreconciled_seconds 120
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	wrong = errors.New("the cache has not started")
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d metrics without a cache, %v", n, err)
	}
}
