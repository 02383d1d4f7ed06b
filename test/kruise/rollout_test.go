package kruise_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// newWorld is a namespace with an operator of Rollouts beside the manager of OpenKruise.
func newWorld(t *testing.T) *rollouttest.World {
	t.Helper()
	open(t)
	t.Parallel()
	w := rollouttest.New(t, plane)
	w.Start(w.Config)
	return w
}

// shapes are the workloads of OpenKruise, with what their spec says more.
var shapes = map[string]struct {
	kind string
	spec map[string]any
}{
	"CloneSet":  {"CloneSet", nil},
	"ordered":   {"AdvancedStatefulSet", nil},
	"parallel":  {"AdvancedStatefulSet", map[string]any{"podManagementPolicy": "Parallel"}},
	"unordered": {"AdvancedStatefulSet", unordered()},
}

func unordered() map[string]any {
	return map[string]any{"podManagementPolicy": "Parallel", "updateStrategy": map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"unorderedUpdate": map[string]any{}},
	}}
}

// strategy reads a field of the part of the update strategy that has the partition.
func strategy(w *rollouttest.World, kind, name, field string) any {
	path := []string{"spec", "updateStrategy", "rollingUpdate", field}
	if kind == "CloneSet" {
		path = []string{"spec", "updateStrategy", field}
	}
	value, _, _ := unstructured.NestedFieldNoCopy(w.Get(kind, name).Object, path...)
	return value
}

// hold is the full hold of a kind.
func hold(kind string) any {
	if kind == "CloneSet" {
		return "100%"
	}
	return int64(1<<31 - 1)
}

