package cluster_test

import (
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bookstest"
)

func TestMemory(t *testing.T) {
	bookstest.Run(t, func(testing.TB) cluster.Store { return cluster.NewMemory() })
}
