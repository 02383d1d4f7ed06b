package cluster_test

import (
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"
)

func TestMemory(t *testing.T) {
	clustertest.Run(t, func(testing.TB) cluster.Store { return cluster.NewMemory() })
}
