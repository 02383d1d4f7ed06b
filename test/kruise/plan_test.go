package kruise_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/rollouttest"
)

const planned = `apiVersion: %s
kind: %s
metadata: {name: db}
spec:
  replicas: %d
  %s
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: %s}]
---
apiVersion: pawl.dev/v1alpha1
kind: Rollout
metadata: {name: db}
spec:
  targetRef: {apiVersion: %s, kind: %[2]s, name: db}
  rolloutPlan: {rolloutBatches: [{replicas: 1}, {}]}
`

// TestPlanOfAWorkloadManifest: a workload beside its Rollout counts as applied, also in another version of
// its kind.
func TestPlanOfAWorkloadManifest(t *testing.T) {
	for name, of := range map[string]struct{ kind, version, target, more, want string }{
		"CloneSet":        {"CloneSet", "apps.kruise.io/v1alpha1", "apps.kruise.io/v1alpha1", "minReadySeconds: 0", "1      3     4       3 of its choice"},
		"another version": {"AdvancedStatefulSet", "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1", "serviceName: db", "0      1     1       db-3 "},
		"set":             {"AdvancedStatefulSet", "apps.kruise.io/v1beta1", "apps.kruise.io/v1beta1", "serviceName: db", "0      1     1       db-3 "},
		"reserved":        {"AdvancedStatefulSet", "apps.kruise.io/v1beta1", "apps.kruise.io/v1beta1", "reserveOrdinals: [3]\n  serviceName: db", "0      1     1       db-4 "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Workload(of.kind, "db", 3, nil)
			plan := func(image string, replicas int) string {
				t.Helper()
				file := filepath.Join(t.TempDir(), "plan.yaml")
				text := fmt.Sprintf(planned, of.version, rollouttest.Object(of.kind).GetKind(), replicas, of.more, image, of.target)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return w.ExpectPawl(0, fmt.Sprintf("db, %d pods", replicas), "plan", "-f", file)
			}
			const nothing = "nothing is to be rolled now"
			if out := plan("r2", 4); strings.Contains(out, nothing) || !strings.Contains(out, of.want) || !strings.Contains(out, "from 3 to 4 pods") {
				t.Errorf("another template and size, without %q:\n%s", of.want, out)
			}
			if out := plan("r1", 4); !strings.Contains(out, nothing) {
				t.Errorf("another size:\n%s", out)
			}
			if set := w.Get(of.kind, "db"); set.GetGeneration() != 1 || !w.Gone("db") {
				t.Errorf("the plan has written something: generation %d", set.GetGeneration())
			}
		})
	}
}
