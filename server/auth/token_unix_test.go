//go:build unix

package auth_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
)

// A token file that is a pipe is refused without waiting for a writer.
func TestTokenFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := auth.ReadTokens(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if fault.Of(err) != route.TokenInvalid || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a pipe that nobody writes to is waited for")
	}
}
