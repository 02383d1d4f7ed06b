package locktest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/lock/locktest"
)

func TestMemory(t *testing.T) {
	locktest.Run(t, func(*testing.T) lock.Backend { return &lock.Memory{} })
}
