package kube

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
)

// ClusterMetrics count clusters by what their conditions say, when they are asked for.
//
//	pawl_foundationdb_clusters{condition,status}         clusters by the status of each condition
//	pawl_foundationdb_longest_unreconciled_seconds       how long the cluster that waits longest is not as its spec says; 0: none
type ClusterMetrics struct {
	list func(ctx context.Context) ([]v1beta2.FoundationDBCluster, error)
	now  func() time.Time
}

var (
	clustersDesc     = prometheus.NewDesc("pawl_foundationdb_clusters", "FoundationDBClusters by conditions and their status.", []string{"condition", "status"}, nil)
	unreconciledDesc = prometheus.NewDesc("pawl_foundationdb_longest_unreconciled_seconds",
		"How long the FoundationDBCluster that waits longest is not as its spec says; 0: all are.", nil, nil)
)

// listWithin is how long a list of the cache may take.
const listWithin = 5 * time.Second

// NewClusterMetrics registers the metrics of the clusters that the operator serves. Paused ones are not waited for.
func NewClusterMetrics(r prometheus.Registerer, o *Objects) (*ClusterMetrics, error) {
	m := &ClusterMetrics{now: time.Now, list: func(ctx context.Context) ([]v1beta2.FoundationDBCluster, error) {
		var all v1beta2.FoundationDBClusterList
		err := o.cache.ListShared(ctx, &all)
		return all.Items, err
	}}
	return registered(r, m)
}

// Describe implements prometheus.Collector.
func (m *ClusterMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- clustersDesc
	out <- unreconciledDesc
}

// Collect implements prometheus.Collector. Without a cache, as in an operator that does not lead yet, there is nothing.
func (m *ClusterMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listWithin)
	defer cancel()
	all, err := m.list(ctx)
	if err != nil {
		return
	}
	type key struct{ condition, status string }
	counts := map[key]int{}
	var longest time.Duration
	for i := range all {
		paused, waits := false, time.Duration(0)
		for _, c := range all[i].Status.Conditions {
			counts[key{c.Type, string(c.Status)}]++
			switch is := c.Status == metav1.ConditionTrue; {
			case c.Type == clusters.TypePaused && is:
				paused = true
			case c.Type == clusters.TypeReconciled && !is:
				waits = m.now().Sub(c.LastTransitionTime.Time)
			}
		}
		if !paused {
			longest = max(longest, waits)
		}
	}
	for k, n := range counts {
		out <- prometheus.MustNewConstMetric(clustersDesc, prometheus.GaugeValue, float64(n), k.condition, k.status)
	}
	out <- prometheus.MustNewConstMetric(unreconciledDesc, prometheus.GaugeValue, longest.Seconds())
}
