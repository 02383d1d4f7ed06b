// Package rollout_test runs the operator of Rollouts against a real control plane: the StatefulSets
// and Deployments are those of kube-controller-manager, the pods are on paper.
package rollout_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// staysAnnotation on a pod says how long it takes to go.
const staysAnnotation = "test.pawl.dev/stays"

var suite = controlplane.NewSuite(controlplane.Options{
	CRDs: []string{"../../deploy/crds"}, Endpoints: true, Admission: []string{controlplane.NodeSelector},
	Kubelet: kubelet.Options{Nodes: 2, Termination: func(p *corev1.Pod) time.Duration {
		stays, err := time.ParseDuration(p.Annotations[staysAnnotation])
		if err != nil {
			return 0
		}
		return stays
	}},
})

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // worlds wait most of the time
		_ = flag.Set("test.parallel", "8")
	}
	suite.Main(m)
}

// world is a namespace with an operator of its own.
type world struct {
	*rollouttest.World
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	client    client.Client
	config    *rest.Config // of the operator

	hooks   *listener   // nil: none was asked for
	refused atomic.Bool // what hooks says
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := newQuietWorld(t)
	w.start(w.config)
	return w
}

// newQuietWorld is a namespace without an operator.
func newQuietWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, func(plane *controlplane.Plane) string { return plane.Namespace(t) })
}

// newWorldIn is a world in a namespace that was made for it.
func newWorldIn(t *testing.T, namespace func(*controlplane.Plane) string) *world {
	t.Helper()
	plane := suite.Plane(t)
	w := rollouttest.NewIn(t, plane, namespace(plane))
	return &world{World: w, t: t, plane: plane, namespace: w.Namespace, client: w.Client, config: w.Config}
}

// The words of this suite for what all worlds do.
func (w *world) start(config *rest.Config)                  { w.t.Helper(); w.Start(config) }
func (w *world) stop()                                      { w.t.Helper(); w.Stop() }
func (w *world) breakImage(image string)                    { w.Break(image) }
func (w *world) mendImage(image string)                     { w.Mend(image) }
func (w *world) get(name string, into client.Object)        { w.t.Helper(); w.Read(name, into) }
func (w *world) now(name string) *api.Rollout               { w.t.Helper(); return w.Now(name) }
func (w *world) gone(name string) bool                      { return w.Gone(name) }
func (w *world) patch(obj client.Object, name, text string) { w.t.Helper(); w.Patch(obj, name, text) }
func (w *world) annotate(name, verb, value string)          { w.t.Helper(); w.Annotate(name, verb, value) }
func (w *world) until(what string, met func() bool)         { w.t.Helper(); w.Until(what, met) }
func (w *world) waitsFor(name, reason string) *api.Rollout {
	w.t.Helper()
	return w.WaitsFor(name, reason)
}
func (w *world) images(app string) string         { w.t.Helper(); return w.PodImages(app) }
func (w *world) expectImages(app, want string)    { w.t.Helper(); w.ExpectPods(app, want) }
func (w *world) history(name string) string       { w.t.Helper(); return w.History(name) }
func (w *world) dump() string                     { return w.Dump() }
func (w *world) countPods() func() map[string]int { w.t.Helper(); return w.CountPods() }
func (w *world) is(name, condition string, status metav1.ConditionStatus) *api.Rollout {
	w.t.Helper()
	return w.Is(name, condition, status)
}

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

// statefulSet makes a set of pods with image r1 and waits until they are ready.
func (w *world) statefulSet(name string, replicas int, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	w.t.Helper()
	return w.statefulSetOf(name, "r1", replicas, policy)
}

func (w *world) statefulSetOf(name, image string, replicas int, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	w.t.Helper()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)), ServiceName: name, PodManagementPolicy: policy,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, image),
		},
	}
	if err := w.client.Create(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	w.until("the pods of "+name+" are ready", func() bool {
		w.get(name, set)
		return set.Status.ReadyReplicas == int32(replicas) && set.Status.UpdateRevision == set.Status.CurrentRevision
	})
	return set
}

// rollout makes a Rollout of a StatefulSet.
func (w *world) rollout(name string, spec api.RolloutSpec) {
	w.t.Helper()
	if spec.TargetRef.Name == "" {
		spec.TargetRef = api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name}
	}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: spec}
	if err := w.client.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setImage(name, image string) {
	w.t.Helper()
	w.patch(&appsv1.StatefulSet{}, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}
