package rollout

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/operator/rollout/gate"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/operator/rollout/pool"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// Kind is the kind of the objects of this operator.
const Kind = "Rollout"

// GroupVersionKind is that of Rollouts.
var GroupVersionKind = api.GroupVersion.WithKind(Kind)

// Finalizer stays on a Rollout from before its first claim until it has let its workload go.
const Finalizer = "pawl.dev/rollout"

// Options of the operator. Manager is required; its scheme needs AddToScheme.
type Options struct {
	Manager *controller.Manager
	// Name of the operator: it serves the Rollouts whose spec.operatorName is this. Empty: all.
	Name string
	// Guard is the name of the admission rule that protects held workloads. Default: DefaultGuard.
	Guard string
	// Egress decides which addresses webhooks and metrics may reach; those of the API server are refused
	// too. nil: the zero policy.
	Egress *egress.Policy
	// Exec lets probes and handovers run commands in pods.
	Exec bool
	// Flows run the flows that hooks name. nil: such a hook is refused.
	Flows Flows
	// Workers is the number of Rollouts that are worked on at once. 0: controller.DefaultWorkers.
	Workers int
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	Log *slog.Logger // nil: slog.Default
}

// Operator serves Rollouts.
type Operator struct {
	name       string
	workers    int
	now        func() time.Time
	log        *slog.Logger
	manager    *controller.Manager
	cache      *controller.Cache
	store      *controller.Store[*api.Rollout]
	events     events
	dependents *workload.Dependents
	awaited    *awaited
	live       client.Reader
	turns      *turns
	calls      *pool.Pool
	outside    *outside.Client
	gates      gate.Set
	flows      Flows
	mayExec    bool
	guard      *guard
	metrics    *metrics
	rollouts   *rollouts
	history    history
}

// AddToScheme adds the kinds that the operator reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{api.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	return addApps(s)
}

// New makes the operator and its cache.
func New(o Options) (*Operator, error) {
	op := &Operator{name: o.Name, workers: o.Workers, now: o.Now, log: o.Log, manager: o.Manager, live: o.Manager.Live(),
		flows: o.Flows, mayExec: o.Exec, calls: pool.New()}
	if op.now == nil {
		op.now = time.Now
	}
	if op.log == nil {
		op.log = slog.Default()
	}
	op.rollouts = newRollouts(op.now)
	var err error
	if op.cache, err = newCache(o.Manager); err != nil {
		return nil, err
	}
	if op.metrics, err = newMetrics(o.Manager.Metrics(), op.now); err != nil {
		return nil, err
	}
	brief, err := o.Manager.BriefStatus(op.cache.Client(), GroupVersionKind)
	if err != nil {
		return nil, err
	}
	op.store = &controller.Store[*api.Rollout]{
		Client: brief, Live: o.Manager.Live(), New: func() *api.Rollout { return &api.Rollout{} }, Finalizer: Finalizer,
		Matters: isRequest,
	}
	op.events = events{o.Manager.Events("rollout")}
	op.history = history{client: op.cache.Client(), live: o.Manager.Live()}
	op.dependents = &workload.Dependents{New: op.newDependentCache, Wake: op.rollouts.wake}
	op.awaited = &awaited{open: op.newAwaitedCache, wake: op.rollouts.wake}
	op.outside = &outside.Client{Live: o.Manager.Live(), Config: o.Manager.GetConfig(), Egress: outside.WithoutAPIServer(o.Egress, o.Manager.GetConfig())}
	op.turns = newTurns(o.Manager.GetConfig())
	op.guard = &guard{live: o.Manager.Live(), name: cmp.Or(o.Guard, DefaultGuard), now: op.now}
	return op, nil
}

