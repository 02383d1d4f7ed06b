package kruise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// kinds are those of the components of OpenKruise.
var kinds = []string{"CloneSet", "AdvancedStatefulSet"}

// newApplications is a namespace with the operators of Applications and Rollouts.
func newApplications(t *testing.T) *rollouttest.World {
	t.Helper()
	open(t)
	t.Parallel()
	w := rollouttest.New(t, plane)
	w.Applications = true
	w.Start(w.Config)
	return w
}

// heldAfter is a plan that holds after the first batch, of one pod.
func heldAfter() *api.RolloutPlan {
	p := rollouttest.Plan(1)
	p.BatchPartition = new(int32(0))
	return p
}

// TestApplication: the first revision of a component is scaled from nothing in batches, the second one
// is rolled out in batches, a third one in the middle goes on from what is there, the earlier content
// takes the pods back; size and template together are a rollout and a scale.
func TestApplication(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newApplications(t)
			part := func(image string, replicas int) api.ApplicationComponent {
				return rollouttest.Component(kind, "db", image, replicas)
			}
			w.Apply("shop", heldAfter(), part("r1", 3))
			if r := w.Holds("shop", "shop-v1", 0); r.Status.Mode != "Scale" {
				t.Errorf("the Rollout is %+v", r.Status)
			}
			w.Expect("db", "r1=1")
			w.Annotate("shop", "approve", "all")
			w.Reaches("shop", "shop-v1")
			w.Expect("db", "r1=3")

			// A CloneSet replaces the pod first that became ready last, by the second: of pods that came
			// in one second it may take any.
			w.Until("the second has passed in which the last pod came", func() bool { return time.Since(w.LastReady("db")) > time.Second })
			w.Apply("shop", heldAfter(), part("r2", 3))
			if r := w.Holds("shop", "shop-v2", 0); r.Status.Mode != "Rollout" {
				t.Errorf("the Rollout is %+v", r.Status)
			}
			w.Expect("db", "r1=2 r2=1")
			w.Apply("shop", heldAfter(), part("r3", 3))
			w.Holds("shop", "shop-v3", 0)
			w.Until("the third template has replaced the second", func() bool { return w.Images("db") == "r1=2 r3=1" })
			w.Apply("shop", heldAfter(), part("r1", 3)) // what the pods had
			w.Reaches("shop", "shop-v4")
			w.Expect("db", "r1=3")

			w.Apply("shop", rollouttest.Plan(1), part("r5", 5))
			a := w.Reaches("shop", "shop-v5")
			w.Expect("db", "r5=5")
			if a.Status.ReachedReplicas["db"] != 5 {
				t.Errorf("the status is %+v", a.Status)
			}
			set := w.Get(kind, "db")
			if owners := set.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Application" || set.GetLabels()["pawl.dev/held"] != "" ||
				strategy(w, kind, "db", "paused") == true {
				t.Errorf("after the end: %+v\n%s", owners, w.Dump())
			}
		})
	}
}

// TestApplicationGoesBack: a broken version goes back by itself, and the next one is rolled out.
func TestApplicationGoesBack(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newApplications(t)
			w.Break("broken")
			plan := rollouttest.Plan(1)
			plan.BatchDeadline, plan.OnFailure = new(api.RolloutDeadline("3s")), "rollback"
			w.Apply("shop", rollouttest.Plan(1), rollouttest.Component(kind, "db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			before := w.UIDs("db")
			w.Apply("shop", plan, rollouttest.Component(kind, "db", "broken", 3))
			w.Is("shop", rollout.RolledBack, metav1.ConditionTrue)
			w.Until("the Application says so", func() bool {
				a := &api.Application{}
				w.Read("shop", a)
				c := meta.FindStatusCondition(a.Status.Conditions, "RolloutComplete")
				return c.Status == metav1.ConditionFalse && c.Reason == "BatchDeadline" && a.Status.ReachedRevision == "shop-v1"
			})
			w.Expect("db", "r1=3")
			kept := slices.DeleteFunc(w.UIDs("db"), func(uid string) bool { return !slices.Contains(before, uid) })
			if len(kept) != 2 {
				t.Errorf("%d of 3 pods are those of before, expected 2", len(kept))
			}
			w.Apply("shop", rollouttest.Plan(1), rollouttest.Component(kind, "db", "r3", 3))
			w.Reaches("shop", "shop-v3")
			w.Expect("db", "r3=3")
		})
	}
}

