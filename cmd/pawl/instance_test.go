package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the operator starts refuses a folder that holds nothing, and says what is missing.
func TestDaemonsWithoutConfiguration(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"instance", "dir", 2},
		{"cluster-manager", "dir", 2},
		{"instance --dir " + dir, "config.json", 1},
		{"cluster-manager --dir " + dir, "config.json", 1},
		{"instance --dir " + dir + " --config " + empty, "cluster.instance is empty", 1},
		{"cluster-manager --dir " + dir + " --config " + empty, "grantDir is empty", 1},
		{"instance --dir " + dir + " --guard", "", 0}, // no engine to guard
	} {
		code, _, errOut := called(t, "", strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("pawl %s: exit code %d, %q; want %d, %q", c.args, code, errOut, c.code, c.says)
		}
	}
}
