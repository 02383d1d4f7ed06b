package application_test

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/application"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// TestWorkloadDeleted: a workload that somebody deletes is made again, and scaled by the plan.
func TestWorkloadDeleted(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	first := &appsv1.StatefulSet{}
	w.Read("db", first)
	if err := w.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.Until("there is another one with all pods", func() bool {
		second := &appsv1.StatefulSet{}
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(first), second)
		return err == nil && second.UID != first.UID && second.Status.ReadyReplicas == 3
	})
	w.Reaches("shop", "shop-v1")
	w.ExpectPods("db", "0=r1 1=r1 2=r1")
}

// TestDrift: what somebody changes of a component that is not rolled is put back, but for the size.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Patch(&appsv1.StatefulSet{}, "db", `{"metadata":{"labels":null,"ownerReferences":null},"spec":{"replicas":2,"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`)
	w.Until("it is put back", func() bool {
		set := &appsv1.StatefulSet{}
		w.Read("db", set)
		return set.Labels["pawl.dev/application"] == "shop" && len(set.OwnerReferences) == 1 && *set.Spec.Replicas == 2 && *set.Spec.Template.Spec.TerminationGracePeriodSeconds == 1
	})
}

// TestGitOpsTool: a tool that applies the manifest all the time disturbs nothing.
func TestGitOpsTool(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", held(1, 1), stateful("db", "r1", 4))
	w.Holds("shop", "shop-v1", 0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	image := make(chan string, 1)
	go func() {
		now := "r1"
		for ctx.Err() == nil {
			select {
			case now = <-image:
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			spec := api.ApplicationSpec{Components: []api.ApplicationComponent{stateful("db", now, 4)}, RolloutPlan: held(1, 1)}
			text := &api.Application{TypeMeta: metav1.TypeMeta{APIVersion: "pawl.dev/v1alpha1", Kind: "Application"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: w.Namespace}, Spec: spec}
			if err := w.Client.Patch(ctx, text, client.Apply, client.FieldOwner("gitops"), client.ForceOwnership); err != nil && ctx.Err() == nil { //nolint:staticcheck // a typed object
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	w.Patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
	w.Reaches("shop", "shop-v1")
	image <- "r2"
	w.Holds("shop", "shop-v2", 0)
	w.ExpectPods("db", "0=r1 1=r1 2=r1 3=r2")
	w.Patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"next"}}}`)
	w.Holds("shop", "shop-v2", 1)
	w.ExpectPods("db", "0=r1 1=r1 2=r2 3=r2")
	w.Patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
	w.Reaches("shop", "shop-v2")
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestComponents: the only one that has changed is rolled; of several the plan needs a name, and the
// others are changed at once.
func TestComponents(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", nil, stateful("db", "r1", 3), deployment("r1", 2))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(1, 1), stateful("db", "r2", 3), deployment("r1", 2))
	w.Holds("shop", "shop-v2", 0)
	w.ExpectPods("db", "0=r1 1=r1 2=r2")
	w.Expect("web", "r1=2")
	w.Apply("shop", rollouttest.Plan(1, 1), stateful("db", "r2", 3), deployment("r1", 2))
	w.Reaches("shop", "shop-v2")

	both := api.ApplicationSpec{Components: []api.ApplicationComponent{stateful("db", "r3", 3), deployment("r3", 2)}, RolloutPlan: held(1, 1)}
	w.ApplySpec("shop", both)
	a := w.NotReadyFor("shop", "ComponentAmbiguous")
	if !meta.IsStatusConditionTrue(a.Status.Conditions, application.RevisionReady) {
		t.Errorf("the conditions are %+v", a.Status.Conditions)
	}
	w.ExpectPods("db", "0=r2 1=r2 2=r2")
	both.RolloutComponent = "db"
	w.ApplySpec("shop", both)
	w.Holds("shop", "shop-v3", 0)
	w.ExpectPods("db", "0=r2 1=r2 2=r3")
	w.Until("the other one is changed at once", func() bool {
		return w.Images("web") == "r3=2" && deployments(w) == "web-v3=2" || deployments(w) == "web-v1=2 web-v3=2"
	})
	both.RolloutPlan = rollouttest.Plan(1, 1)
	w.ApplySpec("shop", both)
	w.Reaches("shop", "shop-v3")
	w.Until("the old Deployment is gone", func() bool { return deployments(w) == "web-v3=2" })
	w.ExpectPods("db", "0=r3 1=r3 2=r3")
}

// TestNoPlan: without a plan everything is changed at once, and what a Rollout has held is let go.
func TestNoPlan(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", nil, stateful("db", "r1", 3), deployment("r1", 2))
	w.Reaches("shop", "shop-v1")
	if !w.Missing("shop", &api.Rollout{}) {
		t.Error("there is a Rollout")
	}
	w.ApplySpec("shop", api.ApplicationSpec{RolloutComponent: "db", RolloutPlan: held(1, 1), Components: []api.ApplicationComponent{stateful("db", "r2", 3), deployment("r2", 2)}})
	w.Holds("shop", "shop-v2", 0)
	w.ExpectPods("db", "0=r1 1=r1 2=r2")
	set := &appsv1.StatefulSet{}
	w.Read("db", set)
	if set.Labels["pawl.dev/held"] == "" {
		t.Errorf("it is not held: %v", set.Labels)
	}

	w.Apply("shop", nil, stateful("db", "r2", 4), deployment("r2", 2)) // the plan is taken out
	w.Reaches("shop", "shop-v3")
	w.ExpectPods("db", "0=r2 1=r2 2=r2 3=r2")
	w.Read("db", set)
	if !w.Missing("shop", &api.Rollout{}) || set.Labels["pawl.dev/held"] != "" || len(set.OwnerReferences) != 1 {
		t.Errorf("after the plan: %v, %+v", set.Labels, set.OwnerReferences)
	}
	w.Until("the old Deployment is deleted", func() bool { return deployments(w) == "web-v2=2" })
}

// TestRevisionsArePruned: the oldest revisions go, but none in use.
func TestRevisionsArePruned(t *testing.T) {
	w := newWorld(t)
	spec := api.ApplicationSpec{RevisionHistoryLimit: new(int32(2))}
	for i, image := range []string{"r1", "r2", "r3", "r4"} {
		spec.Components = []api.ApplicationComponent{stateful("db", image, 1)}
		w.ApplySpec("shop", spec)
		w.Reaches("shop", []string{"shop-v1", "shop-v2", "shop-v3", "shop-v4"}[i])
	}
	w.Until("two revisions are left", func() bool {
		return w.Missing("shop-v1", &api.ApplicationRevision{}) && w.Missing("shop-v2", &api.ApplicationRevision{})
	})
	w.Read("shop-v3", &api.ApplicationRevision{})
	w.Read("shop-v4", &api.ApplicationRevision{})
}

// TestForeignRollout: a Rollout of the Application's name that is not its own is no Rollout of it.
func TestForeignRollout(t *testing.T) {
	w := newWorld(t)
	foreign := &api.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shop"},
		Spec:       api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "other"}},
	}
	if err := w.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 2))
	w.Until("the Application says so", func() bool {
		a := &api.Application{}
		w.Read("shop", a)
		c := meta.FindStatusCondition(a.Status.Conditions, application.Ready)
		return c != nil && c.Reason == "ClaimedByOther"
	})
	if err := w.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.Reaches("shop", "shop-v1")
}
