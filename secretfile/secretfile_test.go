package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFinding10SecretsOthersReadAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(" hush \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		text, err := Secret(path)
		if fine && (err != nil || text != "hush") || !fine && (!errors.Is(err, Refused) || !strings.Contains(err.Error(), "may be read by others")) {
			t.Errorf("mode %o: %q, %v", mode, text, err)
		}
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if exposed(info, os.Geteuid()+1) { // a Secret in a pod: it belongs to root, and the group of the pod may read it
		t.Error("a mounted Secret is refused")
	}
	if !exposed(info, os.Geteuid()) {
		t.Error("an own file that a group may read is accepted")
	}
}

func TestFilesWithoutASecret(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	for path, text := range map[string]string{empty: " \n", large: strings.Repeat("x", maxSize+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{empty, large, dir, filepath.Join(dir, "none")} {
		if text, err := Secret(path); !errors.Is(err, Refused) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}
