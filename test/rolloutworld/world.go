// Package rolloutworld runs the operator of Rollouts in a namespace of a real control plane, for
// workloads of every kind: with OpenKruise's manager or without.
//
//	w := rolloutworld.New(t, plane)
//	w.Workload("CloneSet", "db", 3)
//	w.Start(w.Config)
//	w.Rollout("CloneSet", "db", api.RolloutSpec{})
//	w.Is("db", "Ready", metav1.ConditionTrue)
//	w.SetImage("CloneSet", "db", "r2")
package rolloutworld

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// Patience is how long a test waits for something that must come.
const Patience = 90 * time.Second

// World is a namespace with an operator of its own.
type World struct {
	*testing.T
	Plane     *controlplane.Plane
	Namespace string
	Client    client.Client
	Config    *rest.Config // of the operator
	Stop      func()       // ends the operator that was started last
	// Crashing is true while the operator's connections are lost on purpose.
	Crashing atomic.Bool

	mu     sync.Mutex
	broken map[string]bool
}

// Versions are the apiVersion of each kind in tests. AdvancedStatefulSet is a StatefulSet there.
var Versions = map[string]string{
	"StatefulSet": "apps/v1", "Deployment": "apps/v1", "CloneSet": "apps.kruise.io/v1alpha1", "AdvancedStatefulSet": "apps.kruise.io/v1beta1",
}

// New is a namespace without an operator. The admission rule of install.yaml stands.
func New(t *testing.T, plane *controlplane.Plane) *World {
	t.Helper()
	config := plane.Config()
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{T: t, Plane: plane, Namespace: plane.Namespace(t), Client: c, broken: map[string]bool{}}
	plane.Kubelet.Decide(w.Namespace, func(p *corev1.Pod) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.broken[p.Spec.Containers[0].Image]
	})
	if err := installGuard(c); err != nil {
		t.Fatal(err)
	}
	w.Config, _, err = plane.User(deploy.Account, "system:masters")
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

// installGuard installs the admission rules of install.yaml. The operators of these tests have the
// account that they let through.
func installGuard(c client.Client) error {
	objects, err := deploy.Manifest()
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

// Start runs an operator for the namespace, until the test ends or Stop is called.
func (w *World) Start(config *rest.Config) {
	w.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("PAWL_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	m, err := controller.NewManager(config, controller.Options{Scheme: scheme(w.T), Namespaces: []string{w.Namespace}, NoLeaderElection: true, Log: log})
	if err != nil {
		w.Fatal(err)
	}
	o, err := rollout.New(rollout.Options{Manager: m, Workers: 4, Log: log})
	if err != nil {
		w.Fatal(err)
	}
	if err := o.Setup(); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !w.Crashing.Load() {
			w.Errorf("the operator: %v", err)
		}
	})
	w.Stop = stop
	w.Cleanup(stop)
}

// Break makes pods with an image never ready.
func (w *World) Break(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[image] = true
}

// Object is an empty workload of a kind.
func Object(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Versions[kind], "kind": strings.TrimPrefix(kind, "Advanced")}}
	return o
}

// Workload makes a workload whose pods have image r1, and waits until they are ready. spec is merged
// over that of the kind.
func (w *World) Workload(kind, name string, replicas int, spec map[string]any) {
	w.Helper()
	w.Make(kind, name, replicas, spec)
	w.Until("the pods of "+name+" are ready", func() bool {
		o := w.Get(kind, name)
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
		current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision")
		update, _, _ := unstructured.NestedString(o.Object, "status", "updateRevision")
		return n == int64(replicas) && current == update
	})
}

// Make makes a workload whose pods have image r1.
func (w *World) Make(kind, name string, replicas int, spec map[string]any) {
	w.Helper()
	if err := w.TryMake(kind, name, replicas, spec); err != nil {
		w.Fatal(err)
	}
}

// TryMake is Make that may fail.
func (w *World) TryMake(kind, name string, replicas int, spec map[string]any) error {
	labels := map[string]any{"app": name}
	o := Object(kind)
	o.SetNamespace(w.Namespace)
	o.SetName(name)
	all := map[string]any{
		"replicas": int64(replicas), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "main", "image": "r1"}}},
		},
	}
	if o.GetKind() == "StatefulSet" {
		all["serviceName"] = name
	}
	for key, value := range spec {
		all[key] = value
	}
	o.Object["spec"] = all
	return w.Client.Create(w.Context(), o)
}

// Get reads a workload.
func (w *World) Get(kind, name string) *unstructured.Unstructured {
	w.Helper()
	o := Object(kind)
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
	return o
}

// Rollout makes a Rollout of a workload.
func (w *World) Rollout(kind, name string, spec api.RolloutSpec) {
	w.Helper()
	spec.TargetRef = api.WorkloadRef{APIVersion: Versions[kind], Kind: Object(kind).GetKind(), Name: name}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec}
	if err := w.Client.Create(w.Context(), r); err != nil {
		w.Fatal(err)
	}
}

