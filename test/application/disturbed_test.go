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
)

// TestWorkloadDeleted: a workload that somebody deletes is made again, and scaled by the plan.
func TestWorkloadDeleted(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", batches(1), stateful("db", "r1", 3))
	w.reaches("shop", "shop-v1")
	first := &appsv1.StatefulSet{}
	w.get("db", first)
	if err := w.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.until("there is another one with all pods", func() bool {
		second := &appsv1.StatefulSet{}
		err := w.client.Get(t.Context(), client.ObjectKeyFromObject(first), second)
		return err == nil && second.UID != first.UID && second.Status.ReadyReplicas == 3
	})
	w.reaches("shop", "shop-v1")
	w.expectImages("db", "0=r1 1=r1 2=r1")
}

// TestDrift: what somebody changes of a component that is not rolled is put back, but for the size.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", batches(1), stateful("db", "r1", 3))
	w.reaches("shop", "shop-v1")
	w.patch(&appsv1.StatefulSet{}, "db", `{"metadata":{"labels":null,"ownerReferences":null},"spec":{"replicas":2,"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`)
	w.until("it is put back", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("db", set)
		return set.Labels["pawl.dev/application"] == "shop" && len(set.OwnerReferences) == 1 && *set.Spec.Replicas == 2 && *set.Spec.Template.Spec.TerminationGracePeriodSeconds == 1
	})
}

// TestGitOpsTool: a tool that applies the manifest all the time disturbs nothing.
func TestGitOpsTool(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", held(1, 1), stateful("db", "r1", 4))
	w.holds("shop", "shop-v1", 0)
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
			text := &api.Application{TypeMeta: metav1.TypeMeta{APIVersion: "pawl.dev/v1alpha1", Kind: "Application"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: w.namespace}, Spec: spec}
			if err := w.client.Patch(ctx, text, client.Apply, client.FieldOwner("gitops"), client.ForceOwnership); err != nil && ctx.Err() == nil { //nolint:staticcheck // a typed object
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	w.patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
	w.reaches("shop", "shop-v1")
	image <- "r2"
	w.holds("shop", "shop-v2", 0)
	w.expectImages("db", "0=r1 1=r1 2=r1 3=r2")
	w.patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"next"}}}`)
	w.holds("shop", "shop-v2", 1)
	w.expectImages("db", "0=r1 1=r1 2=r2 3=r2")
	w.patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
	w.reaches("shop", "shop-v2")
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestComponents: the only one that has changed is rolled; of several the plan needs a name, and the
// others are changed at once.
func TestComponents(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", nil, stateful("db", "r1", 3), deployment("r1", 2))
	w.reaches("shop", "shop-v1")
	w.apply("shop", held(1, 1), stateful("db", "r2", 3), deployment("r1", 2))
	w.holds("shop", "shop-v2", 0)
	w.expectImages("db", "0=r1 1=r1 2=r2")
	w.expectImages("web", "r1 r1")
	w.apply("shop", batches(1, 1), stateful("db", "r2", 3), deployment("r1", 2))
	w.reaches("shop", "shop-v2")

	both := api.ApplicationSpec{Components: []api.ApplicationComponent{stateful("db", "r3", 3), deployment("r3", 2)}, RolloutPlan: held(1, 1)}
	w.applySpec("shop", both)
	a := w.is("shop", application.RolloutComplete, metav1.ConditionFalse)
	if c := meta.FindStatusCondition(a.Status.Conditions, application.Ready); c.Reason != "ComponentAmbiguous" || !meta.IsStatusConditionTrue(a.Status.Conditions, application.RevisionReady) {
		t.Errorf("the conditions are %+v", a.Status.Conditions)
	}
	w.expectImages("db", "0=r2 1=r2 2=r2")
	both.RolloutComponent = "db"
	w.applySpec("shop", both)
	w.holds("shop", "shop-v3", 0)
	w.expectImages("db", "0=r2 1=r2 2=r3")
	w.until("the other one is changed at once", func() bool {
		return w.images("web") == "r3 r3" && w.deployments() == "web-v3=2" || w.deployments() == "web-v1=2 web-v3=2"
	})
	both.RolloutPlan = batches(1, 1)
	w.applySpec("shop", both)
	w.reaches("shop", "shop-v3")
	w.until("the old Deployment is gone", func() bool { return w.deployments() == "web-v3=2" })
	w.expectImages("db", "0=r3 1=r3 2=r3")
}

// TestNoPlan: without a plan everything is changed at once, and what a Rollout has held is let go.
func TestNoPlan(t *testing.T) {
	w := newWorld(t)
	w.apply("shop", nil, stateful("db", "r1", 3), deployment("r1", 2))
	w.reaches("shop", "shop-v1")
	if !w.gone("shop", &api.Rollout{}) {
		t.Error("there is a Rollout")
	}
	w.applySpec("shop", api.ApplicationSpec{RolloutComponent: "db", RolloutPlan: held(1, 1), Components: []api.ApplicationComponent{stateful("db", "r2", 3), deployment("r2", 2)}})
	w.holds("shop", "shop-v2", 0)
	w.expectImages("db", "0=r1 1=r1 2=r2")
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if set.Labels["pawl.dev/held"] == "" {
		t.Errorf("it is not held: %v", set.Labels)
	}

	w.apply("shop", nil, stateful("db", "r2", 4), deployment("r2", 2)) // the plan is taken out
	w.reaches("shop", "shop-v3")
	w.expectImages("db", "0=r2 1=r2 2=r2 3=r2")
	w.get("db", set)
	if !w.gone("shop", &api.Rollout{}) || set.Labels["pawl.dev/held"] != "" || len(set.OwnerReferences) != 1 {
		t.Errorf("after the plan: %v, %+v", set.Labels, set.OwnerReferences)
	}
	w.until("the old Deployment is deleted", func() bool { return w.deployments() == "web-v2=2" })
}

// TestRevisionsArePruned: the oldest revisions go, but none in use.
func TestRevisionsArePruned(t *testing.T) {
	w := newWorld(t)
	spec := api.ApplicationSpec{RevisionHistoryLimit: new(int32(2))}
	for i, image := range []string{"r1", "r2", "r3", "r4"} {
		spec.Components = []api.ApplicationComponent{stateful("db", image, 1)}
		w.applySpec("shop", spec)
		w.reaches("shop", []string{"shop-v1", "shop-v2", "shop-v3", "shop-v4"}[i])
	}
	w.until("two revisions are left", func() bool {
		return w.gone("shop-v1", &api.ApplicationRevision{}) && w.gone("shop-v2", &api.ApplicationRevision{})
	})
	w.get("shop-v3", &api.ApplicationRevision{})
	w.get("shop-v4", &api.ApplicationRevision{})
}

// TestForeignRollout: a Rollout of the Application's name that is not its own is no Rollout of it.
func TestForeignRollout(t *testing.T) {
	w := newWorld(t)
	foreign := &api.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop"},
		Spec:       api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "other"}},
	}
	if err := w.client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.apply("shop", batches(1), stateful("db", "r1", 2))
	w.until("the Application says so", func() bool {
		a := &api.Application{}
		w.get("shop", a)
		c := meta.FindStatusCondition(a.Status.Conditions, application.Ready)
		return c != nil && c.Reason == "ClaimedByOther"
	})
	if err := w.client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.reaches("shop", "shop-v1")
}
