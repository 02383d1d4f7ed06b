package sharedstorage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The API server refuses what no cluster can be, with a message that says what can.
func TestBoundsOfTheCRD(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for n, c := range []struct{ name, spec, want string }{
		{"blue", "{storage: {size: -1Gi}}", "storage.size is from 1Mi to 1Pi"},
		{"blue", "{storage: {size: 10Ei}}", "storage.size is from 1Mi to 1Pi"},
		{"blue", "{storage: {size: 0}}", "storage.size is from 1Mi to 1Pi"},
		{"blue", "{readers: -1}", "spec.readers"},
		{"blue", "{ports: {start: -5}}", "spec.ports.start"},
		{"blue", "{ports: {start: 5432, step: -1}}", "spec.ports.step"},
		{"blue", "{scheduling: {whenUnsatisfiable: Sometimes}}", "whenUnsatisfiable"},
		{strings.Repeat("b", 60), "{}", "metadata.name: at most 40 characters"},
		{"blue.green", "{}", "metadata.name: at most 40 characters"},
		{"blue", "{}", ""},
		{strings.Repeat("b", 40), "{storage: {size: 1Pi}, readers: 15}", ""},
	} {
		file := filepath.Join(t.TempDir(), fmt.Sprint(n, ".yaml"))
		text := fmt.Sprintf("apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: %s}\nspec: %s\n", c.name, c.spec)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := w.try("create", "--dry-run=server", "-f", file)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s %s: %v %s", c.name, c.spec, err, out)
		}
	}
}
