package rollout

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/rollout"
)

// TestStatusesThatToolsRead: testdata/health.json has the status of each situation, as the operator writes it:
// test/argocd shows it to kstatus and to the health check of Argo CD.
func TestStatusesThatToolsRead(t *testing.T) {
	all := map[string]*api.Rollout{}
	made := func(generation int64) *api.Rollout {
		return &api.Rollout{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: Kind}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: generation}}
	}
	add := func(name string, generation int64, r reading) {
		o := made(generation)
		o.Status.ObservedGeneration, o.Status.RollingState = 2, string(r.at.State)
		condition.Set(&o.Status.Conditions, 2, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), r.conditions()...)
		all[name] = o
	}
	for _, s := range situations() {
		add(s.name, 2, s.reading)
	}
	done := reading{at: rollout.Position{State: rollout.Succeeded, Mode: rollout.Rollout, TargetRevision: "db-2"}, observed: true}
	add("a spec that was not seen yet", 3, done)
	all["just made"] = made(1)
	all["just made"].Status.ObservedGeneration = -1 // the default of the CRD
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/health.json"
	if *update {
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text)+"\n" {
		t.Errorf("the statuses are not those of %s (-update writes it):\n%s", file, text)
	}
}
