package foundationdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// user is whom the operator acts as, with the rights of kube.Rules.
const user = "fdb-operator"

// fixture is an operator in a namespace of its own.
type fixture struct {
	*testing.T
	plane     *controlplane.Plane
	namespace string
	admin     client.Client // with all rights, and no cache
	manager   *controller.Manager
	objects   *kube.Objects
}

func newFixture(t *testing.T, options kube.ObjectsOptions) *fixture {
	t.Helper()
	ran.Store(t.Name(), true)
	f := &fixture{T: t, plane: suite.Plane(t)}
	f.namespace = f.plane.Namespace(t)
	scheme := runtime.NewScheme()
	f.must(errors.Join(kube.AddToScheme(scheme), rbacv1.AddToScheme(scheme)))
	var err error
	f.admin, err = client.New(f.plane.Config(), client.Options{Scheme: scheme})
	f.must(err)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: append(append(kube.Rules(), kube.NodeRules()...),
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	for _, obj := range []client.Object{role, binding} {
		if err := f.admin.Create(t.Context(), obj); !apierrors.IsAlreadyExists(err) {
			f.must(err)
		}
	}
	config, _, err := f.plane.User(user)
	f.must(err)
	f.manager, err = controller.NewManager(config, controller.Options{Scheme: scheme, Namespaces: []string{f.namespace}, NoLeaderElection: true, Log: slog.New(slog.DiscardHandler)})
	f.must(err)
	options.Log = slog.New(slog.DiscardHandler)
	f.objects, err = kube.NewObjects(f.manager, options)
	f.must(err)
	return f
}

// start runs the manager until the test ends.
func (f *fixture) start() {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.manager.Start(ctx); err != nil {
			f.Errorf("the manager: %v", err)
		}
	})
	f.Cleanup(func() { cancel(); running.Wait() })
	f.until("the cache starts", func() error { return f.objects.List(ctx, &v1beta2.FoundationDBClusterList{}, f.namespace, nil) })
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// until polls until look returns no error.
func (f *fixture) until(what string, look func() error) {
	f.Helper()
	await.Until(f, 2*time.Minute, what, func(context.Context) error { return look() }) // a busy machine
}

func (f *fixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: name}
}

// child is the metadata of a child of a cluster.
func (f *fixture) child(owner client.Object, kind, name string) metav1.ObjectMeta {
	m := f.meta(name)
	m.Labels = map[string]string{"fdb": owner.GetName()} // labels are configurable
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta2.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true)}}
	return m
}

func pod(m metav1.ObjectMeta) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "foundationdb", Image: "i:1"}}}}
}

func claim(m metav1.ObjectMeta) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: m, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
}

func service(m metav1.ObjectMeta) *corev1.Service {
	return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}}}
}

func deployment(m metav1.ObjectMeta) *appsv1.Deployment {
	labels := map[string]string{"app": m.Name}
	return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(m).Spec}}}
}

// cluster makes a FoundationDBCluster, as its user does.
func (f *fixture) cluster(name string, change func(*v1beta2.FoundationDBCluster)) *v1beta2.FoundationDBCluster {
	f.Helper()
	c := &v1beta2.FoundationDBCluster{ObjectMeta: f.meta(name), Spec: v1beta2.FoundationDBClusterSpec{Version: "7.3.69"}}
	if change != nil {
		change(c)
	}
	f.must(f.admin.Create(f.Context(), c))
	return c
}

// passes counts the passes over each object.
type passes struct {
	mu    sync.Mutex
	count map[control.Ref]int
}

// Reconcile implements kube.Reconciler.
func (p *passes) Reconcile(_ context.Context, ref control.Ref) outcome.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count = map[control.Ref]int{}
	}
	p.count[ref]++
	return outcome.Done()
}

func (p *passes) of(ref control.Ref) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[ref]
}

func (p *passes) atLeast(ref control.Ref, n int) func() error {
	return func() error {
		if got := p.of(ref); got < n {
			return fmt.Errorf("%d passes over %s, want %d", got, ref, n)
		}
		return nil
	}
}
