// Package rollouttest runs the operators of Rollouts and Applications in a namespace of a real control
// plane, for workloads of every kind: with OpenKruise's manager or without.
//
//	w := rollouttest.New(t, plane)
//	w.Workload("CloneSet", "db", 3, nil)
//	w.Start(w.Config)
//	w.Rollout("CloneSet", "db", api.RolloutSpec{})
//	w.Is("db", "Ready", metav1.ConditionTrue)
//	w.SetImage("CloneSet", "db", "r2")
package rollouttest

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
	"github.com/pawl-dev/pawl/operator/application"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// Patience is how long a test waits for something that must come.
const Patience = 4 * time.Minute

// World is a namespace with an operator of its own.
type World struct {
	*testing.T
	Plane     *controlplane.Plane
	Namespace string
	Client    client.Client
	Config    *rest.Config // of the operator
	Stop      func()       // ends the operator that was started last
	Witness   *Witness

	// Options are those of the operator of Rollouts that starts next.
	Options rollout.Options
	// Applications makes the next process serve Applications too.
	Applications bool
	// Elects makes the next process a candidate for the leader.
	Elects bool
	// Crashing is true while the operator's connections are lost on purpose.
	Crashing atomic.Bool

	mu     sync.Mutex
	broken map[string]bool
}

// New is a namespace without an operator. The admission rules of install.yaml stand, and a Witness
// follows what happens.
func New(t *testing.T, plane *controlplane.Plane) *World {
	t.Helper()
	return NewIn(t, plane, plane.Namespace(t))
}

// NewIn is New in a namespace that exists.
func NewIn(t *testing.T, plane *controlplane.Plane, namespace string) *World {
	t.Helper()
	config := plane.Config()
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &World{T: t, Plane: plane, Namespace: namespace, Client: c, broken: map[string]bool{}}
	w.Witness = w.watchAll()
	plane.Kubelet.Decide(w.Namespace, func(p *corev1.Pod) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.broken[p.Spec.Containers[0].Image] && !w.broken[p.Name]
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

// Scheme has the kinds that the operators read and write.
func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{rollout.AddToScheme, application.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
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
	options := controller.Options{Scheme: Scheme(w.T), Namespaces: []string{w.Namespace}, NoLeaderElection: true, Log: log}
	if w.Elects {
		options.NoLeaderElection, options.LeaseNamespace = false, w.Namespace
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = 8*time.Second, 6*time.Second, time.Second
	}
	m, err := controller.NewManager(config, options)
	if err != nil {
		w.Fatal(err)
	}
	if err := w.setUp(m, log); err != nil {
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

func (w *World) setUp(m *controller.Manager, log *slog.Logger) error {
	reachable, err := egress.NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}
	w.Options.Manager, w.Options.Workers, w.Options.Log, w.Options.Egress = m, 4, log, reachable
	rollouts, err := rollout.New(w.Options)
	if err != nil {
		return err
	}
	if err := rollouts.Setup(); err != nil || !w.Applications {
		return err
	}
	applications, err := application.New(application.Options{Manager: m, Name: w.Options.Name, Workers: 4, Now: w.Options.Now})
	if err != nil {
		return err
	}
	return applications.Setup()
}

// Break makes pods with an image, or with a name, never ready.
func (w *World) Break(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[image] = true
}

// Mend ends Break.
func (w *World) Mend(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.broken, image)
}

// Read reads an object of the namespace.
func (w *World) Read(name string, into client.Object) {
	w.Helper()
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, into); err != nil {
		w.Fatalf("%v\n%s", err, w.Dump())
	}
}

// Missing reports whether an object does not exist.
func (w *World) Missing(name string, kind client.Object) bool {
	return apierrors.IsNotFound(w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, kind))
}

// Now reads a Rollout.
func (w *World) Now(name string) *api.Rollout {
	w.Helper()
	r := &api.Rollout{}
	w.Read(name, r)
	return r
}

// Gone reports whether a Rollout does not exist.
func (w *World) Gone(name string) bool { return w.Missing(name, &api.Rollout{}) }

// Patch is a merge patch, as kubectl does it.
func (w *World) Patch(obj client.Object, name, text string) {
	w.Helper()
	obj.SetNamespace(w.Namespace)
	obj.SetName(name)
	if err := w.Client.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// Annotate writes a request.
func (w *World) Annotate(name, verb, value string) {
	w.Helper()
	w.Patch(&api.Rollout{}, name, fmt.Sprintf(`{"metadata":{"annotations":{"pawl.dev/%s":%q}}}`, verb, value))
}

// Until waits for a condition; the test ends when it does not come. It is asked for again and again: most
// conditions are answers of the API server about several objects, of which no single watch tells.
func (w *World) Until(what string, met func() bool) {
	w.Helper()
	for end := time.Now().Add(Patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: it did not come\n%s", what, w.Dump())
		}
	}
}

// Is waits for the status of a condition of the newest generation.
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

// Dump is what the namespace holds, for a test that fails.
func (w *World) Dump() string {
	var b strings.Builder
	for _, list := range []client.ObjectList{&api.ApplicationList{}, &api.ApplicationRevisionList{}, &api.RolloutList{}} {
		_ = w.Client.List(context.Background(), list, client.InNamespace(w.Namespace))
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			o.(client.Object).SetManagedFields(nil)
			text, _ := json.MarshalIndent(o, "", " ")
			fmt.Fprintf(&b, "%T %s\n", o, text)
			return nil
		})
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
	pods := &corev1.PodList{} // last: what is printed of a failure may be its end only
	_ = w.Client.List(context.Background(), pods, client.InNamespace(w.Namespace))
	for _, p := range pods.Items {
		fmt.Fprintf(&b, "Pod %s: image %s, made %s, ready %t, deleted %v\n", p.Name, p.Spec.Containers[0].Image, p.CreationTimestamp.UTC().Format(time.TimeOnly), Ready(p), p.DeletionTimestamp)
	}
	return b.String()
}