// newCache holds the Rollouts, the workloads with their label, and what limits them.
func newCache(m *controller.Manager) (*controller.Cache, error) {
	labelled, err := labels.NewRequirement(workload.RolloutLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	all := cache.ByObject{Label: labels.Everything()}
	return m.NewCache(controller.CacheOptions{
		Labels: labels.NewSelector().Add(*labelled),
		ByObject: map[client.Object]cache.ByObject{
			&api.Rollout{}: all, &api.ApplicationRevision{}: all, &policyv1.PodDisruptionBudget{}: all, &autoscalingv2.HorizontalPodAutoscaler{}: all,
			&corev1.ConfigMap{}: {Label: labels.Everything(), Field: fields.OneTermEqualSelector("metadata.name", workload.AnchorName)},
		},
	})
}

// newDependentCache is the cache of what one selector selects.
func (o *Operator) newDependentCache(namespace string, selector labels.Selector) (cache.Cache, error) {
	observed := *o.manager.GetHTTPClient()
	observed.Transport = contact{observed.Transport, o.rollouts.suspect}
	return cache.New(o.manager.GetConfig(), cache.Options{
		HTTPClient: &observed, Scheme: o.manager.GetScheme(), Mapper: o.manager.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {LabelSelector: selector}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
}

// Setup adds the controller of Rollouts to the manager.
func (o *Operator) Setup() error {
	if err := o.manager.Add(closing{o}); err != nil {
		return err
	}
	return controller.Setup(o.manager, controller.Controller[*api.Rollout]{
		Name: "rollout", For: &api.Rollout{}, Cache: o.cache, Reconcile: o.Reconcile, Workers: o.workers, MaxRetries: controller.Unlimited,
		Conditions: func(r *api.Rollout) *[]metav1.Condition { return &r.Status.Conditions },
		Watches:    o.watches(), Signals: o.rollouts.listen,
	})
}

// watches wake for the labelled workloads, autoscalers that come, go and turn to something else, and budgets that allow more or less.
func (o *Operator) watches() []controller.Watch {
	var all []controller.Watch
	for _, kind := range workload.Kinds() {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		all = append(all, controller.Watch{Object: obj, Optional: workload.Optional(kind.Group), Keys: o.rollouts.labelledRollout, When: predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				was, okWas := e.ObjectOld.(*unstructured.Unstructured)
				is, okIs := e.ObjectNew.(*unstructured.Unstructured)
				return !okWas || !okIs || workload.Changed(was, is)
			},
		}})
	}
	all = append(all, controller.Watch{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Keys: o.rollouts.movingIn, When: predicate.Funcs{UpdateFunc: retargeted}})
	all = append(all, controller.Watch{Object: &api.ApplicationRevision{}, Optional: true, Keys: o.naming})
	all = append(all, controller.Watch{Object: &api.Rollout{}, Keys: o.rollouts.claimants, When: predicate.GenerationChangedPredicate{}})
	all = append(all, controller.Watch{Object: &corev1.ConfigMap{}, Keys: o.rollouts.movingIn, When: predicate.Funcs{ // the anchor
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}})
	return append(all, controller.Watch{Object: &policyv1.PodDisruptionBudget{}, Keys: o.rollouts.movingIn, When: predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, okWas := e.ObjectOld.(*policyv1.PodDisruptionBudget)
			is, okIs := e.ObjectNew.(*policyv1.PodDisruptionBudget)
			return !okWas || !okIs || was.Status.DisruptionsAllowed != is.Status.DisruptionsAllowed || !reflect.DeepEqual(was.Spec.Selector, is.Spec.Selector)
		},
	}})
}

// retargeted reports whether an autoscaler scales something else now.
func retargeted(e event.UpdateEvent) bool {
	was, okWas := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
	is, okIs := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
	return !okWas || !okIs || was.Spec.ScaleTargetRef != is.Spec.ScaleTargetRef
}

// serves reports whether a Rollout is for this operator.
func (o *Operator) serves(r *api.Rollout) bool {
	return o.name == "" || r.Spec.OperatorName == o.name
}

// closing ends calls and watches on dependents with the manager.
type closing struct{ *Operator }

// Start implements manager.Runnable.
func (c closing) Start(ctx context.Context) error {
	<-ctx.Done()
	c.calls.Close()
	c.dependents.Close()
	c.awaited.close()
	return nil
}

// identity is the Rollout as kube/workload knows it.
func identity(r *api.Rollout) workload.Identity {
	return workload.Identity{Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// kindOf is the kind of the target. One that Pawl does not drive keeps its name, and is refused.
func kindOf(ref api.WorkloadRef) rollout.Kind {
	kind, err := workload.KindOf(ref.APIVersion, ref.Kind)
	switch {
	case err == nil:
		return kind
	case fault.Of(err) != rollout.KindNotServed:
		return rollout.Kind(ref.Kind + " of " + ref.APIVersion)
	case strings.HasPrefix(ref.APIVersion, "apps.kruise.io/") && ref.Kind == string(rollout.StatefulSet):
		return rollout.AdvancedStatefulSet
	}
	return rollout.Kind(ref.Kind)
}

// forget drops what is known of a Rollout that does not exist any more.
func (o *Operator) forget(key client.ObjectKey) {
	o.dependents.Release(key)
	_ = o.awaited.set(key, nil)
	o.rollouts.drop(key)
}
