package application_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/operator/application"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// TestInstallAndChange: the first revision scales from nothing in batches, the second one is rolled out
// in batches.
func TestInstallAndChange(t *testing.T) {
	w := newWorld(t)
	plan := rollouttest.Plan(1, 1)
	plan.BatchPartition = new(int32(0))
	w.Apply("shop", plan, stateful("db", "r1", 4))
	r := w.Holds("shop", "shop-v1", 0)
	if r.Status.Mode != "Scale" || r.Spec.Application.SourceRevision != "" || *r.Spec.RolloutPlan.TargetSize != 4 {
		t.Errorf("the Rollout is %+v, %s", r.Spec, r.Status.Mode)
	}
	w.ExpectPods("db", "0=r1")
	a := w.NotReadyFor("shop", "HeldByPartition")
	if meta.IsStatusConditionTrue(a.Status.Conditions, application.RolloutComplete) || len(a.Status.Conditions) != len(application.ConditionTypes) {
		t.Errorf("the conditions are %+v", a.Status.Conditions)
	}
	if !meta.IsStatusConditionTrue(a.Status.Conditions, application.RevisionReady) || a.Status.ReachedRevision != "" {
		t.Errorf("the status is %+v", a.Status)
	}
	w.Patch(a, "shop", `{"spec":{"rolloutPlan":{"batchPartition":null}}}`)
	w.Reaches("shop", "shop-v1")
	w.ExpectPods("db", "0=r1 1=r1 2=r1 3=r1")

	w.Apply("shop", plan, stateful("db", "r2", 4))
	r = w.Holds("shop", "shop-v2", 0)
	if r.Status.Mode != "Rollout" || r.Spec.Application.SourceRevision != "shop-v1" || r.Spec.RolloutPlan.TargetSize != nil {
		t.Errorf("the Rollout is %+v, %s", r.Spec, r.Status.Mode)
	}
	w.ExpectPods("db", "0=r1 1=r1 2=r1 3=r2")
	w.Patch(r, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"next"}}}`)
	w.Holds("shop", "shop-v2", 1)
	w.ExpectPods("db", "0=r1 1=r1 2=r2 3=r2")
	w.Patch(a, "shop", `{"spec":{"rolloutPlan":{"batchPartition":2}}}`)
	w.Reaches("shop", "shop-v2")
	w.ExpectPods("db", "0=r2 1=r2 2=r2 3=r2")
	set := &appsv1.StatefulSet{}
	w.Read("db", set)
	if len(set.OwnerReferences) != 1 || set.OwnerReferences[0].Kind != "Application" || set.OwnerReferences[0].Controller != nil || set.Labels["pawl.dev/held"] != "" {
		t.Errorf("after the end: %+v, %v", set.OwnerReferences, set.Labels)
	}
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil && *u.Partition != 0 {
		t.Errorf("after the end the partition is %d", *u.Partition)
	}
}
