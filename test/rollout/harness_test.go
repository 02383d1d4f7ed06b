// Package rollout_test runs the operator of Rollouts against a real control plane: the StatefulSets
// and Deployments are those of kube-controller-manager, the pods are on paper.
package rollout_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/workflow/action/egress"
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

// patience is how long a test waits for something that must come.
const patience = 2 * time.Minute

// world is a namespace with an operator of its own.
type world struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	client    client.Client
	config    *rest.Config // of the operator
	options   rollout.Options

	mu       sync.Mutex
	broken   map[string]bool
	stop     func()
	crashing atomic.Bool // the operator's connections are lost on purpose
	elects   bool        // the operator is a candidate for the leader

	grace   time.Duration // how old what the operator decides on may be: see witness
	watched *witness
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
	config := plane.Config()
	config.QPS = -1
	s := scheme(t)
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, plane: plane, namespace: namespace(plane), client: c, broken: map[string]bool{}, grace: 3 * time.Second}
	w.watched = w.watchAll()
	plane.Kubelet.Decide(w.namespace, func(p *corev1.Pod) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.broken[p.Spec.Containers[0].Image] && !w.broken[p.Name]
	})
	if err := installGuard(plane); err != nil {
		t.Fatal(err)
	}
	w.config, _, err = plane.User(deploy.Account, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := rollout.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs an operator for the namespace, until the test ends or stop is called.
func (w *world) start(config *rest.Config) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("PAWL_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	options := controller.Options{Scheme: scheme(w.t), Namespaces: []string{w.namespace}, NoLeaderElection: true, Log: log}
	if w.elects {
		options.NoLeaderElection, options.LeaseNamespace = false, w.namespace
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = 8*time.Second, 6*time.Second, time.Second
	}
	m, err := controller.NewManager(config, options)
	if err != nil {
		w.t.Fatal(err)
	}
	reachable, err := egress.NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.options.Manager, w.options.Workers, w.options.Log, w.options.Egress = m, 4, log, reachable
	o, err := rollout.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := o.Setup(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !w.crashing.Load() {
			w.t.Errorf("the operator: %v", err)
		}
	})
	w.stop = stop
	w.t.Cleanup(stop)
}

// breakImage makes pods with an image, or with a name, never ready.
func (w *world) breakImage(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[image] = true
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

func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
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

// now reads a Rollout.
func (w *world) now(name string) *api.Rollout {
	w.t.Helper()
	r := &api.Rollout{}
	w.get(name, r)
	return r
}

// patch is a merge patch, as kubectl does it.
func (w *world) patch(obj client.Object, name, text string) {
	w.t.Helper()
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	if err := w.client.Patch(w.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setImage(name, image string) {
	w.t.Helper()
	w.patch(&appsv1.StatefulSet{}, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}

func (w *world) annotate(name, verb, value string) {
	w.t.Helper()
	w.patch(&api.Rollout{}, name, fmt.Sprintf(`{"metadata":{"annotations":{"pawl.dev/%s":%q}}}`, verb, value))
}

// until waits for a condition; the test ends when it does not come.
func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it did not come\n%s", what, w.dump())
		}
	}
}

// is waits for the status of a condition.
func (w *world) is(name, condition string, status metav1.ConditionStatus) *api.Rollout {
	w.t.Helper()
	var r *api.Rollout
	w.until(name+" has "+condition+"="+string(status), func() bool {
		r = w.now(name)
		c := meta.FindStatusCondition(r.Status.Conditions, condition)
		return c != nil && c.Status == status && c.ObservedGeneration == r.Generation
	})
	return r
}

// waitsFor waits for the reason of a wait.
func (w *world) waitsFor(name, reason string) *api.Rollout {
	w.t.Helper()
	var r *api.Rollout
	w.until(name+" waits for "+reason, func() bool {
		r = w.now(name)
		return r.Status.Waiting != nil && r.Status.Waiting.Reason == reason
	})
	return r
}

// images are those of the pods by their names, ready ones only with a plus.
func (w *world) images(app string) string {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.client.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app": app}); err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, p := range pods.Items {
		text := p.Spec.Containers[0].Image
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready || p.DeletionTimestamp != nil {
			text += "-"
		}
		all = append(all, strings.TrimPrefix(p.Name, app+"-")+"="+text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (w *world) expectImages(app, want string) {
	w.t.Helper()
	if got := w.images(app); got != want {
		w.t.Errorf("the pods are %s, expected %s\n%s", got, want, w.dump())
	}
}

// history is the events of a Rollout, in order.
func (w *world) history(name string) string {
	w.t.Helper()
	r := w.now(name)
	records := make([]api.RolloutRecord, 0, len(r.Status.History))
	for _, record := range r.Status.History {
		records = append(records, record)
	}
	slices.SortFunc(records, func(a, b api.RolloutRecord) int { return int(a.Sequence - b.Sequence) })
	var all []string
	for _, record := range records {
		all = append(all, record.Event)
	}
	return strings.Join(all, " ")
}

// dump is what the namespace holds, for a test that fails.
func (w *world) dump() string {
	var b strings.Builder
	var rollouts api.RolloutList
	var sets appsv1.StatefulSetList
	_ = w.client.List(context.Background(), &rollouts, client.InNamespace(w.namespace))
	for _, r := range rollouts.Items {
		r.ManagedFields = nil
		text, _ := json.MarshalIndent(map[string]any{"metadata": r.ObjectMeta, "status": r.Status}, "", " ")
		fmt.Fprintf(&b, "Rollout %s: %s\n", r.Name, text)
	}
	_ = w.client.List(context.Background(), &sets, client.InNamespace(w.namespace))
	for _, s := range sets.Items {
		s.ManagedFields = nil
		text, _ := json.Marshal(map[string]any{"metadata": s.ObjectMeta, "strategy": s.Spec.UpdateStrategy, "replicas": s.Spec.Replicas, "status": s.Status})
		fmt.Fprintf(&b, "StatefulSet %s: %s\n", s.Name, text)
	}
	return b.String()
}

func (w *world) gone(name string) bool {
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &api.Rollout{})
	return apierrors.IsNotFound(err)
}

// installGuard installs the admission rule of install.yaml. The operators of these tests have the
// account that it lets through.
func installGuard(plane *controlplane.Plane) error {
	objects, err := deploy.Manifest()
	if err != nil {
		return err
	}
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
			if err := client.IgnoreAlreadyExists(c.Create(context.Background(), o)); err != nil {
				return err
			}
		}
	}
	return nil
}
