package rollout_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// pawl runs the program in the namespace of the world, and returns what it prints and its exit code.
func (w *world) pawl(args ...string) (string, int) {
	w.t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(root, "bin", "pawl"), append(args, "--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace)...)
	cmd.Env = append(cmd.Environ(), "PAWL_KUBERNETES=true", "NO_COLOR=1", "USER=ann")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatalf("pawl %v: %v", args, err)
	}
	w.t.Logf("$ pawl %s\n%s(%d)", strings.Join(args, " "), out, cmd.ProcessState.ExitCode())
	return string(out), cmd.ProcessState.ExitCode()
}

// TestCommandLine: a rollout, as somebody steers it with pawl.
func TestCommandLine(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{NumBatches: new(int32(3)), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	expect := func(code int, want string, args ...string) string {
		t.Helper()
		out, got := w.pawl(args...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("pawl %s ends with %d, expected %d and %q:\n%s", strings.Join(args, " "), got, code, want, out)
		}
		return out
	}
	expect(0, "NothingToRoll", "rollout", "status", "db")
	expect(2, "NOT_PAUSED", "rollout", "resume", "db")
	expect(1, "OBJECT_NOT_FOUND", "rollout", "status", "nothing")
	expect(0, "Rollout/"+w.namespace+"/db paused", "rollout", "pause", "db")
	w.setImage("db", "r2")
	w.waitsFor("db", "PausedByUser")
	expect(4, "PausedByUser", "rollout", "status", "db", "--wait", "10s")
	expect(0, "the plan says paused: the next rollout begins with a pause", "rollout", "resume", "db", "--reason", "ready #7 now")
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	w.waitsFor("db", "HeldByPartition")
	expect(4, "HeldByPartition", "watch", "rollout", "db")
	expect(2, "ROLLOUT_REQUEST_INVALID", "rollout", "approve", "db", "--batch", "7")
	expect(4, "1 (2/3)  2/3 updated  HeldByPartition", "rollout", "approve", "sts/db", "--wait", "1m")
	expect(0, "db  rolloutSucceed  3/3 updated", "rollout", "approve", "db", "--batch", "all", "--reason", "smoke tests passed", "--wait", "1m")
	if out := expect(0, "approve by ann", "describe", "prol", "db"); !strings.Contains(out, "Batches\n  BATCH  SIZE  TARGET  STATE  TOOK  PODS\n  0      1     1       done") {
		t.Errorf("describe prints\n%s", out)
	}
	expect(0, "resume (ready no. 7 now)", "history", "rollout", "db")
	expect(0, "rolloutSucceed", "get", "prol")
	expect(0, `"rollingState": "rolloutSucceed"`, "get", "prol", "db", "-o", "json")
	w.patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"paused":false}}}`)
	expect(0, "has the template of revision db-", "rollout", "undo", "sts/db") // after the end: the pair is swapped
	all := func(image string) {
		t.Helper()
		w.waitsFor("db", "HeldByPartition")
		expect(0, "rolloutSucceed", "rollout", "approve", "db", "--batch", "all", "--wait", "1m")
		w.expectImages("db", fmt.Sprintf("0=%[1]s 1=%[1]s 2=%[1]s", image))
	}
	all("r1")
	w.setImage("db", "r2")
	all("r2")
	w.breakImage("broken")
	w.setImage("db", "broken")
	w.waitsFor("db", "PodsNotReady")
	expect(1, "RolledBack", "rollout", "undo", "db", "--reason", "it does not start", "--wait", "1m")
	w.expectImages("db", "0=r2 1=r2 2=r2")
	expect(0, "restarted", "rollout", "restart", "db")
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	expect(1, "Abandoned", "rollout", "abandon", "db", "--wait", "1m")
}
