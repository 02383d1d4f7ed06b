package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// built returns the root of the repository, or skips a test of which a program is not there.
func built(t *testing.T, programs ...string) string {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(root, "bin", program)); err != nil {
			t.Skipf("%v: make build controlplane", err)
		}
	}
	return root
}
