package application

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

var update = flag.Bool("update", false, "write testdata/health.json anew")

// TestStatusesThatToolsRead: testdata/health.json has the status of each situation, as the operator writes it:
// test/argocd shows it to kstatus and to the health check of Argo CD.
func TestStatusesThatToolsRead(t *testing.T) {
	under := func(change func(*api.RolloutStatus)) reading {
		r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 4}, Spec: api.RolloutSpec{Application: &api.RolloutApplication{Name: "shop", TargetRevision: "shop-v2"}}, Status: api.RolloutStatus{ObservedGeneration: 4, RollingState: string(rollout.InBatch)}}
		change(&r.Status)
		return reading{latest: "shop-v2", reached: "shop-v1", revised: true, finished: true, planned: true, rollout: r}
	}
	stalled := func(s *api.RolloutStatus, reason, message string) {
		s.Conditions = []metav1.Condition{condition.New("Stalled", metav1.ConditionTrue, reason, "%s", message)}
	}
	all := map[string]*api.Application{}
	made := func(generation int64) *api.Application {
		return &api.Application{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Application"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", Generation: generation}}
	}
	done := reading{latest: "shop-v2", reached: "shop-v2", revised: true, finished: true, planned: true}
	for name, s := range map[string]struct {
		generation int64
		reading
	}{
		"before the first observation":  {2, reading{out: outcome.Fail(fault.APIUnavailable.Errorf("connection refused"))}},
		"an Application that cannot be": {2, reading{out: outcome.Fail(rollout.ComponentAmbiguous.Errorf("components db and cache have changed"))}},
		"rolling":                       {2, under(func(*api.RolloutStatus) {})},
		"paused by a person": {2, under(func(s *api.RolloutStatus) {
			s.Pause = &api.RolloutPause{By: "User", Reason: "PausedByUser", Message: "the plan says paused"}
		})},
		"held by the partition": {2, under(func(s *api.RolloutStatus) {
			s.Waiting = &api.RolloutWaiting{Reason: "HeldByPartition", Message: "batch 1 may run when it is approved"}
		})},
		"paused by a deadline": {2, under(func(s *api.RolloutStatus) {
			s.Pause = &api.RolloutPause{By: "Deadline", Reason: "BatchDeadline", Message: "batch 0 is late"}
			stalled(s, "BatchDeadline", "batch 0 is late")
		})},
		"failed": {2, under(func(s *api.RolloutStatus) {
			s.RollingState, s.Failure = string(rollout.Failed), &api.RolloutFailure{Reason: "BatchDeadline", Message: "batch 0 is late"}
			stalled(s, "BatchDeadline", "batch 0 is late")
		})},
		"the revision before has failed": {2, func() reading {
			r := under(func(s *api.RolloutStatus) { stalled(s, "BatchDeadline", "batch 0 is late") })
			r.latest = "shop-v3"
			return r
		}()},
		"reached, pods are not ready":  {2, func() reading { r := done; r.incomplete = "2 of 3 pods of db are ready"; return r }()},
		"done":                         {2, done},
		"a spec that was not seen yet": {3, done},
	} {
		o := made(s.generation)
		o.Status.ObservedGeneration = 2
		condition.Set(&o.Status.Conditions, 2, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), s.conditions()...)
		all[name] = o
	}
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
