//go:build unix

package sqlstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sqlstore"
)

// A pipe that nobody writes to is refused: it is not waited for.
func TestFinding10MasterKeyIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := sqlstore.MasterKeyFile(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, sqlstore.MasterKeyInvalid) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a pipe that nobody writes to is waited for")
	}
}

// A link to nothing is refused: no key is made through it, and it is not tried for ever.
func TestFinding10MasterKeyIsALinkToNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nothing", path); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := sqlstore.MasterKeyFile(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, sqlstore.MasterKeyInvalid) {
			t.Errorf("a link to nothing: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a link to nothing is tried for ever")
	}
}
