package kruise_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
	subject "github.com/pawl-dev/pawl/test/workload"
)

// TestConformance: CloneSets and Advanced StatefulSets of OpenKruise's manager, driven through
// kube/workload.
func TestConformance(t *testing.T) {
	open(t)
	workloadtest.Run(t, workloadtest.Options{
		Kinds: []rollout.Kind{rollout.CloneSet, rollout.AdvancedStatefulSet}, Patience: 40 * time.Second, Parallel: true,
		New: func(t *testing.T, kind rollout.Kind, replicas int, parallel bool) workloadtest.Subject {
			return subject.New(t, plane, kind, replicas, parallel)
		},
	})
}

// TestConformanceUnordered: Advanced StatefulSets whose updates follow no ordinals.
func TestConformanceUnordered(t *testing.T) {
	open(t)
	workloadtest.Run(t, workloadtest.Options{
		Kinds: []rollout.Kind{rollout.AdvancedStatefulSet}, Patience: 40 * time.Second, Parallel: true,
		New: func(t *testing.T, _ rollout.Kind, replicas int, _ bool) workloadtest.Subject {
			return subject.Unordered(t, plane, replicas)
		},
	})
}