func patchStrategy(kind, field, value string) string {
	if kind == "CloneSet" {
		return fmt.Sprintf(`{"spec":{"updateStrategy":{%q:%s}}}`, field, value)
	}
	return fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{%q:%s}}}}`, field, value)
}

// TestCanary: a new template is held, the canary runs, the partition stops it, a pause holds it, an
// approval lets the rest run, and the workload is parked.
func TestCanary(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Workload(shape.kind, "db", 4, shape.spec)
			w.Rollout(shape.kind, "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1, 2), BatchPartition: new(int32(0))}})
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.Until("it is parked", func() bool { return strategy(w, shape.kind, "db", "partition") == hold(shape.kind) })
			w.SetImage(shape.kind, "db", "r2")
			r := w.Is("db", rollout.Paused, metav1.ConditionTrue)
			w.Expect("db", "r1=3 r2=1")
			if r.Status.Waiting.Reason != "HeldByPartition" {
				t.Errorf("it waits for %+v", r.Status.Waiting)
			}
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"paused":true}}}`)
			w.WaitsFor("db", "PausedByUser")
			w.Annotate("db", "approve", "all; by=ann")
			w.Until("the approval is answered", func() bool { return w.Now("db").Status.LastRequest != nil })
			w.Expect("db", "r1=3 r2=1")
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"paused":false}}}`)
			w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
			w.Expect("db", "r2=4")
			set := w.Get(shape.kind, "db")
			if len(set.GetOwnerReferences()) != 0 || strategy(w, shape.kind, "db", "partition") != hold(shape.kind) || strategy(w, shape.kind, "db", "paused") == true {
				t.Errorf("after the end: %v\n%s", set.GetOwnerReferences(), w.Dump())
			}
			want := "AppLocated RollingSpecVerified RollingInitialized " +
				"InitializedOneBatch RolloutOneBatch OneBatchAvailable FinishedOneBatch Paused RequestAnswered Resumed " +
				"BatchRolloutApproved InitializedOneBatch RolloutOneBatch OneBatchAvailable FinishedOneBatch " +
				"BatchRolloutApproved InitializedOneBatch RolloutOneBatch OneBatchAvailable AllBatchFinished RollingFinalized"
			if got := w.History("db"); got != want {
				t.Errorf("the history is\n%s\nexpected\n%s", got, want)
			}
		})
	}
}

// TestBrokenImageIsTakenBack: a pod breaks, the batch meets its deadline, and the pods go back: in
// batches and at once. An ordered set waits for ever for its broken pod, which is deleted.
func TestBrokenImageIsTakenBack(t *testing.T) {
	for name, shape := range shapes {
		for _, mode := range []string{"InBatches", "AllAtOnce"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				w := newWorld(t)
				w.Workload(shape.kind, "db", 3, shape.spec)
				w.Rollout(shape.kind, "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{
					RolloutBatches: rollouttest.Batches(1, 1), BatchDeadline: new(api.RolloutDeadline("3s")), OnFailure: "rollback", Rollback: &api.RolloutRollback{Mode: mode},
				}})
				w.Is("db", "Ready", metav1.ConditionTrue)
				before := w.UIDs("db")
				w.Break("broken")
				w.SetImage(shape.kind, "db", "broken")
				r := w.Is("db", rollout.RolledBack, metav1.ConditionTrue)
				w.Expect("db", "r1=3")
				if r.Status.RollingState != "rolloutFailed" || r.Status.Failure == nil || r.Status.Failure.Reason != "BatchDeadline" {
					t.Errorf("it is %s: %+v", r.Status.RollingState, r.Status.Failure)
				}
				kept := 0
				for _, uid := range w.UIDs("db") {
					if slices.Contains(before, uid) {
						kept++
					}
				}
				if kept != 2 {
					t.Errorf("%d of 3 pods are those of before, expected 2", kept)
				}
				if strategy(w, shape.kind, "db", "paused") == true || strategy(w, shape.kind, "db", "partition") != hold(shape.kind) {
					t.Errorf("it is left so:\n%s", w.Dump())
				}
			})
		}
	}
}

// TestScaleAndResize: up and down in batches, and a size that changes while pods move.
func TestScaleAndResize(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Workload(shape.kind, "db", 2, shape.spec)
			w.Rollout(shape.kind, "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(5)), RolloutBatches: rollouttest.Batches(1)}})
			w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
			w.Expect("db", "r1=5")
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"targetSize":3}}}`)
			w.Until("the second scale has ended", func() bool {
				s := w.Now("db").Status
				return s.Number == 2 && s.RollingState == "rolloutSucceed"
			})
			w.Expect("db", "r1=3")
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"targetSize":null,"batchPartition":0}}}`)
			w.SetImage(shape.kind, "db", "r2")
			w.WaitsFor("db", "HeldByPartition")
			w.Patch(rollouttest.Object(shape.kind), "db", `{"spec":{"replicas":5}}`)
			w.Until("it is planned anew", func() bool { return w.Now("db").Status.Replans > 0 })
			w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"batchPartition":null}}}`)
			w.Until("the rollout has ended", func() bool {
				s := w.Now("db").Status
				return s.Number == 3 && s.RollingState == "rolloutSucceed"
			})
			w.Expect("db", "r2=5")
		})
	}
}

// TestDelete: whatever way the Rollout is deleted in the middle, the workload and its pods stay.
func TestDelete(t *testing.T) {
	for name, shape := range shapes {
		if name == "parallel" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
				name := fmt.Sprint("db", i)
				w.Workload(shape.kind, name, 3, shape.spec)
				w.Rollout(shape.kind, name, api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchPartition: new(int32(0))}})
				w.Is(name, "Ready", metav1.ConditionTrue)
				w.SetImage(shape.kind, name, "r2")
				w.Is(name, rollout.Paused, metav1.ConditionTrue)
				before := w.UIDs(name)
				if err := w.Client.Delete(t.Context(), w.Now(name), client.PropagationPolicy(policy)); err != nil {
					t.Fatal(err)
				}
				w.Until("the Rollout is gone", func() bool { return w.Gone(name) })
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					set := w.Get(shape.kind, name)
					if set.GetDeletionTimestamp() != nil || metav1.GetControllerOf(set) != nil {
						t.Fatalf("%s: %v", policy, set.Object["metadata"])
					}
					if after := w.UIDs(name); !slices.Equal(after, before) {
						t.Fatalf("%s: the pods were %v and are %v", policy, before, after)
					}
				}
				if set := w.Get(shape.kind, name); set.GetAnnotations()["pawl.dev/left"] == "" || strategy(w, shape.kind, name, "paused") != true {
					t.Errorf("%s: what was left is not named:\n%s", policy, w.Dump())
				}
			}
		})
	}
}