// Now reads a Rollout.
func (w *World) Now(name string) *api.Rollout {
	w.Helper()
	r := &api.Rollout{}
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, r); err != nil {
		w.Fatal(err)
	}
	return r
}

// Patch is a merge patch, as kubectl does it.
func (w *World) Patch(obj client.Object, name, text string) {
	w.Helper()
	obj.SetNamespace(w.Namespace)
	obj.SetName(name)
	if err := w.Client.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// SetImage writes another template.
func (w *World) SetImage(kind, name, image string) {
	w.Helper()
	w.Patch(Object(kind), name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}

// Annotate writes a request.
func (w *World) Annotate(name, verb, value string) {
	w.Helper()
	w.Patch(&api.Rollout{}, name, fmt.Sprintf(`{"metadata":{"annotations":{"pawl.dev/%s":%q}}}`, verb, value))
}

// Until waits for a condition; the test ends when it does not come.
func (w *World) Until(what string, met func() bool) {
	w.Helper()
	for end := time.Now().Add(Patience); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: it did not come\n%s", what, w.Dump())
		}
	}
}

// Is waits for the status of a condition.
func (w *World) Is(name, condition string, status metav1.ConditionStatus) *api.Rollout {
	w.Helper()
	var r *api.Rollout
	w.Until(name+" has "+condition+"="+string(status), func() bool {
		r = w.Now(name)
		c := meta.FindStatusCondition(r.Status.Conditions, condition)
		return c != nil && c.Status == status && c.ObservedGeneration == r.Generation
	})
	return r
}

// WaitsFor waits for the reason of a wait.
func (w *World) WaitsFor(name, reason string) *api.Rollout {
	w.Helper()
	var r *api.Rollout
	w.Until(name+" waits for "+reason, func() bool {
		r = w.Now(name)
		return r.Status.Waiting != nil && r.Status.Waiting.Reason == reason
	})
	return r
}

// Pods are those of an app that do not go, by name.
func (w *World) Pods(app string) []corev1.Pod {
	w.Helper()
	var pods corev1.PodList
	if err := w.Client.List(w.Context(), &pods, client.InNamespace(w.Namespace), client.MatchingLabels{"app": app}); err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// Images counts the ready pods of an app by their image, as "r1=2 r2=1"; those that are not ready have a
// minus.
func (w *World) Images(app string) string {
	w.Helper()
	counts := map[string]int{}
	for _, p := range w.Pods(app) {
		image := p.Spec.Containers[0].Image
		if !Ready(p) {
			image += "-"
		}
		counts[image]++
	}
	var all []string
	for image, n := range counts {
		all = append(all, fmt.Sprintf("%s=%d", image, n))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Ready reports whether a pod is ready.
func Ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// Expect compares Images.
func (w *World) Expect(app, want string) {
	w.Helper()
	if got := w.Images(app); got != want {
		w.Errorf("the pods are %s, expected %s\n%s", got, want, w.Dump())
	}
}

// UIDs are those of the pods of an app, sorted.
func (w *World) UIDs(app string) []string {
	w.Helper()
	var all []string
	for _, p := range w.Pods(app) {
		all = append(all, string(p.UID))
	}
	slices.Sort(all)
	return all
}

// History is the events of a Rollout, in order.
func (w *World) History(name string) string {
	w.Helper()
	var records []api.RolloutRecord
	for _, record := range w.Now(name).Status.History {
		records = append(records, record)
	}
	slices.SortFunc(records, func(a, b api.RolloutRecord) int { return int(a.Sequence - b.Sequence) })
	var all []string
	for _, record := range records {
		all = append(all, record.Event)
	}
	return strings.Join(all, " ")
}

// Gone reports whether a Rollout does not exist.
func (w *World) Gone(name string) bool {
	err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, &api.Rollout{})
	return apierrors.IsNotFound(err)
}

// Dump is what the namespace holds, for a test that fails.
func (w *World) Dump() string {
	var b strings.Builder
	var rollouts api.RolloutList
	_ = w.Client.List(context.Background(), &rollouts, client.InNamespace(w.Namespace))
	for _, r := range rollouts.Items {
		r.ManagedFields = nil
		text, _ := json.MarshalIndent(map[string]any{"metadata": r.ObjectMeta, "status": r.Status}, "", " ")
		fmt.Fprintf(&b, "Rollout %s: %s\n", r.Name, text)
	}
	for kind := range Versions {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": Versions[kind], "kind": Object(kind).GetKind() + "List"}}
		_ = w.Client.List(context.Background(), list, client.InNamespace(w.Namespace))
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			text, _ := json.Marshal(o.Object)
			fmt.Fprintf(&b, "%s %s: %s\n", kind, o.GetName(), text)
		}
	}
	return b.String()
}

// Batches are batches of these sizes, and one with the rest.
func Batches(sizes ...int) []api.RolloutBatch {
	var all []api.RolloutBatch
	for _, size := range sizes {
		all = append(all, api.RolloutBatch{Replicas: amount(size)})
	}
	return append(all, api.RolloutBatch{})
}
