package clusters_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage lie longer: lives make a lot of it and keep little, and collecting it took a fifth of their CPU.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
