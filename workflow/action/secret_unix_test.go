//go:build unix

package action

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// A pipe without a writer is refused: the action does not wait for it.
func TestFinding10SecretOfAFolderIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := FileSecrets{Dir: filepath.Dir(path)}.Secret(t.Context(), workflow.SecretRef{Name: "pipe"})
		answer <- err
	}()
	select {
	case err := <-answer:
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the action waits for a pipe without a writer")
	}
}
