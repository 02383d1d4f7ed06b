package workloadtest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Run(t, workloadtest.Options{New: func(_ *testing.T, kind rollout.Kind, replicas int, parallel bool) workloadtest.Subject {
		sim := workloadtest.NewSim(kind, replicas)
		if parallel {
			sim.Parallel()
		}
		return sim
	}})
}
