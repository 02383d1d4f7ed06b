//go:build unix

package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe without a writer is refused without waiting.
func TestFinding10SecretIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := Secret(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, Refused) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a pipe that nobody writes to is waited for")
	}
}

// With any mode, only regular files are read: an endless device is refused.
func TestFinding10OnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	large, mounted := filepath.Join(dir, "large"), filepath.Join(dir, "mounted")
	if err := os.WriteFile(large, []byte(strings.Repeat("x", maxSize+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "no regular file but a folder", "/dev/zero": "no regular file but a device", large: "larger than any secret",
	} {
		if text, err := ReadAnyMode(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d characters, %v", path, len(text), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "secret"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secret", mounted); err != nil { // as in a mounted Secret
		t.Fatal(err)
	}
	if text, err := ReadAnyMode(mounted); err != nil || text != "hush" {
		t.Errorf("a mounted Secret: %q, %v", text, err)
	}
	if _, err := Read(mounted); err == nil || !strings.Contains(err.Error(), "may be read by others") {
		t.Errorf("a file that all may read: %v", err)
	}
	if err := os.Chmod(mounted, 0o440); err != nil {
		t.Fatal(err)
	}
	if text, err := read(mounted, os.Geteuid()+1); err != nil || text != "hush" { // it belongs to root, and the group of the pod may read it
		t.Errorf("a Secret of an fsGroup: %q, %v", text, err)
	}
}
