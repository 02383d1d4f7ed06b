//go:build unix

package stores

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe that nobody writes to is refused: it is not waited for.
func TestFinding10PassphraseIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := (&verbs{}).passphrase(path, false)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, PassphraseWrong) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a pipe that nobody writes to is waited for")
	}
}
