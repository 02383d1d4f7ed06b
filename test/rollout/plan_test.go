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
)

const workloadManifest = `apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: %[4]s}]
---
`

const rolloutManifest = `apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: %s}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: %[1]s}
  rolloutPlan: %[2]s
`

// manifests writes a file for plan -f.
func manifests(t *testing.T, text ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(text, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPlanOfAWorkloadManifest: a StatefulSet beside its Rollout counts as applied, with its template and its
// size. The plan writes nothing, and it is what happens when both are applied.
func TestPlanOfAWorkloadManifest(t *testing.T) {
	w := newWorld(t)
	set := w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	r := fmt.Sprintf(rolloutManifest, "db", `{rolloutBatches: [{replicas: 1}, {}], batchPartition: 0, disruption: {quorum: {selector: {matchLabels: {app: db}}, minHealthy: 2}}}`)
	of := func(image string, replicas int) string {
		return strings.Replace(fmt.Sprintf(workloadManifest, "StatefulSet", "db", replicas, image), "spec:\n", "spec:\n  podManagementPolicy: Parallel\n  serviceName: db\n", 1)
	}
	plan := func(code int, text []string, wants ...string) string {
		t.Helper()
		out, got := w.pawl("plan", "-f", manifests(t, text...))
		if got != code {
			t.Errorf("the plan ends with %d, expected %d", got, code)
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("the plan does not say %q:\n%s", want, out)
			}
		}
		return out
	}
	const nothing = "nothing is to be rolled now"
	text := plan(0, []string{of("r2", 5), r}, "StatefulSet db, 5 pods", "0      1     1       db-4 ", "1      4     5       db-3 db-2", "StatefulSet db goes from 3 to 5 pods by its own controller", "StatefulSet db is not held yet")
	if strings.Contains(text, nothing) {
		t.Error("the new template in the file is not seen")
	}
	text = plan(0, []string{r, "---\n", of("r1", 4)}, nothing, "StatefulSet db, 4 pods", "goes from 3 to 4 pods")
	if strings.Contains(text, "not held") {
		t.Error("only the size changes")
	}
	plan(0, []string{of("r1", 3), r}, nothing, "StatefulSet db, 3 pods")
	plan(2, []string{of("r2", 2), r}, "BUDGET_IMPOSSIBLE", "plan.yaml:20:143:", "2 of 2 members")
	plan(2, []string{of(`""`, 3), r}, "plan.yaml:13:40:", "API_REFUSED", "spec.template.spec.containers[0].image")
	plan(2, []string{of("r2", -1), r}, "plan.yaml:7:13:", "spec.replicas: -1 is no number of pods")
	plan(0, []string{strings.ReplaceAll(of("r1", 4), "db", "new"), strings.ReplaceAll(r, "db", "new")}, "StatefulSet new, 4 pods", "0      1     1       new-3 ")
	generation := set.Generation
	if w.get("db", set); set.Generation != generation || !w.gone("db") {
		t.Error("the plan has written something")
	}

	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	file := manifests(t, of("r2", 5), r)
	if out, _ := w.pawl("plan", "-f", file); strings.Contains(out, "not held") || !strings.Contains(out, "db-4 ") {
		t.Errorf("the plan of a parked workload:\n%s", out)
	}
	cmd := exec.CommandContext(t.Context(), w.plane.Binaries.Kubectl, "--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace, "apply", "-f", file) //nolint:gosec // a program of this repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.is("db", "Paused", metav1.ConditionTrue)
	w.expectImages("db", "0=r1 1=r1 2=r1 3=r1 4=r2")
}

// TestPlanOfADeploymentManifest: the target of a rollout of Deployments is made by the same file, and the
// pods that move are those of its source.
func TestPlanOfADeploymentManifest(t *testing.T) {
	w := newWorld(t)
	w.deployment("web-v1", "r1", 3)
	w.deployment("other", "r1", 1)
	r := func(target string) string {
		return strings.Replace(strings.Replace(fmt.Sprintf(rolloutManifest, "web", "{numBatches: 3}"), "StatefulSet, name: web", "Deployment, name: "+target, 1),
			"  rolloutPlan", "  sourceRef: {apiVersion: apps/v1, kind: Deployment, name: web-v1}\n  rolloutPlan", 1)
	}
	out, code := w.pawl("plan", "-f", manifests(t, fmt.Sprintf(workloadManifest, "Deployment", "web-v2", 0, "r2"), r("web-v2")))
	if code != 0 || !strings.Contains(out, "web-v1 0, web-v2 3") || strings.Contains(out, "warning") {
		t.Errorf("the plan ends with %d:\n%s", code, out)
	}
	out, code = w.pawl("plan", "-f", manifests(t, fmt.Sprintf(workloadManifest, "Deployment", "other", 1, "r2"), r("other")))
	if code != 0 || !strings.Contains(out, "the template of Deployment other changes, and its own controller replaces its 1 pods") {
		t.Errorf("the plan of another template of the target ends with %d:\n%s", code, out)
	}
}
