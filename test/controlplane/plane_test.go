package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/test/controlplane"
)

var widgets = schema.GroupVersionResource{Group: "test.pawl.dev", Version: "v1", Resource: "widgets"}

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr[int64](1),
			NodeSelector:                  map[string]string{"node.pawl.dev/status-only": "true"},
			Containers:                    []corev1.Container{{Name: "main", Image: image}},
		},
	}
}

func stateful(app string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: app,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: template(app, "none"),
		},
	}
}

// The API server reports its version, all nodes are Ready, and kubectl works with the
// kubeconfig file.
func TestPlaneStarts(t *testing.T) {
	p := suite.Plane(t)
	version := must(p.Client().Discovery().ServerVersion())(t)
	if version.GitVersion != "v1.37.1" {
		t.Errorf("the API server is %s", version.GitVersion)
	}
	cmd := exec.Command(p.Binaries.Kubectl, "--kubeconfig", p.Kubeconfig(), "get", "nodes", "--no-headers", "-l", "node.pawl.dev/status-only")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), " Ready ") != 3 {
		t.Errorf("kubectl get nodes: %v\n%s", err, out)
	}
	out, err = exec.Command(p.Binaries.Kubectl, "--kubeconfig", p.Kubeconfig(), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Server Version: v1.37.1") {
		t.Errorf("kubectl version: %v\n%s", err, out)
	}
}

func TestMissingBinariesAreAFaultThatNamesTheTarget(t *testing.T) {
	_, err := controlplane.Start(controlplane.Options{Bin: t.TempDir()})
	if fault.Of(err) != controlplane.BinariesMissing || !strings.Contains(err.Error(), "kube-scheduler") || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("the fault is %v", err)
	}
}

func TestStatefulSetOfThreeIsReadyOnPaper(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	must(p.Client().AppsV1().StatefulSets(ns).Create(t.Context(), stateful("set", 3), metav1.CreateOptions{}))(t)
	var pods []corev1.Pod
	eventually(t, "three pods", func(ctx context.Context) (err error) {
		pods, err = ready(ctx, p, ns, "set", 3)
		return err
	})
	seen := map[string]bool{}
	for _, pod := range pods {
		ip := pod.Status.PodIP
		if !strings.HasPrefix(ip, "127.") || len(pod.Status.PodIPs) != 1 || seen[ip] {
			t.Errorf("the address of %s: %v", pod.Name, pod.Status.PodIPs)
		}
		seen[ip] = true
	}
}

