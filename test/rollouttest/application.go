package rollouttest

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// Component is a workload of an Application, whose pods have the label app with its name. StatefulSets of
// both sorts are Parallel.
func Component(kind, name, image string, replicas int) api.ApplicationComponent {
	spec := map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec": map[string]any{
				"terminationGracePeriodSeconds": 1,
				"containers":                    []any{map[string]any{"name": "main", "image": image}},
			},
		},
	}
	of := Object(kind)
	if of.GetKind() == "StatefulSet" {
		spec["serviceName"], spec["podManagementPolicy"] = name, "Parallel"
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return api.ApplicationComponent{Name: name, Workload: api.ApplicationWorkload{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Spec: runtime.RawExtension{Raw: text}}}
}

// Plan is a plan with these batches, and one with the rest.
func Plan(sizes ...int) *api.RolloutPlan {
	return &api.RolloutPlan{RolloutBatches: Batches(sizes...)}
}

// Apply makes an Application, or replaces its spec.
func (w *World) Apply(name string, plan *api.RolloutPlan, components ...api.ApplicationComponent) {
	w.Helper()
	w.ApplySpec(name, api.ApplicationSpec{Components: components, RolloutPlan: plan})
}

// ApplySpec makes an Application, or replaces its spec.
func (w *World) ApplySpec(name string, spec api.ApplicationSpec) {
	w.Helper()
	for {
		a := &api.Application{}
		err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, a)
		if apierrors.IsNotFound(err) {
			err = w.Client.Create(w.Context(), &api.Application{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec})
		} else if err == nil {
			a.Spec = spec
			err = w.Client.Update(w.Context(), a)
		}
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
	}
}

// DeleteApplication deletes an Application and waits until it is gone. Without orphans it waits until what it
// owned is gone too: a workload of this kind, its pods, the Rollout and the first revision.
func (w *World) DeleteApplication(name, kind, workload string, policy metav1.DeletionPropagation) {
	w.Helper()
	a := &api.Application{}
	w.Read(name, a)
	if err := w.Client.Delete(w.Context(), a, client.PropagationPolicy(policy)); err != nil {
		w.Fatal(err)
	}
	w.Until("the Application is gone", func() bool { return w.Missing(name, &api.Application{}) })
	if policy == metav1.DeletePropagationOrphan {
		return
	}
	w.Until("what it owned is gone", func() bool {
		return w.Missing(workload, Object(kind)) && w.Gone(name) && w.Missing(name+"-v1", &api.ApplicationRevision{}) && len(w.Pods(workload)) == 0
	})
}

// ApplicationIs waits for the status of a condition of the newest generation.
func (w *World) ApplicationIs(name, condition string, status metav1.ConditionStatus) *api.Application {
	w.Helper()
	a := &api.Application{}
	w.Until(name+" has "+condition+"="+string(status), func() bool {
		w.Read(name, a)
		c := meta.FindStatusCondition(a.Status.Conditions, condition)
		return c != nil && c.Status == status && a.Status.ObservedGeneration == a.Generation && c.ObservedGeneration == a.Generation
	})
	return a
}

// NotReadyFor waits until an Application is not ready for a reason. It follows its Rollout a moment later.
func (w *World) NotReadyFor(name, reason string) *api.Application {
	w.Helper()
	a := &api.Application{}
	w.Until(name+" is not ready: "+reason, func() bool {
		w.Read(name, a)
		c := meta.FindStatusCondition(a.Status.Conditions, "Ready")
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && a.Status.ObservedGeneration == a.Generation && c.ObservedGeneration == a.Generation
	})
	return a
}

// Reaches waits until a revision is reached and everything is ready.
func (w *World) Reaches(name, revision string) *api.Application {
	w.Helper()
	a := &api.Application{}
	w.Until(name+" reaches "+revision, func() bool {
		w.Read(name, a)
		return a.Status.ReachedRevision == revision && a.Status.LatestRevision == revision && meta.IsStatusConditionTrue(a.Status.Conditions, "Ready") &&
			a.Status.ObservedGeneration == a.Generation
	})
	return a
}

// Holds waits until the Rollout moves to a revision and stops at the partition, after a batch.
func (w *World) Holds(name, revision string, batch int32) *api.Rollout {
	w.Helper()
	r := &api.Rollout{}
	w.Until(fmt.Sprintf("%s holds after batch %d of %s", name, batch, revision), func() bool {
		if w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, r) != nil {
			return false
		}
		return r.Status.LastTargetRevision == revision && r.Status.Waiting != nil && r.Status.Waiting.Reason == "HeldByPartition" && r.Status.CurrentBatch == batch
	})
	return r
}
