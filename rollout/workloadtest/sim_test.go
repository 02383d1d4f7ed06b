package workloadtest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// TestConformanceUnordered: an Advanced StatefulSet whose updates follow no ordinals.
func TestConformanceUnordered(t *testing.T) {
	workloadtest.Run(t, workloadtest.Options{Kinds: []rollout.Kind{rollout.AdvancedStatefulSet}, New: func(_ *testing.T, kind rollout.Kind, replicas int, _ bool) workloadtest.Subject {
		return workloadtest.NewSim(kind, replicas).Unordered()
	}})
}

func TestConformance(t *testing.T) {
	workloadtest.Run(t, workloadtest.Options{New: func(_ *testing.T, kind rollout.Kind, replicas int, parallel bool) workloadtest.Subject {
		sim := workloadtest.NewSim(kind, replicas)
		if parallel {
			sim.Parallel()
		}
		return sim
	}})
}
