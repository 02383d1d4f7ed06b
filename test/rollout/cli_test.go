package rollout_test

import (
	"fmt"
	"os"
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
	return w.Pawl(args...)
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
	expect(0, "Rollout/"+w.namespace+"/db paused", "rollout", "pause", "db", "--reason", "the backup runs")
	w.setImage("db", "r2")
	w.waitsFor("db", "PausedByUser")
	if p := w.now("db").Status.Pause; p == nil || p.Message != "the plan says paused: ann: the backup runs" {
		t.Errorf("the pause is %+v", p)
	}
	expect(4, "PausedByUser", "rollout", "status", "db", "--wait", "10s")
	expect(0, "the plan says paused: the next rollout begins with a pause", "rollout", "resume", "db", "--reason", "ready #7 now")
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	w.waitsFor("db", "HeldByPartition")
	expect(4, "HeldByPartition", "watch", "rollout", "db")
	if out := expect(0, "StatefulSet db, 3 pods", "plan", "rollout", "db"); !strings.Contains(out, "1      1     2       db-1") || !strings.Contains(out, "batch 2  stops: batchPartition 0") {
		t.Errorf("the plan of the batches to come is\n%s", out)
	}
	expect(2, "ROLLOUT_REQUEST_INVALID", "rollout", "approve", "db", "--batch", "7")
	expect(4, "1 (2/3)  2/3 updated  HeldByPartition", "rollout", "approve", "sts/db", "--wait", "1m")
	expect(0, "db  rolloutSucceed  3/3 updated", "rollout", "approve", "db", "--batch", "all", "--reason", "smoke tests passed", "--wait", "1m")
	if out := expect(0, "approve by ann", "describe", "prol", "db"); !strings.Contains(out, "Batches\n  BATCH  SIZE  TARGET  STATE  TOOK  ") || !strings.Contains(out, "✔") {
		t.Errorf("describe prints\n%s", out)
	}
	expect(0, "nothing is to be rolled now: the plan of another template", "plan", "prol", "db")
	expect(0, "resume (ready #7 now)", "history", "rollout", "db")
	expect(0, "rolloutSucceed", "get", "prol")
	expect(0, `"rollingState": "rolloutSucceed"`, "get", "prol", "db", "-o", "json")
	w.patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"paused":false}}}`)
	w.until("the reason of the pause is gone", func() bool { return w.now("db").Annotations["pawl.dev/pause-reason"] == "" })
	for verb, of := range map[string][2]string{"status": {"rollout/", "rollout/db\n"}, "undo": {"sts/d", "sts/db\n"}, "approve": {"", "db\n"}} {
		out, _ := w.PlainPawl("__complete", "rollout", verb, "--kubeconfig", w.Plane.Kubeconfig(), "-n", w.Namespace, of[0])
		if !strings.HasPrefix(out, of[1]) {
			t.Errorf("%q is completed with\n%s", of[0], out)
		}
	}
	for _, words := range [][]string{{"describe", "rollout"}, {"plan", "prol"}, {"get", "rollouts"}} {
		out, _ := w.PlainPawl("__complete", words[0], "--kubernetes=false", "--kubeconfig", w.Plane.Kubeconfig(), "-n", w.Namespace, words[1], "")
		if !strings.HasPrefix(out, "db\n") {
			t.Errorf("%v is completed with\n%s", words, out)
		}
	}
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
	expect(1, "has no revision 99; it has 3, ", "rollout", "undo", "db", "--to-revision", "99")
	expect(4, "HeldByPartition", "rollout", "undo", "sts/db", "--to-revision", "3", "--wait", "1m")
	expect(0, "rolloutSucceed", "rollout", "approve", "db", "--batch", "all", "--wait", "1m")
	w.expectImages("db", "0=r1 1=r1 2=r1")
}

// TestDryRun: with the annotation the rollout does not begin, and the status says what it would do.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{NumBatches: new(int32(2))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.annotate("db", "dry-run", "true")
	w.setImage("db", "r2")
	r := w.waitsFor("db", "DryRun")
	w.is("db", "Ready", metav1.ConditionFalse)
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	if b := r.Status.Preview["1"]; len(r.Status.Preview) != 2 || len(b.Pods) != 2 || b.Pods[0].Name != "db-1" || b.Partition == nil || *b.Partition != 0 {
		t.Errorf("the preview is %+v", r.Status.Preview)
	}
	if out, code := w.pawl("describe", "rollout", "db"); code != 0 || !strings.Contains(out, "Preview (dry run)") {
		t.Errorf("describe ends with %d:\n%s", code, out)
	}
	w.expectImages("db", "0=r1 1=r1 2=r1")
	w.annotate("db", "approve", "all; by=ann")
	w.until("the request is answered", func() bool { a := w.now("db").Status.LastRequest; return a != nil && a.By == "ann" })
	w.waitsFor("db", "DryRun")
	w.patch(&api.Rollout{}, "db", `{"metadata":{"annotations":{"pawl.dev/dry-run":null}}}`)
	r = w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	if r.Status.Preview != nil {
		t.Errorf("the preview stands there still: %+v", r.Status.Preview)
	}
	w.expectImages("db", "0=r2 1=r2 2=r2")
}

// TestPlanOfAManifest: the API server is asked what a manifest would become, and the pods are those of
// the workload.
func TestPlanOfAManifest(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	file := filepath.Join(t.TempDir(), "rollout.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: pawl.dev/v1alpha1\nkind: Rollout\nmetadata: {name: db}\nspec:\n  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}\n  rolloutPlan: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{numBatches: 3}")
	if out, code := w.pawl("plan", "-f", file); code != 0 || !strings.Contains(out, "1      1     2       db-1") {
		t.Errorf("the plan ends with %d:\n%s", code, out)
	}
	write("{numBatches: 3, batchPartition: 7}")
	if out, code := w.pawl("plan", "-f", file); code != 2 || !strings.Contains(out, "rollout.yaml:6") {
		t.Errorf("a bad plan ends with %d:\n%s", code, out)
	}
	if !w.gone("db") {
		t.Error("the plan has created the Rollout")
	}
}

// TestExample: the API server takes examples/rollout as it is, and it can be planned without a cluster.
func TestExample(t *testing.T) {
	w := newQuietWorld(t)
	const file = "../../examples/rollout/etcd.yaml"
	run := func(want string, argv ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...) //nolint:gosec // programs of this repository
		cmd.Env = []string{"HOME=" + t.TempDir(), "NO_COLOR=1"}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, expected %q:\n%s", argv, err, want, out)
		}
	}
	run("rollout.pawl.dev/etcd created (server dry run)",
		w.plane.Binaries.Kubectl, "--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace, "apply", "--dry-run=server", "-f", file)
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	run("waits for an approval", filepath.Join(root, "bin", "pawl"), "plan", "-f", file, "--replicas", "5")
}

// TestTimeoutOfVerbs: --timeout ends the wait of a verb with 3.
func TestTimeoutOfVerbs(t *testing.T) {
	w := canary(t, "")
	w.breakImage("r2")
	if out, code := w.pawl("rollout", "approve", "db", "--wait", "--timeout", "3s"); code != 3 {
		t.Errorf("pawl rollout approve ends with %d: %s", code, out)
	}
	w.waitsFor("db", "BatchNotReady")
	for _, args := range [][]string{{"status", "db", "--timeout", "5s"}, {"status", "db", "--wait", "5s"}} {
		if out, code := w.pawl(append([]string{"rollout"}, args...)...); code != 3 || !strings.Contains(out, "BatchNotReady") {
			t.Errorf("pawl rollout %v ends with %d: %s", args, code, out)
		}
	}
}

// TestTemplateOfADeployment: the template of a Deployment is not written, as that would move all its pods
// at once; the answer says what to do.
func TestTemplateOfADeployment(t *testing.T) {
	w := newWorld(t)
	w.deployment("web", "r1", 1)
	w.rollout("web", api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}})
	w.is("web", "Ready", metav1.ConditionTrue)
	for _, args := range [][]string{{"undo", "web", "--to-revision", "1"}, {"restart", "deploy/web"}} {
		if out, code := w.pawl(append([]string{"rollout"}, args...)...); code != 2 || !strings.Contains(out, "from one Deployment to another") {
			t.Errorf("pawl rollout %v ends with %d: %s", args, code, out)
		}
	}
	d := &appsv1.Deployment{}
	if w.get("web", d); d.Generation != 1 {
		t.Errorf("the Deployment has generation %d", d.Generation)
	}
}
