package memory_test

import (
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"
	"github.com/pawl-dev/pawl/cluster/memory"
)

func TestMemory(t *testing.T) {
	clustertest.Run(t, func(testing.TB) cluster.Store { return memory.New() })
}
