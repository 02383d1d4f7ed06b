package application

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// metrics are the metrics of this operator. No label names an object.
type metrics struct {
	applications *prometheus.GaugeVec
	made         prometheus.Counter
	reached      prometheus.Counter

	mu     sync.Mutex
	states map[types.NamespacedName]string
}

// States of Applications in metrics.
const (
	stateReady    = "ready"    // all pods of the newest revision are ready
	stateReached  = "reached"  // all pods have the newest revision, and some are not ready
	stateChanging = "changing" // the pods do not have the newest revision
	stateUnknown  = "unknown"  // the API server did not answer
)

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		states: map[types.NamespacedName]string{},
		applications: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pawl_application_applications", Help: "Applications by state."}, []string{"state"}),
		made: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_application_revisions_made_total", Help: "Revisions that were made."}),
		reached: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_application_revisions_reached_total", Help: "Revisions that all pods had."}),
	}
	for _, c := range []prometheus.Collector{m.applications, m.made, m.reached} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// stateOf is the state that conditions tell of.
func stateOf(conditions []metav1.Condition) string {
	status := map[string]metav1.ConditionStatus{}
	for _, c := range conditions {
		status[c.Type] = c.Status
	}
	switch {
	case status[Ready] == metav1.ConditionTrue:
		return stateReady
	case status[Ready] == metav1.ConditionUnknown:
		return stateUnknown
	case status[RolloutComplete] == metav1.ConditionTrue:
		return stateReached
	}
	return stateChanging
}

// stands counts an Application by its state; the empty state does not exist any more.
func (m *metrics) stands(key types.NamespacedName, state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.states[key]
	if was == state {
		return
	}
	if was != "" {
		m.applications.WithLabelValues(was).Dec()
	}
	if m.states[key] = state; state == "" {
		delete(m.states, key)
		return
	}
	m.applications.WithLabelValues(state).Inc()
}
