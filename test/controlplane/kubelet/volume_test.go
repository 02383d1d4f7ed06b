package kubelet

import (
	"os"
	"path/filepath"
	"testing"
)

// A reader of a mounted ConfigMap sees all old files or all new ones, and no removed one.
func TestReplaceSwapsAllFilesAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	write := func(files map[string]file) {
		t.Helper()
		if err := replace(dir, files, -1); err != nil {
			t.Fatal(err)
		}
	}
	write(map[string]file{"a": {[]byte("1"), 0o644}, "sub/b": {[]byte("1"), 0o600}})
	first, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		t.Fatal(err)
	}

	write(map[string]file{"a": {[]byte("1"), 0o644}, "sub/b": {[]byte("1"), 0o600}})
	if again, _ := os.Readlink(filepath.Join(dir, "..data")); again != first {
		t.Error("the same files were written again")
	}
	write(map[string]file{"a": {[]byte("2"), 0o644}, "c": {[]byte("2"), 0o644}})
	for name, want := range map[string]string{"a": "2", "c": "2", "sub/b": ""} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if string(got) != want || (want == "") != (err != nil) {
			t.Errorf("%s is %q (%v), not %q", name, got, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 { // ..data, its target, a, c
		t.Errorf("there are leftovers: %v", entries)
	}
}

func TestAddressesDoNotRepeatSoon(t *testing.T) {
	a := NewAddresses(7)
	if got := a.pod(); got != "127.7.1.1" {
		t.Errorf("the first is %s", got)
	}
	seen := map[string]bool{}
	for range 64_000 {
		address := a.pod()
		if seen[address] {
			t.Fatalf("%s is given twice", address)
		}
		seen[address] = true
	}
	if first, second := a.node(), a.node(); first == second {
		t.Error("two nodes share an address")
	}
}
