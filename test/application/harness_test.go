// Package application_test runs the operators of Applications and of Rollouts against a real control
// plane: the workloads are those of kube-controller-manager, the pods are on paper.
package application_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/application"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
)

var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: 2}})

func TestMain(m *testing.M) { suite.Main(m) }

// patience is how long a test waits for something that must come.
const patience = 2 * time.Minute

// world is a namespace with the operators.
type world struct {
	t         *testing.T
	namespace string
	client    client.Client

	mu     sync.Mutex
	broken map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	plane := suite.Plane(t)
	config := plane.Config()
	config.QPS = -1
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{rollout.AddToScheme, application.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, namespace: plane.Namespace(t), client: c, broken: map[string]bool{}}
	plane.Kubelet.Decide(w.namespace, func(p *corev1.Pod) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.broken[p.Spec.Containers[0].Image]
	})
	operator, _, err := plane.User(deploy.Account, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("PAWL_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	m, err := controller.NewManager(operator, controller.Options{Scheme: s, Namespaces: []string{w.namespace}, NoLeaderElection: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	rollouts, err := rollout.New(rollout.Options{Manager: m, Workers: 4, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	applications, err := application.New(application.Options{Manager: m, Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, setup := range []func() error{rollouts.Setup, applications.Setup} {
		if err := setup(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator: %v", err)
		}
	})
	return w
}

// breakImage makes pods with an image never ready.
func (w *world) breakImage(image string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[image] = true
}

// component is a workload whose pods have the label app with its name.
func component(kind, name, image string, replicas int) api.ApplicationComponent {
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
	if kind == "StatefulSet" {
		spec["serviceName"], spec["podManagementPolicy"] = name, "Parallel"
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return api.ApplicationComponent{Name: name, Workload: api.ApplicationWorkload{APIVersion: "apps/v1", Kind: kind, Spec: runtime.RawExtension{Raw: text}}}
}

func stateful(name, image string, replicas int) api.ApplicationComponent {
	return component("StatefulSet", name, image, replicas)
}

func batches(sizes ...int) *api.RolloutPlan {
	p := &api.RolloutPlan{}
	for _, size := range sizes {
		p.RolloutBatches = append(p.RolloutBatches, api.RolloutBatch{Replicas: new(intstr.FromInt(size))})
	}
	p.RolloutBatches = append(p.RolloutBatches, api.RolloutBatch{})
	return p
}

func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, into); err != nil {
		w.t.Fatalf("%v\n%s", err, w.dump())
	}
}

func (w *world) gone(name string, kind client.Object) bool {
	return apierrors.IsNotFound(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, kind))
}

// apply makes an Application, or replaces its spec.
func (w *world) apply(name string, plan *api.RolloutPlan, components ...api.ApplicationComponent) {
	w.t.Helper()
	w.applySpec(name, api.ApplicationSpec{Components: components, RolloutPlan: plan})
}

func (w *world) applySpec(name string, spec api.ApplicationSpec) {
	w.t.Helper()
	for {
		a := &api.Application{}
		err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, a)
		if apierrors.IsNotFound(err) {
			err = w.client.Create(w.t.Context(), &api.Application{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: spec})
		} else if err == nil {
			a.Spec = spec
			err = w.client.Update(w.t.Context(), a)
		}
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			w.t.Fatal(err)
		}
	}
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

// until waits for a condition; the test ends when it does not come.
func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it did not come\n%s", what, w.dump())
		}
	}
}

// is waits for the status of a condition of the newest generation.
func (w *world) is(name, condition string, status metav1.ConditionStatus) *api.Application {
	w.t.Helper()
	a := &api.Application{}
	w.until(name+" has "+condition+"="+string(status), func() bool {
		w.get(name, a)
		c := meta.FindStatusCondition(a.Status.Conditions, condition)
		return c != nil && c.Status == status && a.Status.ObservedGeneration == a.Generation && c.ObservedGeneration == a.Generation
	})
	return a
}

// reaches waits until a revision is reached and everything is ready.
func (w *world) reaches(name, revision string) *api.Application {
	w.t.Helper()
	a := &api.Application{}
	w.until(name+" reaches "+revision, func() bool {
		w.get(name, a)
		return a.Status.ReachedRevision == revision && a.Status.LatestRevision == revision && meta.IsStatusConditionTrue(a.Status.Conditions, "Ready") &&
			a.Status.ObservedGeneration == a.Generation
	})
	return a
}

func (w *world) rollout(name string) *api.Rollout {
	w.t.Helper()
	r := &api.Rollout{}
	w.get(name, r)
	return r
}

// holds waits until the Rollout moves to a revision and stops at the partition, after a batch.
func (w *world) holds(name, revision string, batch int32) *api.Rollout {
	w.t.Helper()
	r := &api.Rollout{}
	w.until(fmt.Sprintf("%s holds after batch %d of %s", name, batch, revision), func() bool {
		if w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, r) != nil {
			return false
		}
		return r.Status.LastTargetRevision == revision && r.Status.Waiting != nil && r.Status.Waiting.Reason == "HeldByPartition" && r.Status.CurrentBatch == batch
	})
	return r
}

// images are those of the pods by their names; of one that is not ready with a minus.
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
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Kind == "StatefulSet" {
			text = strings.TrimPrefix(p.Name, app+"-") + "=" + text
		}
		all = append(all, text)
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

// events are those of the history of a Rollout, in order.
func (w *world) events(name string) string {
	w.t.Helper()
	r := w.rollout(name)
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
	for _, list := range []client.ObjectList{&api.ApplicationList{}, &api.ApplicationRevisionList{}, &api.RolloutList{}, &appsv1.StatefulSetList{}, &appsv1.DeploymentList{}} {
		_ = w.client.List(context.Background(), list, client.InNamespace(w.namespace))
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			o.(client.Object).SetManagedFields(nil)
			text, _ := json.MarshalIndent(o, "", " ")
			fmt.Fprintf(&b, "%T %s\n", o, text)
			return nil
		})
	}
	return b.String()
}
