package rollout_test

import (
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// stage is a state in which a rollout of a StatefulSet of three pods from r1 to r2 stops: how it gets
// there, and what lets it go on.
type stage struct {
	hook  string // type of the hook that is refused until the stage is freed
	plan  string // more of the plan
	reach func(w *world, name string)
	free  func(w *world, name string)
	end   string // the condition at the end; empty: it ends before
}

var stages = map[string]stage{
	"parked": {
		reach: func(*world, string) {},
		free:  func(w *world, name string) { w.setImage(name, "r2") },
		end:   rollout.Succeeded,
	},
	"verifying": {
		reach: func(w *world, name string) {
			w.breakImage(name + "-0")
			w.until("a pod is not ready", func() bool { return strings.Contains(w.images(name), "-") })
			w.patch(&appsv1.StatefulSet{}, name, `{"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"main","image":"r2"}]}}}}`)
			w.state(name, "verifyingSpec", "")
		},
		free: func(w *world, name string) { w.mendImage(name + "-0") },
		end:  rollout.Succeeded,
	},
	"initializing": {
		hook:  "initialize-rollout",
		reach: func(w *world, name string) { w.setImage(name, "r2"); w.state(name, "initializing", "") },
		end:   rollout.Succeeded,
	},
	"batchInitializing": {
		hook: "pre-batch-rollout",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.state(name, "rollingInBatches", "batchInitializing")
		},
		end: rollout.Succeeded,
	},
	"batchInRolling": {
		reach: func(w *world, name string) {
			w.budget(name, 3)
			w.setImage(name, "r2")
			w.waitsFor(name, "DisruptionBudget")
		},
		free: func(w *world, name string) { w.budget(name, 0) },
		end:  rollout.Succeeded,
	},
	"batchVerifying": {
		reach: func(w *world, name string) {
			w.breakImage("r2")
			w.setImage(name, "r2")
			w.until("the pod is new", func() bool { return strings.HasSuffix(w.images(name), "=r2-") })
			w.waitsFor(name, "PodsNotReady")
		},
		free: func(w *world, _ string) { w.mendImage("r2") },
		end:  rollout.Succeeded,
	},
	"soaking": {
		plan: "soak: 10m",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.waitsFor(name, "Soaking")
		},
		free: func(w *world, name string) { w.patch(&api.Rollout{}, name, `{"spec":{"rolloutPlan":{"soak":"1s"}}}`) },
		end:  rollout.Succeeded,
	},
	"batchFinalizing": {
		hook: "post-batch-rollout",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.state(name, "rollingInBatches", "batchFinalizing")
		},
		end: rollout.Succeeded,
	},
	"batchReady": {
		plan: "batchPartition: 0",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.waitsFor(name, "HeldByPartition")
		},
		free: func(w *world, name string) { w.annotate(name, "approve", "all") },
		end:  rollout.Succeeded,
	},
	"rollingBack": {
		plan: "batchPartition: 0",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.waitsFor(name, "HeldByPartition")
			w.breakImage(name + "-2")
			w.annotate(name, "rollback", "by=ann")
			w.state(name, "rollingBack", "batchVerifying")
		},
		free: func(w *world, name string) { w.mendImage(name + "-2") },
		end:  rollout.RolledBack,
	},
	"finalising": {
		hook: "finalize-rollout",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.state(name, "finalising", "")
		},
		end: rollout.Succeeded,
	},
	"failing": {
		hook: "finalize-rollout",
		plan: "batchPartition: 0",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.waitsFor(name, "HeldByPartition")
			w.annotate(name, "abandon", "by=ann")
			w.state(name, "rolloutFailing", "")
		},
		end: rollout.Stalled,
	},
	"ended": {
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.is(name, rollout.Succeeded, metav1.ConditionTrue)
		},
	},
	"abandoned": {
		plan: "batchPartition: 0",
		reach: func(w *world, name string) {
			w.setImage(name, "r2")
			w.waitsFor(name, "HeldByPartition")
			w.annotate(name, "abandon", "by=ann")
			w.is(name, rollout.Stalled, metav1.ConditionTrue)
		},
	},
}

// prepare makes the set and its Rollout, and lets it come to the stage. more is more of the plan.
func (s stage) prepare(w *world, name, more string) {
	w.t.Helper()
	w.statefulSet(name, 3, map[bool]appsv1.PodManagementPolicyType{true: appsv1.OrderedReadyPodManagement, false: appsv1.ParallelPodManagement}[strings.HasPrefix(name, "ordered")])
	text := "rolloutBatches: [{replicas: 1}, {}]\n" + s.plan + "\n" + more + "\n"
	if s.hook != "" {
		text += fmt.Sprintf("rolloutWebhooks: [{name: stop, type: %s, url: \"%s/stop\", retries: 10}]\n", s.hook, w.refuse().URL)
	}
	w.plan(name, text)
	s.reach(w, name)
}

// goOn frees the stage.
func (s stage) goOn(w *world, name string) {
	if s.hook != "" {
		w.refused.Store(false)
	}
	if s.free != nil {
		s.free(w, name)
	}
}

// refuse is a listener that answers 503 until the stage is freed.
func (w *world) refuse() *listener {
	if w.hooks == nil {
		w.hooks = listen(w.t)
		w.refused.Store(true)
		w.hooks.answer = func(int, heard) int {
			if w.refused.Load() {
				return http.StatusServiceUnavailable
			}
			return http.StatusNoContent
		}
	}
	return w.hooks
}

// state waits for a state and a batch state; empty: any.
func (w *world) state(name, state, batch string) {
	w.t.Helper()
	w.until(name+" is "+state+"/"+batch, func() bool {
		s := w.now(name).Status
		return s.RollingState == state && (batch == "" || s.BatchRollingState == batch)
	})
}

// budget makes a PodDisruptionBudget that allows nothing below a number of pods; 0 deletes it.
func (w *world) budget(name string, least int) {
	w.t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(least)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	if least == 0 {
		if err := w.client.Delete(w.t.Context(), b); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err := w.client.Create(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
	w.until("the budget counts", func() bool {
		w.get(name, b)
		return b.Status.ObservedGeneration > 0 && b.Status.CurrentHealthy > 0
	})
}

// see lets the operator make a pass.
func (w *world) see(name string) {
	w.t.Helper()
	w.patch(&api.Rollout{}, name, fmt.Sprintf(`{"spec":{"historyLimit":%d}}`, 1000+w.now(name).Generation))
	w.until("a pass was made", func() bool {
		r := w.now(name)
		return r.Status.ObservedGeneration == r.Generation
	})
}
