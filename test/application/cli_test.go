package application_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// TestCommandLine: an Application, as somebody sees and steers it with pawl.
func TestCommandLine(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", held(1), stateful("db", "r1", 3))
	w.Holds("shop", "shop-v1", 0)
	w.ExpectPawl(4, "HeldByPartition", "watch", "application", "shop")
	w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "shop", "--batch", "all", "--wait", "1m")
	w.Reaches("shop", "shop-v1")
	w.ExpectPawl(0, "shop-v1", "watch", "papp", "shop")

	w.Apply("shop", held(1), stateful("db", "r2", 3))
	w.Holds("shop", "shop-v2", 0)
	w.ApplicationIs("shop", "Ready", metav1.ConditionFalse)
	out := w.ExpectPawl(0, "Application  "+w.Namespace+"/shop", "describe", "application", "shop")
	for _, want := range []string{"Reached      shop-v1", "RolloutComplete  False   HeldByPartition", "db         StatefulSet db  3     3", "shop-v1   ", "newest", "reached", "Rollout\n  Rollout"} {
		if !strings.Contains(out, want) {
			t.Errorf("describe does not say %q:\n%s", want, out)
		}
	}
	w.ExpectPawl(0, `"latestRevision": "shop-v2"`, "describe", "application", "shop", "-o", "json")
	w.ExpectPawl(0, "HeldByPartition", "get", "application", "shop")
	if out := w.ExpectPawl(0, "AppLocated", "history", "application", "shop"); !strings.Contains(out, "shop-v2") {
		t.Errorf("history prints\n%s", out)
	}
	w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "sts/db", "--batch", "all", "--wait", "1m")
	w.Reaches("shop", "shop-v2")

	// What another template, and another size, would do; nothing is written.
	planned := func(replicas int, image string, want ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "shop.json")
		a := &api.Application{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Application"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		a.Spec.RolloutPlan, a.Spec.Components = held(1), []api.ApplicationComponent{stateful("db", image, replicas)}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out := w.ExpectPawl(0, "StatefulSet db, 3 pods", "plan", "-f", file)
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("plan -f does not say %q:\n%s", line, out)
			}
		}
	}
	planned(3, "r9", "db-2", "db-1 ", "db-0 ", "batchPartition 0")
	planned(5, "r2", "db-3", "db-4")

	// Afterwards: back to the revision before, to one by its number, and all pods anew.
	w.ExpectPawl(0, "has the component of revision shop-v1", "rollout", "undo", "shop")
	w.Holds("shop", "shop-v3", 0)
	w.ExpectPods("db", "0=r2 1=r2 2=r1")
	w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "shop", "--batch", "all", "--wait", "1m")
	w.Reaches("shop", "shop-v3")
	w.ExpectPawl(1, "TARGET_REVISION_MISSING", "rollout", "undo", "shop", "--to-revision", "9")
	w.ExpectPawl(0, "has the component of revision shop-v2", "rollout", "undo", "shop", "--to-revision", "2")
	w.Holds("shop", "shop-v4", 0)
	w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "shop", "--batch", "all", "--wait", "1m")
	w.Reaches("shop", "shop-v4")
	w.ExpectPods("db", "0=r2 1=r2 2=r2")
	before := w.UIDs("db")
	w.ExpectPawl(0, "restarted: its Rollout changes the pods in batches", "rollout", "restart", "sts/db")
	w.Holds("shop", "shop-v5", 0)
	w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "shop", "--batch", "all", "--wait", "1m")
	w.Reaches("shop", "shop-v5")
	for _, uid := range w.UIDs("db") {
		for _, was := range before {
			if uid == was {
				t.Errorf("pod %s was not made anew", uid)
			}
		}
	}
	set := &appsv1.StatefulSet{}
	w.Read("db", set)
	a := &api.Application{}
	w.Read("shop", a)
	if set.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || !strings.Contains(string(a.Spec.Components[0].Workload.Spec.Raw), "restartedAt") {
		t.Errorf("the templates are %v and %s", set.Spec.Template.Annotations, a.Spec.Components[0].Workload.Spec.Raw)
	}
}
