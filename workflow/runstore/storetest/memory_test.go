package storetest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(testing.TB) runstore.Store { return runstore.NewMemory() }})
}