// TestApplicationWithoutPlan: without a plan the pods change at once, and what was held is let go.
func TestApplicationWithoutPlan(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newApplications(t)
			w.Apply("shop", nil, rollouttest.Component(kind, "db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", heldAfter(), rollouttest.Component(kind, "db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			w.Expect("db", "r1=2 r2=1")
			w.Apply("shop", nil, rollouttest.Component(kind, "db", "r2", 4))
			w.Reaches("shop", "shop-v3")
			w.Expect("db", "r2=4")
			set := w.Get(kind, "db")
			if !w.Gone("shop") || set.GetLabels()["pawl.dev/held"] != "" || strategy(w, kind, "db", "paused") == true || len(set.GetOwnerReferences()) != 1 {
				t.Errorf("it is left so:\n%s", w.Dump())
			}
		})
	}
}

// TestApplicationDelete: what an Application owns goes with it in the middle of a rollout, unless it is
// orphaned: then workload and pods stay.
func TestApplicationDelete(t *testing.T) {
	for _, kind := range kinds {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
			t.Run(fmt.Sprint(kind, " ", policy), func(t *testing.T) {
				w := newApplications(t)
				w.Apply("shop", rollouttest.Plan(), rollouttest.Component(kind, "db", "r1", 3))
				w.Reaches("shop", "shop-v1")
				w.Apply("shop", heldAfter(), rollouttest.Component(kind, "db", "r2", 3))
				w.Holds("shop", "shop-v2", 0)
				before := w.UIDs("db")
				w.DeleteApplication("shop", kind, "db", policy)
				if policy != metav1.DeletePropagationOrphan {
					return
				}
				if after := w.UIDs("db"); !slices.Equal(before, after) {
					t.Errorf("the pods were %v and are %v", before, after)
				}
				w.Annotate("shop", "approve", "all") // the Rollout goes on by itself
				w.Until("the Rollout has ended", func() bool { return w.Now("shop").Status.RollingState == "rolloutSucceed" })
				w.Expect("db", "r2=3")
			})
		}
	}
}

// TestApplicationCrashAtEachWrite: the process with both operators dies before or after a write of the
// life of an Application with a CloneSet, and another one takes over.
func TestApplicationCrashAtEachWrite(t *testing.T) {
	open(t)
	t.Parallel()
	rollouttest.CrashAtEachWrite(t, "application of a CloneSet", 3, func(t *testing.T, crash rollouttest.Point) (int, string) {
		w := rollouttest.New(t, plane)
		w.Applications = true
		made := w.CountPods()
		survived := w.StartDoomed(crash.At, crash.After)
		w.Apply("shop", heldAfter(), rollouttest.Component("CloneSet", "db", "r1", 3))
		w.Holds("shop", "shop-v1", 0)
		w.Annotate("shop", "approve", "all")
		w.Reaches("shop", "shop-v1")
		w.Apply("shop", heldAfter(), rollouttest.Component("CloneSet", "db", "r2", 3))
		w.Holds("shop", "shop-v2", 0)
		w.Annotate("shop", "approve", "all")
		w.Reaches("shop", "shop-v2")
		writes := survived()
		w.Expect("db", "r2=3")
		if n := len(made()); n != 6 { // pods of a CloneSet have names of their own
			t.Errorf("%d pods were made, expected 6", n)
		}
		return writes, strings.TrimSpace(w.History("shop"))
	})
}
