package rollout_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// operate runs pawl operator for Rollouts in the namespace, until the test ends.
func (w *world) operate(args ...string) {
	w.t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	_, kubeconfig, err := w.plane.User(deploy.Account, "system:masters")
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(root, "bin", "pawl"), append([]string{
		"operator", "--operators", "rollout", "--namespaces", w.namespace, "--operator-namespace", w.namespace, "--kubeconfig", kubeconfig,
		"--no-leader-election", "--listen", "127.0.0.1:0"}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("pawl operator:\n%s", said.String())
		}
	})
}

// TestFlowAsHook: a hook is a flow: its run has the Rollout as its subject; while it is paused the
// rollout shows its code and remedy, and goes on when the run was resumed.
func TestFlowAsHook(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	dir := t.TempDir()
	marker := filepath.Join(dir, "space")
	flow := fmt.Sprintf(`
flowName: Backup
input:
  type: object
  required: [bucket]
  additionalProperties: false
  properties: {bucket: {type: string}}
steps:
- stepName: Upload
  uses: exec
  with:
    shell: test -e %s || exit 3
    faults: {"3": NO_SPACE_LEFT}
`, marker)
	const faults = "faults:\n- {code: NO_SPACE_LEFT, class: blocked, title: the backup does not fit, remedy: Make room in the bucket.}\n"
	for name, text := range map[string]string{"backup.yaml": flow, "backup_faults.yaml": faults} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.operate("--flows", dir, "--actions", "exec")
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", `
numBatches: 2
rolloutWebhooks:
- {name: backup, type: initialize-rollout, flow: Backup, input: {bucket: nightly}}
`)
	w.setImage("db", "r2")
	r := w.waitsFor("db", "FlowPaused")
	for _, want := range []string{"NO_SPACE_LEFT", "Make room in the bucket"} {
		if !strings.Contains(r.Status.Waiting.Message, want) {
			t.Errorf("it waits for %q, which does not say %q", r.Status.Waiting.Message, want)
		}
	}
	w.expectImages("db", "0=r1 1=r1")
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := w.pawl("resume", runOf(r.Status.Waiting.Message)); code != 0 {
		t.Fatalf("resume: %s", out)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2")

	// What cannot be run is refused before anything moves.
	for hook, want := range map[string]string{
		`{"name": "backup", "type": "initialize-rollout", "flow": "Restore"}`:                                "Restore",
		`{"name": "backup", "type": "initialize-rollout", "flow": "Backup", "input": {"bukket": "nightly"}}`: "bukket",
	} {
		w.patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"rolloutWebhooks":[`+hook+`]}}}`)
		w.until("the refusal names "+want, func() bool {
			c := meta.FindStatusCondition(w.now("db").Status.Conditions, rollout.Stalled)
			return c != nil && c.Status == metav1.ConditionTrue && c.Reason == "PlanInvalid" && strings.Contains(c.Message, want)
		})
	}
}

// runOf is the id that a wait for a paused run names.
func runOf(message string) string {
	_, after, _ := strings.Cut(message, "; run ")
	id, _, _ := strings.Cut(after, ":")
	return id
}
