package application_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// life is an Application from its first revision on.
type life struct {
	live  func(w *rollouttest.World) // a crash does not end it
	moved map[string]int             // how often each pod is made; nil: they have no names
}

var lives = map[string]life{
	"change": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", held(1), stateful("db", "r1", 3))
			w.Holds("shop", "shop-v1", 0)
			w.Annotate("shop", "approve", "all")
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			w.Annotate("shop", "approve", "all")
			w.Reaches("shop", "shop-v2")
			w.ExpectPods("db", "0=r2 1=r2 2=r2")
		},
		moved: map[string]int{"db-0": 2, "db-1": 2, "db-2": 2},
	},
	"third in the middle": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			w.Apply("shop", held(1), stateful("db", "r3", 3))
			w.Holds("shop", "shop-v3", 0)
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r3", 3))
			w.Reaches("shop", "shop-v3")
			w.ExpectPods("db", "0=r3 1=r3 2=r3")
		},
		moved: map[string]int{"db-0": 2, "db-1": 2, "db-2": 3},
	},
	"rollback": {
		live: func(w *rollouttest.World) {
			w.Break("broken")
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "broken", 3))
			w.Until("the broken pod is there", func() bool { return w.PodImages("db") == "0=r1 1=r1 2=broken-" })
			w.WaitsFor("shop", "PodsNotReady")
			w.Annotate("shop", "rollback", "by=ann")
			w.Is("shop", rollout.RolledBack, metav1.ConditionTrue)
			w.Until("the Application says so", func() bool {
				a := &api.Application{}
				w.Read("shop", a)
				c := meta.FindStatusCondition(a.Status.Conditions, "RolloutComplete")
				return c.Status == metav1.ConditionFalse && a.Status.ReachedRevision == "shop-v1" && meta.IsStatusConditionTrue(a.Status.Conditions, "Stalled")
			})
			w.ExpectPods("db", "0=r1 1=r1 2=r1")
		},
		moved: map[string]int{"db-0": 1, "db-1": 1, "db-2": 3},
	},
	"size and template": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 2))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", rollouttest.Plan(1), stateful("db", "r2", 4))
			w.Reaches("shop", "shop-v2")
			w.ExpectPods("db", "0=r2 1=r2 2=r2 3=r2")
		},
		moved: map[string]int{"db-0": 2, "db-1": 2, "db-2": 1, "db-3": 1},
	},
	"deployments": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", rollouttest.Plan(1), deployment("r1", 2))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), deployment("r2", 2))
			w.Holds("shop", "shop-v2", 0)
			w.Annotate("shop", "approve", "all")
			w.Reaches("shop", "shop-v2")
			w.Until("the old Deployment is gone", func() bool { return deployments(w) == "web-v2=2" })
			w.Expect("web", "r2=2")
		},
	},
	"the plan is taken out": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", nil, stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			w.Apply("shop", nil, stateful("db", "r2", 3))
			w.Reaches("shop", "shop-v2")
			w.ExpectPods("db", "0=r2 1=r2 2=r2")
			w.Until("the Rollout is gone", func() bool { return w.Gone("shop") })
			set := &appsv1.StatefulSet{}
			w.Read("db", set)
			if set.Labels["pawl.dev/held"] != "" || len(set.OwnerReferences) != 1 {
				w.Errorf("it is left with %v, %+v", set.Labels, set.OwnerReferences)
			}
		},
		moved: map[string]int{"db-0": 2, "db-1": 2, "db-2": 2},
	},
	"deletion": {
		live: func(w *rollouttest.World) {
			w.Apply("shop", nil, stateful("db", "r1", 3))
			w.Reaches("shop", "shop-v1")
			w.Apply("shop", held(1), stateful("db", "r2", 3))
			w.Holds("shop", "shop-v2", 0)
			a := &api.Application{}
			w.Read("shop", a)
			if err := w.Client.Delete(w.Context(), a, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				w.Fatal(err)
			}
			w.Until("everything is gone", func() bool {
				return w.Missing("shop", &api.Application{}) && w.Gone("shop") && w.Missing("db", &appsv1.StatefulSet{}) && w.Missing("shop-v2", &api.ApplicationRevision{})
			})
		},
		moved: map[string]int{"db-0": 1, "db-1": 1, "db-2": 2},
	},
}

// play lets a life pass with a crash. It returns the number of writes, and what came of it: the
// revisions and the history.
func (l life) play(t *testing.T, crash rollouttest.Point) (writes int, story string) {
	t.Helper()
	w := newQuietWorld(t)
	made := w.CountPods()
	survived := w.StartDoomed(crash.At, crash.After)
	l.live(w)
	writes = survived()
	l.check(w, made)
	return writes, told(w)
}

func (l life) check(w *rollouttest.World, made func() map[string]int) {
	w.Helper()
	if got := made(); l.moved != nil && fmt.Sprint(got) != fmt.Sprint(l.moved) {
		w.Errorf("pods were made %v, expected %v", got, l.moved)
	}
}

func told(w *rollouttest.World) string {
	w.Helper()
	var list api.ApplicationRevisionList
	if err := w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace)); err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, r := range list.Items {
		all = append(all, r.Name+" "+r.Spec.Hash)
	}
	slices.Sort(all)
	if !w.Gone("shop") {
		all = append(all, w.History("shop"))
	}
	return strings.Join(all, "\n")
}

// crashSample is how many points of each life `make test` takes.
const crashSample = 1

// TestCrashAtEachWrite: the process with both operators dies before or after a write, and another one
// takes over: the same revisions, the same history, each pod is made as often.
func TestCrashAtEachWrite(t *testing.T) {
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollouttest.CrashAtEachWrite(t, "application "+name, crashSample, l.play)
		})
	}
}

// TestDisturbed: an API server that is away, answers that are lost and watches that lag change neither
// the end nor what is moved.
func TestDisturbed(t *testing.T) {
	for _, what := range rollouttest.Sample(rollouttest.Disturbances, "application", 3) {
		for _, name := range []string{"change", "deployments", "deletion"} {
			t.Run(what+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newQuietWorld(t)
				proxy, config := w.Proxy()
				made := w.CountPods()
				w.Start(config)
				rollouttest.Disturbances[what](w, proxy)
				lives[name].live(w)
				proxy.Intercept(nil)
				lives[name].check(w, made)
			})
		}
	}
}

// TestFrozenLeader: a leader stands still in the middle of a write, for longer than its lease, and
// another process does the work. What the first had sent arrives late, and changes nothing.
func TestFrozenLeader(t *testing.T) {
	for name, writes := range map[string]int{"change": 30, "deployments": 30} {
		points := []int{writes / 2}
		if rollouttest.AllPoints() {
			points = points[:0]
			for at := range writes {
				points = append(points, at+1)
			}
		}
		for _, at := range points {
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				t.Parallel()
				w := newQuietWorld(t)
				made := w.CountPods()
				f := w.StartFrozen(at)
				lives[name].live(w)
				f.Thaw()
				lives[name].check(w, made)
				if n := f.Taken(); n > 0 {
					t.Errorf("%d late writes were taken", n)
				}
			})
		}
	}
}
