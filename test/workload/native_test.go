package workload_test

import (
	"context"
	"os"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	subject "github.com/pawl-dev/pawl/test/workload"
)

var suite = controlplane.NewSuite(controlplane.Options{Kubelet: kubelet.Options{Nodes: 2}})

func TestMain(m *testing.M) { suite.Main(m) }

// TestConformance: the StatefulSet controller of kube-controller-manager, driven through kube/workload.
func TestConformance(t *testing.T) {
	plane := suite.Plane(t)
	workloadtest.Run(t, workloadtest.Options{
		Kinds: []rollout.Kind{rollout.StatefulSet}, Patience: 40 * time.Second, Parallel: true,
		New: func(t *testing.T, kind rollout.Kind, replicas int, parallel bool) workloadtest.Subject {
			return subject.New(t, plane, kind, replicas, parallel)
		},
	})
}

// TestCluster: the cluster that the environment names, with its own controllers. Without one it is that
// of the tests, which shows that the way works.
func TestCluster(t *testing.T) {
	kubeconfig, patience := os.Getenv(subject.KubeconfigVariable), 3*time.Minute
	if kubeconfig == "" {
		kubeconfig, patience = suite.Plane(t).Kubeconfig(), 40*time.Second
	}
	cluster := subject.Open(t, kubeconfig)
	workloadtest.Run(t, workloadtest.Options{Patience: patience, Parallel: true, New: func(t *testing.T, kind rollout.Kind, replicas int, parallel bool) workloadtest.Subject {
		return cluster.New(t, kind, replicas, parallel)
	}})
}

// TestDeletedOwner: whatever way the Rollout is deleted, the workload and its pods stay.
func TestDeletedOwner(t *testing.T) {
	plane := suite.Plane(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := subject.New(t, plane, rollout.StatefulSet, 2, true)
			before := observe(t, s.Workload)
			act := rollout.Act{Workload: before.Target.UID, Generation: before.Target.Generation, Claim: rollout.TakeClaim}
			if err := s.Apply(t.Context(), act); err != nil {
				t.Fatal(err)
			}
			s.DeleteOwner(policy)
			for end := time.Now().Add(30 * time.Second); ; s.Work() { // the garbage collector removes the claim, or the owner is gone
				f := observe(t, s.Workload)
				if f.Target.Controller == nil || f.Target.Controller.UID != f.Rollout.UID {
					break
				}
				if gone(t, plane, s.Rollout) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the owner is still there: %+v", *f.Target)
				}
			}
			for range 20 {
				s.Work()
				f := observe(t, s.Workload)
				if f.Target.Deleting || len(f.Pods) != 2 || f.Pods[0].UID != before.Pods[0].UID || f.Pods[0].Terminating || f.Pods[1].UID != before.Pods[1].UID {
					t.Fatalf("%+v, %+v", *f.Target, f.Pods)
				}
			}
		})
	}
}

func gone(t *testing.T, plane *controlplane.Plane, who workload.Identity) bool {
	t.Helper()
	_, err := plane.Client().CoreV1().ConfigMaps(who.Namespace).Get(t.Context(), who.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

func observe(t *testing.T, w *workload.Workload) rollout.Facts {
	t.Helper()
	f, err := w.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if f.Target == nil {
		t.Fatal("the workload is gone")
	}
	return f
}

// TestDeployments: a rollout of two Deployments, by Next.
func TestDeployments(t *testing.T) {
	plane := suite.Plane(t)
	s := subject.New(t, plane, rollout.Deployment, 3, true)
	s.Second("db-new", "r2")
	plan, at := rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {}}}, rollout.Position{}
	for end := time.Now().Add(time.Minute); !at.State.Terminal(); s.Work() {
		f := observe(t, s.Workload)
		f.Wanted = rollout.Wanted{Kind: rollout.Deployment, TargetRevision: f.Target.Template, HasSource: true}
		d := rollout.Next(plan, at, f, time.Now())
		at = d.Position
		for _, a := range d.Acts {
			if err := s.Apply(t.Context(), a); err != nil && fault.Of(err) != fault.WriteConflict {
				t.Fatalf("%s: %v", a.Why, err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s/%s batch %d: %s", at.State, at.BatchState, at.CurrentBatch, d.Outcome)
		}
	}
	f := observe(t, s.Workload)
	if at.State != rollout.Succeeded || f.Target.Replicas != 3 || f.Sources[0].Replicas != 0 || f.Sources[0].Controller != nil {
		t.Errorf("%s, %+v, %+v", at.State, *f.Target, f.Sources)
	}
}

// TestEviction: a PodDisruptionBudget refuses an eviction, and is a fact.
func TestEviction(t *testing.T) {
	plane := suite.Plane(t)
	s := subject.New(t, plane, rollout.StatefulSet, 2, true)
	most := intstr.FromInt32(0)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	}
	if _, err := plane.Client().PolicyV1().PodDisruptionBudgets(s.Rollout.Namespace).Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f := observe(t, s.Workload)
	if len(f.Budgets) != 1 || f.Budgets[0].Name != "db" || f.Budgets[0].Allowed != 0 {
		t.Fatalf("the budgets are %+v", f.Budgets)
	}
	act := rollout.Act{Workload: f.Target.UID, Generation: f.Target.Generation, Evict: &rollout.PodRef{Name: f.Pods[0].Name, UID: f.Pods[0].UID}}
	if err := s.Apply(t.Context(), act); fault.Of(err) != rollout.WorkloadBusy {
		t.Errorf("the eviction gave %v", err)
	}
	if err := plane.Client().PolicyV1().PodDisruptionBudgets(s.Rollout.Namespace).Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), act); err != nil {
		t.Errorf("without the budget: %v", err)
	}
	act.Evict.UID = "another"
	if err := s.Apply(t.Context(), act); fault.Of(err) != fault.WriteConflict {
		t.Errorf("the eviction of another pod gave %v", err)
	}
}

// TestNotServed: kinds and versions that are not there.
func TestNotServed(t *testing.T) {
	plane := suite.Plane(t)
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Client: c, Rollout: workload.Identity{Namespace: "default", Name: "x", UID: "y"}}
	for _, test := range []struct {
		ref      workload.Ref
		unserved bool
		want     *fault.Kind
	}{
		{workload.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "x"}, true, nil},
		{workload.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "StatefulSet", Name: "x"}, true, nil},
		{workload.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x"}, false, rollout.UnsupportedWorkload},
		{workload.Ref{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "x"}, false, nil},
	} {
		w.Target = test.ref
		f, err := w.Observe(t.Context())
		if fault.Of(err) != test.want || (f.Unserved != "") != test.unserved || f.Target != nil {
			t.Errorf("%+v: %v, %+v", test.ref, err, f)
		}
	}
}
