package rollout_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestScaleSubresource: `kubectl scale` of the Rollout scales its workload in batches, up and down.
func TestScaleSubresource(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	half := api.RolloutBatch{Replicas: new(intstr.FromString("50%"))}
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(2)), RolloutBatches: []api.RolloutBatch{half, {}}}})
	r := w.is("db", "Ready", metav1.ConditionTrue)
	scale := &autoscalingv1.Scale{}
	if err := w.client.SubResource("scale").Get(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Status.Replicas != 2 || scale.Status.Selector != "app=db" {
		t.Errorf("the scale is %+v", scale.Status)
	}
	for number, size := range []int32{6, 3} {
		scale.Spec.Replicas, scale.ResourceVersion = size, ""
		if err := w.client.SubResource("scale").Update(t.Context(), w.now("db"), client.WithSubResourceBody(scale)); err != nil {
			t.Fatal(err)
		}
		w.until("the scale has ended", func() bool {
			r = w.now("db")
			return r.Status.Number == int32(number+1) && r.Status.RollingState == "rolloutSucceed"
		})
		if r.Status.Mode != "Scale" || *r.Status.Replicas != size || len(r.Status.Batches) != 2 {
			t.Errorf("the status is %+v", r.Status)
		}
	}
	w.expectImages("db", "0=r1 1=r1 2=r1")
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if *set.Spec.UpdateStrategy.RollingUpdate.Partition != 1<<31-1 || len(set.OwnerReferences) != 0 {
		t.Errorf("after the end: %+v", set.Spec.UpdateStrategy.RollingUpdate)
	}
}

// TestAutoscalerOfTheWorkload: a scale is refused while a HorizontalPodAutoscaler owns the replicas.
func TestAutoscalerOfTheWorkload(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}, MaxReplicas: 9,
		},
	}
	if err := w.client.Create(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	w.until("the operator's cache has the autoscaler", func() bool { return w.gone("db") })
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(4))}})
	w.is("db", rollout.Stalled, metav1.ConditionTrue)
	w.waitsFor("db", "ReplicasOwned")
	if err := w.client.Delete(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
}

// TestAutoscalerGoesLater: a scale of a set at rest waits for an autoscaler that owns the replicas, and goes
// on when that is deleted, or scales the Rollout, with no other event before it.
func TestAutoscalerGoesLater(t *testing.T) {
	for _, test := range []struct {
		name string
		free func(w *world, hpa *autoscalingv2.HorizontalPodAutoscaler) error
	}{
		{"deleted", func(w *world, hpa *autoscalingv2.HorizontalPodAutoscaler) error {
			return w.client.Delete(w.t.Context(), hpa)
		}},
		{"retargeted", func(w *world, hpa *autoscalingv2.HorizontalPodAutoscaler) error {
			return w.client.Patch(w.t.Context(), hpa, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"scaleTargetRef":{"apiVersion":"pawl.dev/v1alpha1","kind":"Rollout"}}}`)))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.statefulSet("db", 2, appsv1.ParallelPodManagement)
			w.rollout("db", api.RolloutSpec{})
			w.is("db", "Ready", metav1.ConditionTrue)
			w.until("the set is held", func() bool {
				set := &appsv1.StatefulSet{}
				w.get("db", set)
				return set.Labels["pawl.dev/held"] == "true" && set.Status.ObservedGeneration == set.Generation
			})
			hpa := &autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"},
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
					ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}, MinReplicas: new(int32(2)), MaxReplicas: 9,
				},
			}
			if err := w.client.Create(t.Context(), hpa); err != nil {
				t.Fatal(err)
			}
			w.until("the autoscaler is looked at", func() bool { w.get("db", hpa); return len(hpa.Status.Conditions) > 0 })
			w.patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"targetSize":4}}}`)
			w.waitsFor("db", "ReplicasOwned")
			if err := test.free(w, hpa); err != nil {
				t.Fatal(err)
			}
			w.until("it goes on", func() bool {
				return w.now("db").Status.Mode == "Scale" && w.now("db").Status.RollingState == "rolloutSucceed"
			})
		})
	}
}

// deployment makes a Deployment of pods with an image.
func (w *world) deployment(name, image string, replicas int32) {
	w.t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, image)},
	}
	if err := w.client.Create(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.until("the pods of "+name+" are ready", func() bool {
		w.get(name, d)
		return d.Status.ReadyReplicas == replicas && d.Status.ObservedGeneration == d.Generation
	})
}

// TestTwoDeployments: the target grows and the source shrinks, batch by batch; the third pod of the
// second batch is held by the partition.
func TestTwoDeployments(t *testing.T) {
	w := newWorld(t)
	w.deployment("web-v1", "r1", 4)
	w.deployment("web-v2", "r2", 0)
	w.rollout("web", api.RolloutSpec{
		TargetRef:   api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v2"},
		SourceRef:   &api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v1"},
		RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))},
	})
	size := func(name string) int32 {
		d := &appsv1.Deployment{}
		w.get(name, d)
		return *d.Spec.Replicas
	}
	r := w.is("web", rollout.Paused, metav1.ConditionTrue)
	if *r.Status.Replicas != 4 || r.Status.Selector != "app in (web-v1,web-v2)" {
		t.Errorf("an autoscaler sees %d pods of %q", *r.Status.Replicas, r.Status.Selector)
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, rollout.HoldUnguarded); c.Status != metav1.ConditionTrue || c.Reason != "NoRuleForKind" {
		t.Errorf("the guard: %+v", c)
	}
	if size("web-v1") != 3 || size("web-v2") != 1 {
		t.Errorf("held at %d and %d", size("web-v1"), size("web-v2"))
	}
	w.patch(&appsv1.Deployment{}, "web-v1", `{"spec":{"replicas":5}}`) // put back
	w.until("the source is put back", func() bool { return size("web-v1") == 3 })
	w.annotate("web", "approve", "next")
	w.is("web", rollout.Succeeded, metav1.ConditionTrue)
	if size("web-v1") != 0 || size("web-v2") != 4 {
		t.Errorf("ended at %d and %d", size("web-v1"), size("web-v2"))
	}
}

// TestResizeInTheMiddle: `kubectl scale` of the workload is planned anew, and the partition never rises.
func TestResizeInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 4, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1, 1), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.setImage("db", "r2")
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rises := make(chan int32, 1)
	go func() {
		last := int32(1<<31 - 1)
		for ctx.Err() == nil {
			set := &appsv1.StatefulSet{}
			if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "db"}, set); err == nil {
				p := *set.Spec.UpdateStrategy.RollingUpdate.Partition
				if p > last && p != 1<<31-1 {
					rises <- p
					return
				}
				last = p
			}
			time.Sleep(5 * time.Millisecond)
		}
		close(rises)
	}()
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"replicas":6}}`)
	w.until("it is planned anew", func() bool { return w.now("db").Status.Replans == 1 })
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2 3=r2 4=r2 5=r2")
	cancel()
	if p, rose := <-rises; rose {
		t.Errorf("the partition rose to %d", p)
	}
}
