package storetest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(testing.TB) workflow.Store { return workflow.NewMemory() }})
}
