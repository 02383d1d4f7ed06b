//go:build unix

package secrets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// A pipe without a writer is refused at once, without waiting.
func TestFinding10MasterKeyIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := secrets.MasterKeyFile(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, secrets.MasterKeyInvalid) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("reading a pipe without a writer blocks")
	}
}

// A dangling link is refused: no key is created through it, and there is no endless
// retry.
func TestFinding10MasterKeyIsALinkToNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nothing", path); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := secrets.MasterKeyFile(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, secrets.MasterKeyInvalid) {
			t.Errorf("a dangling link: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a dangling link is retried for ever")
	}
}
