package rollouttest

import (
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Pawl runs the program in the namespace, and returns what it prints and its exit code.
func (w *World) Pawl(args ...string) (string, int) {
	w.Helper()
	return w.PlainPawl(append(args, "--kubeconfig", w.Plane.Kubeconfig(), "-n", w.Namespace)...)
}

// PlainPawl adds nothing to the arguments.
func (w *World) PlainPawl(args ...string) (string, int) {
	w.Helper()
	root, err := controlplane.Root()
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(w.Context(), filepath.Join(root, "bin", "pawl"), args...)
	cmd.Env = append(cmd.Environ(), "PAWL_KUBERNETES=true", "NO_COLOR=1", "USER=ann")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.Fatalf("pawl %v: %v", args, err)
	}
	w.Logf("$ pawl %s\n%s(%d)", strings.Join(args, " "), out, cmd.ProcessState.ExitCode())
	return string(out), cmd.ProcessState.ExitCode()
}

// ExpectPawl runs the program, and expects an exit code and a text.
func (w *World) ExpectPawl(code int, want string, args ...string) string {
	w.Helper()
	out, got := w.Pawl(args...)
	if got != code || !strings.Contains(out, want) {
		w.Errorf("pawl %s ends with %d, expected %d and %q:\n%s", strings.Join(args, " "), got, code, want, out)
	}
	return out
}
