package application_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// stages are moments in the life of an Application, and what the pods are at its end.
var stages = map[string]struct {
	reach func(w *rollouttest.World)
	goOn  func(w *rollouttest.World)
	end   string
}{
	"installed": {
		reach: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
		},
		goOn: func(*rollouttest.World) {},
		end:  "0=r1 1=r1 2=r1",
	},
	"first batch of the installation": {
		reach: func(w *rollouttest.World) {
			w.Apply("shop", held(1), stateful("db", "r1", 3))
			w.Holds("shop", "shop-v1", 0)
		},
		goOn: func(w *rollouttest.World) { w.Annotate("shop", "approve", "all") },
		end:  "0=r1 1=r1 2=r1",
	},
	"first batch of a change": {
		reach: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
		},
		goOn: func(w *rollouttest.World) { w.Annotate("shop", "approve", "all") },
		end:  "0=r2 1=r2 2=r2",
	},
	"a broken pod": {
		reach: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Break("r2")
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r2", 3))
			w.Until("the broken pod is there", func() bool { return w.PodImages("db") == "0=r1 1=r1 2=r2-" })
			w.WaitsFor("shop", "PodsNotReady")
		},
		goOn: func(w *rollouttest.World) {
			w.Mend("r2")
			if err := w.Client.Delete(w.Context(), w.Pods("db")[2].DeepCopy()); err != nil {
				w.Fatal(err)
			}
		},
		end: "0=r2 1=r2 2=r2",
	},
	"paused": {
		reach: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			plan := rollouttest.Plan(1)
			plan.Paused = true
			w.Apply("shop", plan, stateful("db", "r2", 3))
			w.WaitsFor("shop", "PausedByUser")
		},
		goOn: func(w *rollouttest.World) { w.Apply("shop", rollouttest.Plan(1), stateful("db", "r2", 3)) },
		end:  "0=r2 1=r2 2=r2",
	},
}

// TestAPIServerAway: the API server is away for a minute at each stage; the Application goes on where it
// was.
func TestAPIServerAway(t *testing.T) {
	for _, name := range rollouttest.Sample(stages, "application outage", 3) {
		s := stages[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newQuietWorld(t)
			proxy, config := w.Proxy()
			c := &rollouttest.Clock{}
			w.Options.Now = c.Now
			w.Witness.Grace = time.Minute // the operator sees late what has fallen
			w.Start(config)
			s.reach(w)
			back := w.CutOff(proxy, "applications")
			c.Forward(time.Minute)
			back()
			s.goOn(w)
			w.Until("the pods are "+s.end, func() bool { return w.PodImages("db") == s.end })
			a := &api.Application{}
			w.Read("shop", a)
			w.Reaches("shop", a.Status.LatestRevision)
		})
	}
}

// TestDeleteAtEachStage: whatever way an Application is deleted, and whenever: what it owned is gone, or,
// orphaned, stays with each of its pods and is left without owners.
func TestDeleteAtEachStage(t *testing.T) {
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	for i, name := range rollouttest.Sample(stages, "application deletion", 3) {
		for j, policy := range policies {
			if !rollouttest.AllPoints() && i != j {
				continue
			}
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				w := newWorld(t)
				stages[name].reach(w)
				before := w.UIDs("db")
				w.DeleteApplication("shop", "StatefulSet", "db", policy)
				if policy != metav1.DeletePropagationOrphan {
					return
				}
				w.Until("the references are gone", func() bool {
					set := &appsv1.StatefulSet{}
					w.Read("db", set)
					for _, o := range set.OwnerReferences {
						if o.Kind == "Application" {
							return false
						}
					}
					return true
				})
				if after := w.UIDs("db"); len(after) != len(before) || after[0] != before[0] {
					t.Errorf("the pods were %v and are %v", before, after)
				}
			})
		}
	}
}

// TestRolloutDeleted: whatever way somebody deletes the Rollout in the middle, workload and pods stay, and
// the Application makes another Rollout, which goes on.
func TestRolloutDeleted(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t)
			stages["first batch of a change"].reach(w)
			before, was, set := w.UIDs("db"), w.Now("shop"), &appsv1.StatefulSet{}
			w.Read("db", set)
			if err := w.Client.Delete(t.Context(), was, client.PropagationPolicy(policy)); err != nil {
				t.Fatal(err)
			}
			w.Until("there is another Rollout", func() bool {
				r := &api.Rollout{}
				return w.Client.Get(t.Context(), client.ObjectKeyFromObject(was), r) == nil && r.UID != was.UID
			})
			w.Holds("shop", "shop-v2", 0)
			is := &appsv1.StatefulSet{}
			w.Read("db", is)
			kept := 0
			for _, uid := range w.UIDs("db") {
				for _, other := range before {
					if uid == other {
						kept++
					}
				}
			}
			if is.UID != set.UID || kept != 3 {
				t.Errorf("%d of the pods are those of before; the set was %s and is %s", kept, set.UID, is.UID)
			}
			w.Annotate("shop", "approve", "all")
			w.Reaches("shop", "shop-v2")
			w.ExpectPods("db", "0=r2 1=r2 2=r2")
		})
	}
}