// TestDeletionPolicies: Rollback takes the pods back first, Complete runs the remaining batches first.
func TestDeletionPolicies(t *testing.T) {
	for name, shape := range shapes {
		if name == "parallel" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for policy, want := range map[string]string{"Rollback": "r1=3", "Complete": "r2=3"} {
				name := map[string]string{"Rollback": "back", "Complete": "on"}[policy]
				w.Workload(shape.kind, name, 3, shape.spec)
				w.Rollout(shape.kind, name, api.RolloutSpec{DeletionPolicy: policy, RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchPartition: new(int32(0))}})
				w.Is(name, "Ready", metav1.ConditionTrue)
				w.SetImage(shape.kind, name, "r2")
				w.Is(name, rollout.Paused, metav1.ConditionTrue)
				if err := w.Client.Delete(t.Context(), w.Now(name)); err != nil {
					t.Fatal(err)
				}
				w.Until("the Rollout is gone", func() bool { return w.Gone(name) })
				w.Until("the pods are ready", func() bool { return w.Images(name) == want })
				set := w.Get(shape.kind, name)
				if p := strategy(w, shape.kind, name, "partition"); p != nil && p != int64(0) || len(set.GetOwnerReferences()) != 0 || strategy(w, shape.kind, name, "paused") == true {
					t.Errorf("%s: it is left with partition %v:\n%s", policy, p, w.Dump())
				}
			}
		})
	}
}

// TestGuard: a tool that applies partition 0 and paused every moment releases nothing, and a template
// that it writes comes with the full hold.
func TestGuard(t *testing.T) {
	for name, shape := range shapes {
		if name == "ordered" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Workload(shape.kind, "db", 3, shape.spec)
			w.Rollout(shape.kind, "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchPartition: new(int32(0))}})
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.Is("db", rollout.HoldUnguarded, metav1.ConditionFalse)
			ended := make(chan struct{})
			stop := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond):
						for field, value := range map[string]string{"partition": "0", "paused": "true"} {
							o := rollouttest.Object(shape.kind)
							o.SetNamespace(w.Namespace)
							o.SetName("db")
							if err := w.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patchStrategy(shape.kind, field, value)))); err != nil {
								t.Error(err)
								return
							}
						}
					}
				}
			}()
			w.SetImage(shape.kind, "db", "r2")
			w.Is("db", rollout.Paused, metav1.ConditionTrue)
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				w.Expect("db", "r1=2 r2=1")
			}
			if strategy(w, shape.kind, "db", "paused") == true {
				t.Errorf("somebody else has paused it")
			}
			w.SetImage(shape.kind, "db", "r3")
			w.Until("the third template rolls", func() bool { // an approval before its batches are resolved is refused
				s := w.Now("db").Status
				return s.Number == 2 && s.RollingState == "rollingInBatches"
			})
			w.Annotate("db", "approve", "all")
			w.Until("the third template has ended", func() bool {
				s := w.Now("db").Status
				return s.Number == 2 && s.RollingState == "rolloutSucceed"
			})
			w.Expect("db", "r3=3")
			close(stop)
			<-ended
		})
	}
}

