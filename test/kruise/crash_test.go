package kruise_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

var lives = map[string]rollouttest.Life{
	"rollout": {
		Begin: func(w *rollouttest.World) {
			w.Workload("CloneSet", "db", 3, nil)
			w.Rollout("CloneSet", "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchPartition: new(int32(0))}})
		},
		Live: func(w *rollouttest.World) {
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.SetImage("CloneSet", "db", "r2")
			w.Is("db", rollout.Paused, metav1.ConditionTrue)
			w.Annotate("db", "approve", "all; by=ann")
			w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
		},
		Check: func(w *rollouttest.World) { w.Expect("db", "r2=3") },
		Made:  6,
	},
	"rollback": {
		Begin: func(w *rollouttest.World) {
			w.Workload("CloneSet", "db", 3, nil)
			w.Rollout("CloneSet", "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchDeadline: new(api.RolloutDeadline("3s")), OnFailure: "rollback"}})
			w.Break("broken")
		},
		Live: func(w *rollouttest.World) {
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.SetImage("CloneSet", "db", "broken")
			w.Is("db", rollout.RolledBack, metav1.ConditionTrue)
		},
		Check: func(w *rollouttest.World) { w.Expect("db", "r1=3") },
		Made:  5,
	},
	"order": {
		Begin: func(w *rollouttest.World) {
			w.Workload("CloneSet", "db", 3, nil)
			for i, p := range w.Pods("db") {
				w.Patch(&corev1.Pod{}, p.Name, `{"metadata":{"labels":{"role":"`+[]string{"replica", "leader", "replica"}[i]+`"}}}`)
			}
			w.Rollout("CloneSet", "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{
				NumBatches: new(int32(2)), Order: &api.RolloutOrder{RoleLabel: "role", Roles: []string{"replica", "leader"}},
			}})
		},
		Live: func(w *rollouttest.World) {
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.SetImage("CloneSet", "db", "r2")
			w.Until("the first batch is done", func() bool {
				if leaderGone, others := leader(w); leaderGone && others > 0 {
					w.Fatalf("the leader went before %d others\n%s", others, w.Dump())
				}
				return w.Now("db").Status.RollingState == "rolloutSucceed"
			})
		},
		Check: func(w *rollouttest.World) {
			w.Expect("db", "r2=3")
			if strategy(w, "CloneSet", "db", "priorityStrategy") != nil {
				w.Errorf("the names of pods are left:\n%s", w.Dump())
			}
		},
		Made: 6,
	},
	"scale": {
		Begin: func(w *rollouttest.World) {
			w.Workload("CloneSet", "db", 2, nil)
			w.Rollout("CloneSet", "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(4)), RolloutBatches: rollouttest.Batches(1)}})
		},
		Live: func(w *rollouttest.World) {
			w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"targetSize":1}}}`)
			w.Until("the second scale has ended", func() bool {
				s := w.Now("db").Status
				return s.Number == 2 && s.RollingState == "rolloutSucceed"
			})
		},
		Check: func(w *rollouttest.World) { w.Expect("db", "r1=1") },
		Made:  4,
	},
}

// leader reports whether the leader of the old pods is gone, and how many other old pods there are.
func leader(w *rollouttest.World) (gone bool, others int) {
	pods := w.Pods("db")
	old := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Spec.Containers[0].Image != "r1" })
	leads := slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.Labels["role"] == "leader" })
	return !leads, len(old)
}

// TestCrashAtEachWrite: the operator dies before or after a write of a rollout of a CloneSet, and
// another one takes over.
func TestCrashAtEachWrite(t *testing.T) {
	open(t)
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollouttest.CrashAtEachWrite(t, name, 3, func(t *testing.T, crash rollouttest.Point) (int, string) { return life.Play(t, plane, crash) })
		})
	}
}