// A rollout continues pod by pod only as the function returns Ready.
func TestRolloutIsHeldByTheReadinessFunction(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	var open atomic.Bool
	p.Kubelet.Decide(ns, func(pod *corev1.Pod) bool {
		return pod.Spec.Containers[0].Image == "one" || open.Load()
	})
	defer p.Kubelet.Decide(ns, nil)
	three, none, one := int32(3), intstr.FromInt32(0), intstr.FromInt32(1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("web", "one"),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one}},
		},
	}
	deployments := p.Client().AppsV1().Deployments(ns)
	must(deployments.Create(t.Context(), d, metav1.CreateOptions{}))(t)
	eventually(t, "the first version", func(ctx context.Context) error {
		_, err := ready(ctx, p, ns, "web", 3)
		return err
	})
	must(deployments.Patch(t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"two"}]}}}}`), metav1.PatchOptions{}))(t)
	held := func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 1 || s.ReadyReplicas != 3 || s.Replicas != 4 {
			return fmt.Errorf("it is not held at the first pod: %+v", s)
		}
		return nil
	}
	eventually(t, "the held rollout", held)
	time.Sleep(time.Second) // real processes: only time shows that nothing happens
	if err := held(t.Context()); err != nil {
		t.Fatal(err)
	}
	open.Store(true)
	eventually(t, "the rollout", func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.UpdatedReplicas != 3 || s.ReadyReplicas != 3 || s.Replicas != 3 {
			return fmt.Errorf("it is not done: %+v", s)
		}
		return nil
	})
	open.Store(false) // a pod may become unready again
	eventually(t, "the pods that are not ready any more", func(ctx context.Context) error {
		_, err := ready(ctx, p, ns, "web", 0)
		return err
	})
}

// Claims of the default class are bound, grow, are cloned, and their folders go.
func TestClaimsAreBoundGrowAndGo(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	claims := p.Client().CoreV1().PersistentVolumeClaims(ns)
	claim := func(name string, from *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, DataSource: from,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
	}
	bound := func(name, size string) (folder string) {
		eventually(t, "the claim "+name, func(ctx context.Context) error {
			c, err := claims.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			have := c.Status.Capacity[corev1.ResourceStorage]
			if c.Status.Phase != corev1.ClaimBound || have.String() != size {
				return fmt.Errorf("it is %s with %s", c.Status.Phase, have.String())
			}
			v, err := p.Client().CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
			if err == nil {
				folder = v.Spec.CSI.VolumeHandle
			}
			return err
		})
		return folder
	}
	must(claims.Create(t.Context(), claim("data", nil), metav1.CreateOptions{}))(t)
	folder := bound("data", "1Gi")
	if err := os.WriteFile(filepath.Join(folder, "row"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(claims.Patch(t.Context(), "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{}))(t)
	bound("data", "2Gi")

	must(claims.Create(t.Context(), claim("copy", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}), metav1.CreateOptions{}))(t)
	if text, err := os.ReadFile(filepath.Join(bound("copy", "1Gi"), "row")); string(text) != "kept" {
		t.Errorf("the copy holds %q: %v", text, err)
	}
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the folder of a deleted claim", func(context.Context) error {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
}

func TestJobEndsOnPaper(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	pod := template("job", "none")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: pod}}
	must(p.Client().BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	eventually(t, "the job", func(ctx context.Context) error {
		job, err := p.Client().BatchV1().Jobs(ns).Get(ctx, "job", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("it has not succeeded: %+v", job.Status)
		}
		return err
	})
}

// CRDs are installed with their CEL rules, and the garbage collector knows them from the
// beginning: it deletes the dependents of a custom resource.
func TestCustomResourcesAreCheckedAndCollected(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	objects := must(dynamic.NewForConfig(p.Config()))(t).Resource(widgets).Namespace(ns)
	widget := must(objects.Create(t.Context(), newWidget(nil), metav1.CreateOptions{}))(t)
	_, err := objects.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"size":1}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "size may only grow") {
		t.Errorf("a smaller size: %v", err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "test.pawl.dev/v1", Kind: "Widget", Name: "w", UID: widget.GetUID()},
	}}}
	must(p.Client().CoreV1().ConfigMaps(ns).Create(t.Context(), owned, metav1.CreateOptions{}))(t)
	if err := objects.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what it owned", func(ctx context.Context) error {
		if _, err := p.Client().CoreV1().ConfigMaps(ns).Get(ctx, "owned", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
}

func newWidget(finalizers []string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.pawl.dev/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w"}, "spec": map[string]any{"size": int64(2)},
	}}
	o.SetFinalizers(finalizers)
	return o
}

// A namespace is deleted although pods have a long grace period and objects have a
// finalizer that no controller serves.
func TestNamespaceGoesWithAllThatIsInIt(t *testing.T) {
	p := suite.Plane(t)
	ns := must(p.MakeNamespace(t.Context(), "Test/With Odd_Name"))(t)
	if !strings.HasPrefix(ns, "t-with-odd-name-") {
		t.Errorf("it is called %s", ns)
	}
	set := stateful("set", 2)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr[int64](600)
	must(p.Client().AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	must(must(dynamic.NewForConfig(p.Config()))(t).Resource(widgets).Namespace(ns).
		Create(t.Context(), newWidget([]string{"pawl.dev/nobody"}), metav1.CreateOptions{}))(t)
	eventually(t, "two pods", func(ctx context.Context) error {
		_, err := ready(ctx, p, ns, "set", 2)
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.DeleteNamespace(ctx, ns); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// A user has the rights that RBAC gives, and no others.
func TestUserHasNoMoreRightsThanRBACGives(t *testing.T) {
	p := suite.Plane(t)
	_, kubeconfig, err := p.User("someone", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(p.Binaries.Kubectl, "--kubeconfig", kubeconfig, "get", "pods").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Forbidden") {
		t.Errorf("kubectl get pods of a stranger: %v\n%s", err, out)
	}
}

// A silent node is detected, its pods move, and the node may return.
func TestPodsLeaveALostNode(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("web", "one"),
	}}
	must(p.Client().AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}))(t)
	var lost string
	eventually(t, "the pod", func(ctx context.Context) error {
		pods, err := ready(ctx, p, ns, "web", 1)
		if err == nil {
			lost = pods[0].Spec.NodeName
		}
		return err
	})
	if err := p.Kubelet.StopNode(lost); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kubelet.StartNode(context.Background(), lost); err != nil {
			t.Error(err)
		}
		eventuallyReady(p, lost)
	})
	eventually(t, "the pod elsewhere", func(ctx context.Context) error {
		pods, err := ready(ctx, p, ns, "web", 1)
		if err == nil && pods[0].Spec.NodeName == lost {
			err = errors.New("it is still on the lost node")
		}
		return err
	})
	if err := p.Kubelet.StopNode("nowhere"); err == nil {
		t.Error("an unknown node could be stopped")
	}
}

// eventuallyReady waits until pods may run on a node again.
func eventuallyReady(p *controlplane.Plane, name string) {
	for range 600 {
		n, err := p.Client().CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
		if err == nil && len(n.Spec.Taints) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// The API server may crash and restart: clients and nodes continue.
func TestAPIServerRestarts(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	if err := p.RestartAPIServer(500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	must(p.Client().AppsV1().StatefulSets(ns).Create(t.Context(), stateful("set", 1), metav1.CreateOptions{}))(t)
	eventually(t, "a pod", func(ctx context.Context) error {
		_, err := ready(ctx, p, ns, "set", 1)
		return err
	})
}