// TestLeaderLast: pods of a CloneSet and of an unordered set are named one by one, the leader last; the
// order that the user gave comes back.
func TestLeaderLast(t *testing.T) {
	for _, name := range []string{"CloneSet", "unordered", "ordered"} {
		shape := shapes[name]
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Workload(shape.kind, "db", 3, shape.spec)
			own := `{"weightPriority":[{"weight":7,"matchSelector":{"matchLabels":{"app":"db"}}}]}`
			switch name {
			case "CloneSet":
				w.Patch(rollouttest.Object(shape.kind), "db", patchStrategy(shape.kind, "priorityStrategy", own))
			case "unordered":
				w.Patch(rollouttest.Object(shape.kind), "db", patchStrategy(shape.kind, "unorderedUpdate", `{"priorityStrategy":`+own+`}`))
			default:
				w.Patch(rollouttest.Object(shape.kind), "db", patchStrategy(shape.kind, "minReadySeconds", "1"))
			}
			before := w.Pods("db")
			leader := before[1].UID // no controller would take it last
			for _, p := range before {
				w.Patch(&corev1.Pod{}, p.Name, fmt.Sprintf(`{"metadata":{"labels":{"role":%q}}}`, map[bool]string{true: "leader", false: "replica"}[p.UID == leader]))
			}
			w.Rollout(shape.kind, "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{
				NumBatches: new(int32(3)), BatchPartition: new(int32(0)), Order: &api.RolloutOrder{RoleLabel: "role", Roles: []string{"replica", "leader"}},
			}})
			w.Is("db", "Ready", metav1.ConditionTrue)
			w.SetImage(shape.kind, "db", "r2")
			for batch := range 2 {
				r := w.Is("db", rollout.Paused, metav1.ConditionTrue)
				w.Expect("db", fmt.Sprintf("r1=%d r2=%d", 2-batch, batch+1))
				if !slices.Contains(w.UIDs("db"), string(leader)) {
					t.Fatalf("the leader went in batch %d", batch)
				}
				w.Annotate("db", "approve", fmt.Sprint(batch+1))
				w.Until("the approval is answered", func() bool {
					next := w.Now("db").Status.LastRequest
					return next != nil && (r.Status.LastRequest == nil || next.ID != r.Status.LastRequest.ID)
				})
				w.Until("the batch has begun", func() bool { return w.Now("db").Status.CurrentBatch > int32(batch) })
			}
			w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
			w.Expect("db", "r2=3")
			field, want := "priorityStrategy", fmt.Sprint(map[string]any{"weightPriority": []any{map[string]any{"matchSelector": map[string]any{"matchLabels": map[string]any{"app": "db"}}, "weight": int64(7)}}})
			switch name {
			case "unordered":
				field, want = "unorderedUpdate", fmt.Sprint(map[string]any{"priorityStrategy": map[string]any{"weightPriority": []any{map[string]any{"matchSelector": map[string]any{"matchLabels": map[string]any{"app": "db"}}, "weight": int64(7)}}}})
			case "ordered":
				field, want = "minReadySeconds", "1"
			}
			if got := fmt.Sprint(strategy(w, shape.kind, "db", field)); got != want || strategy(w, shape.kind, "db", "partition") != hold(shape.kind) {
				t.Errorf("%s is %s, expected %s\n%s", field, got, want, w.Dump())
			}
		})
	}
}

// TestReservedOrdinals: a scale-down takes the pods that it names, and later batches do not count them.
func TestReservedOrdinals(t *testing.T) {
	w := newWorld(t)
	w.Workload("AdvancedStatefulSet", "db", 5, nil)
	w.Rollout("AdvancedStatefulSet", "db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(3)), RolloutBatches: []api.RolloutBatch{
		{Pods: &api.RolloutPods{Ordinals: []string{"1"}}}, {Pods: &api.RolloutPods{Ordinals: []string{"3"}}},
	}}})
	w.Is("db", rollout.Succeeded, metav1.ConditionTrue)
	names := func() (all []string) {
		for _, p := range w.Pods("db") {
			all = append(all, p.Name+"="+p.Spec.Containers[0].Image)
		}
		slices.Sort(all)
		return all
	}
	if got := fmt.Sprint(names()); got != "[db-0=r1 db-2=r1 db-4=r1]" {
		t.Fatalf("the pods are %s\n%s", got, w.Dump())
	}
	w.Patch(rollouttest.Object("AdvancedStatefulSet"), "db", `{"spec":{"reserveOrdinals":["1-3"]}}`) // 0, 4, 5
	w.Patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"targetSize":null,"rolloutBatches":[{"replicas":1},{}],"batchPartition":0}}}`)
	w.SetImage("AdvancedStatefulSet", "db", "r2")
	w.WaitsFor("db", "HeldByPartition")
	if got := fmt.Sprint(names()); got != "[db-0=r1 db-4=r1 db-5=r2]" {
		t.Errorf("after the canary the pods are %s\n%s", got, w.Dump())
	}
	w.Annotate("db", "approve", "all")
	w.Until("the rollout has ended", func() bool {
		s := w.Now("db").Status
		return s.Number == 2 && s.RollingState == "rolloutSucceed"
	})
	w.Expect("db", "r2=3")
}
