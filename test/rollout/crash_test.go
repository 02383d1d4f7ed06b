package rollout_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// life is a rollout from its beginning to its end.
type life struct {
	begin func(w *world) // before the operator starts
	live  func(w *world) // while it works; a crash does not end it
	moved map[string]int // how often each pod is made; nil: it depends on time
	check func(w *world) // at the end
}

var lives = map[string]life{
	"rollout": {
		begin: func(w *world) {
			w.statefulSet("db", 3, appsv1.ParallelPodManagement)
			w.hooked("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
		},
		live: func(w *world) {
			w.is("db", "Ready", metav1.ConditionTrue)
			w.setImage("db", "r2")
			w.is("db", rollout.Paused, metav1.ConditionTrue)
			w.annotate("db", "approve", "all; by=ann")
			w.is("db", rollout.Succeeded, metav1.ConditionTrue)
		},
		moved: map[string]int{"db-0": 2, "db-1": 2, "db-2": 2},
		check: func(w *world) { w.expectImages("db", "0=r2 1=r2 2=r2") },
	},
	"rollback": {
		begin: func(w *world) {
			w.statefulSet("db", 3, appsv1.OrderedReadyPodManagement)
			w.hooked("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1)}})
			w.breakImage("broken")
		},
		live: func(w *world) {
			w.is("db", "Ready", metav1.ConditionTrue)
			w.setImage("db", "broken")
			w.until("the broken pod is there", func() bool { return w.images("db") == "0=r1 1=r1 2=broken-" })
			w.waitsFor("db", "PodsNotReady")
			w.annotate("db", "rollback", "by=ann")
			w.is("db", rollout.RolledBack, metav1.ConditionTrue)
		},
		moved: map[string]int{"db-0": 1, "db-1": 1, "db-2": 3},
		check: func(w *world) { w.expectImages("db", "0=r1 1=r1 2=r1") },
	},
	"scale up": {
		begin: func(w *world) {
			w.statefulSet("db", 2, appsv1.ParallelPodManagement)
			w.hooked("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(4)), RolloutBatches: batches(1)}})
		},
		live:  func(w *world) { w.is("db", rollout.Succeeded, metav1.ConditionTrue) },
		moved: map[string]int{"db-0": 1, "db-1": 1, "db-2": 1, "db-3": 1},
		check: func(w *world) { w.expectImages("db", "0=r1 1=r1 2=r1 3=r1") },
	},
	"scale down": {
		begin: func(w *world) {
			w.statefulSet("db", 4, appsv1.ParallelPodManagement)
			w.hooked("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(1)), RolloutBatches: batches(1)}})
		},
		live:  func(w *world) { w.is("db", rollout.Succeeded, metav1.ConditionTrue) },
		moved: map[string]int{"db-0": 1, "db-1": 1, "db-2": 1, "db-3": 1},
		check: func(w *world) { w.expectImages("db", "0=r1") },
	},
	"deployments": {
		begin: func(w *world) {
			w.deployment("web-v1", "r1", 2)
			w.deployment("web-v2", "r2", 0)
			w.hooked("db", api.RolloutSpec{
				TargetRef:   api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v2"},
				SourceRef:   &api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v1"},
				RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1)},
			})
		},
		live: func(w *world) { w.is("db", rollout.Succeeded, metav1.ConditionTrue) },
		check: func(w *world) {
			if web := w.images("web-v2"); strings.Count(web, "=r2") != 2 || len(w.uids("web-v1")) != 0 {
				w.t.Errorf("the pods are %s and %v", web, w.uids("web-v1"))
			}
		},
	},
	"deletion that keeps":      deletionLife("Keep", map[string]int{"db-0": 1, "db-1": 1, "db-2": 2}, "0=r1 1=r1 2=r2"),
	"deletion that rolls back": deletionLife("Rollback", map[string]int{"db-0": 1, "db-1": 1, "db-2": 3}, "0=r1 1=r1 2=r1"),
	"deletion that completes":  deletionLife("Complete", map[string]int{"db-0": 2, "db-1": 2, "db-2": 2}, "0=r2 1=r2 2=r2"),
}

// deletionLife deletes a Rollout after its first batch.
func deletionLife(policy string, moved map[string]int, images string) life {
	return life{
		begin: func(w *world) {
			w.statefulSet("db", 3, appsv1.ParallelPodManagement)
			w.hooked("db", api.RolloutSpec{DeletionPolicy: policy, RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
		},
		live: func(w *world) {
			w.is("db", "Ready", metav1.ConditionTrue)
			w.setImage("db", "r2")
			w.is("db", rollout.Paused, metav1.ConditionTrue)
			if err := w.client.Delete(w.t.Context(), w.now("db")); err != nil {
				w.t.Fatal(err)
			}
			w.until("the Rollout is gone", func() bool { return w.gone("db") })
		},
		moved: moved,
		check: func(w *world) {
			w.until("the pods are "+images, func() bool { return w.images("db") == images })
			set, partition := &appsv1.StatefulSet{}, map[bool]int32{true: 2}[policy == "Keep"]
			w.get("db", set)
			if *set.Spec.UpdateStrategy.RollingUpdate.Partition != partition || len(set.OwnerReferences) != 0 || set.Labels["pawl.dev/rollout"] != "" ||
				(set.Labels["pawl.dev/held"] != "") != (policy == "Keep") {
				w.t.Errorf("the set is left with %+v, %v, %v", set.Spec.UpdateStrategy.RollingUpdate, set.OwnerReferences, set.Labels)
			}
		},
	}
}

// hooked makes a Rollout with a hook of each type.
func (w *world) hooked(name string, spec api.RolloutSpec) {
	w.t.Helper()
	w.hooks = listen(w.t)
	for _, hook := range []string{"initialize-rollout", "pre-batch-rollout", "post-batch-rollout", "finalize-rollout"} {
		spec.RolloutPlan.RolloutWebhooks = append(spec.RolloutPlan.RolloutWebhooks, api.RolloutHook{Name: hook, Type: hook, URL: w.hooks.URL + "/" + hook})
	}
	w.rollout(name, spec)
}

// meanings are what the hooks were asked, each once. A key that stands for two things is an error, and
// so are two keys for one.
func (w *world) meanings() string {
	w.t.Helper()
	if w.hooks == nil {
		return ""
	}
	byKey, keyOf := map[string]string{}, map[string]string{}
	var all []string
	for _, h := range w.hooks.on("") {
		delete(h.body, "uid")
		delete(h.body, "namespace")
		text, err := json.Marshal(h.body)
		if err != nil {
			w.t.Fatal(err)
		}
		meaning := h.path + " " + string(text)
		if was, ok := byKey[h.key]; ok && was != meaning {
			w.t.Errorf("the key %s means\n%s\nand\n%s", h.key, was, meaning)
		}
		if was, ok := keyOf[meaning]; ok && was != h.key {
			w.t.Errorf("%s was asked under the keys %s and %s", meaning, was, h.key)
		}
		if _, ok := keyOf[meaning]; !ok {
			all = append(all, meaning)
		}
		byKey[h.key], keyOf[meaning] = meaning, h.key
	}
	return strings.Join(all, "\n")
}

// play lets a life pass with a crash. It returns the number of writes, and what came of it: the history,
// and what hooks were asked.
func (l life) play(t *testing.T, crash rollouttest.Point) (writes int, story string) {
	t.Helper()
	w := newQuietWorld(t)
	made := w.countPods()
	l.begin(w)
	survived := w.StartDoomed(crash.At, crash.After)
	l.live(w)
	writes = survived()
	l.check(w)
	if l.moved != nil {
		if got := made(); fmt.Sprint(got) != fmt.Sprint(l.moved) {
			t.Errorf("pods were made %v, expected %v", got, l.moved)
		}
	}
	if !w.gone("db") {
		story = w.history("db") + "\n"
	}
	return writes, story + w.meanings()
}

// crashSample is how many points of each life `make test` takes.
const crashSample = 1

// TestCrashAtEachWrite: the operator dies before or after a write, and another one takes over: the end
// is the same, each pod is made as often, the history says the same, and no key of a hook means two
// things.
func TestCrashAtEachWrite(t *testing.T) {
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollouttest.CrashAtEachWrite(t, name, crashSample, l.play)
		})
	}
}
