package rollouts

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
)

const (
	namespace  = metav1.NamespaceDefault
	podsOfNode = 500
	// HeldLabel stands on a workload that Pawl holds, RolloutLabel on one that a Rollout names.
	heldLabel, rolloutLabel = "pawl.dev/held", "pawl.dev/rollout"
	holdAll                 = 1<<31 - 1
	firstImage              = "r0"
)

// auditPolicy logs what release delays are made of: the kubelet's writes of the status of pods, and
// writes to StatefulSets.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "Request", "verbs": ["patch"], "resources": [{"group": "", "resources": ["pods/status"]}]},
  {"level": "RequestResponse", "verbs": ["patch", "update"], "resources": [{"group": "apps", "resources": ["statefulsets"]}], "omitManagedFields": true},
  {"level": "None"}
]}`

// world is a control plane with StatefulSets.
type world struct {
	Options
	plane      *controlplane.Plane
	client     client.Client
	kubeconfig string // of the operator
	sets       cache.Store

	mu      sync.Mutex
	waiters map[string]waiter
}

// waiter waits until a set has a property.
type waiter struct {
	met  func(*appsv1.StatefulSet) bool
	done chan struct{}
}

// start starts a control plane with nodes for the pods, Pawl's definitions and its admission rule.
func start(ctx context.Context, o Options) (*world, error) {
	nodes := (o.Rollouts+o.Hanging)*o.Pods/podsOfNode + 2
	plane, err := controlplane.StartContext(ctx, controlplane.Options{
		Bin: o.Bin, CRDs: []string{"../deploy/crds"}, Kubelet: kubelet.Options{Nodes: nodes, Ready: o.ready()}, AuditPolicy: auditPolicy,
	})
	if err != nil {
		return nil, err
	}
	w := &world{Options: o, plane: plane, waiters: map[string]waiter{}}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return w, nil
}

// ready reports when a pod has started: as pods that are not on paper do, each after another time.
func (o Options) ready() func(*corev1.Pod) bool {
	if o.Start <= 0 {
		return nil
	}
	return func(p *corev1.Pod) bool {
		if p.Spec.Containers[0].Image == firstImage {
			return true
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(p.UID)) // it never fails
		part := float64(h.Sum32()) / math.MaxUint32
		return time.Since(p.CreationTimestamp.Time) >= time.Duration((0.5+part)*float64(o.Start))
	}
}

func (w *world) open(ctx context.Context) (err error) {
	scheme := runtime.NewScheme()
	if err := rollout.AddToScheme(scheme); err != nil {
		return err
	}
	config := w.plane.Config()
	config.QPS = -1
	if w.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	objects, err := deploy.Manifest()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
			if err := w.client.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	if _, w.kubeconfig, err = w.plane.User(deploy.Account, "system:masters"); err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(w.plane.Client(), 0, informers.WithNamespace(namespace))
	informer := factory.Apps().V1().StatefulSets().Informer()
	w.sets = informer.GetStore()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: w.seen, UpdateFunc: func(_, now any) { w.seen(now) }}); err != nil {
		stop()
		return err
	}
	factory.Start(watching.Done())
	w.plane.OnStop(func() {
		stop()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the StatefulSets could not be listed: %w", context.Cause(ctx))
	}
	return nil
}

// seen wakes the waiter of a set.
func (w *world) seen(obj any) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if waits, ok := w.waiters[set.Name]; ok && waits.met(set) {
		delete(w.waiters, set.Name)
		close(waits.done)
	}
}

// await waits until a set has a property; one waits for a set at a time.
func (w *world) await(ctx context.Context, name string, met func(*appsv1.StatefulSet) bool) error {
	waits := waiter{met: met, done: make(chan struct{})}
	w.mu.Lock()
	obj, ok, _ := w.sets.GetByKey(namespace + "/" + name)
	if set, is := obj.(*appsv1.StatefulSet); ok && is && met(set) {
		w.mu.Unlock()
		return nil
	}
	w.waiters[name] = waits
	w.mu.Unlock()
	select {
	case <-waits.done:
		return nil
	case <-ctx.Done():
		set, _ := obj.(*appsv1.StatefulSet)
		if again, ok, _ := w.sets.GetByKey(namespace + "/" + name); ok {
			set, _ = again.(*appsv1.StatefulSet)
		}
		return fmt.Errorf("StatefulSet %s: %w: %+v", name, context.Cause(ctx), set)
	}
}

// each calls f for 0 to n-1, so many at once, and returns the first error.
func each(n, atOnce int, f func(i int) error) error {
	if atOnce <= 0 || atOnce > n {
		atOnce = n
	}
	next := make(chan int)
	errs := make(chan error, atOnce)
	var all sync.WaitGroup
	stopped := make(chan struct{})
	var once sync.Once
	for range atOnce {
		all.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					errs <- err
					once.Do(func() { close(stopped) })
					return
				}
			}
		})
	}
feeding:
	for i := range n {
		select {
		case next <- i:
		case <-stopped:
			break feeding
		}
	}
	close(next)
	all.Wait()
	close(errs)
	return <-errs
}

func setName(i int) string { return fmt.Sprintf("s-%04d", i) }

// createSets makes n sets from number first on, and waits until their pods are ready.
func (w *world) createSets(ctx context.Context, first, n, pods int) error {
	began := time.Now()
	err := each(n, 100, func(i int) error {
		name := setName(first + i)
		labels := map[string]string{"app": name}
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(pods)), ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "main", Image: firstImage}}}},
			},
		}
		if err := w.client.Create(ctx, set); err != nil {
			return err
		}
		return w.await(ctx, name, func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == int32(pods) })
	})
	w.Logf("%d sets of %d pods were made in %v", n, pods, time.Since(began).Round(time.Millisecond))
	return err
}

// createRollouts makes a Rollout for each of the sets, and waits until they are parked.
func (w *world) createRollouts(ctx context.Context, first, n int, plan api.RolloutPlan) error {
	began := time.Now()
	err := each(n, 50, func(i int) error {
		name := setName(first + i)
		r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: api.RolloutSpec{
			TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name}, RolloutPlan: plan,
		}}
		if err := w.client.Create(ctx, r); err != nil {
			return err
		}
		return w.await(ctx, name, parked)
	})
	w.Logf("%d Rollouts were made in %v", n, time.Since(began).Round(time.Millisecond))
	return err
}

// parked reports whether Pawl holds a set that nothing moves.
func parked(s *appsv1.StatefulSet) bool {
	return s.Labels[heldLabel] != "" && partition(s) == holdAll && metav1.GetControllerOf(s) == nil
}

func partition(s *appsv1.StatefulSet) int32 {
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		return *u.Partition
	}
	return 0
}

// rolled reports whether all pods of a set have an image and are ready.
func rolled(image string) func(*appsv1.StatefulSet) bool {
	return func(s *appsv1.StatefulSet) bool {
		n := *s.Spec.Replicas
		return s.Spec.Template.Spec.Containers[0].Image == image && s.Status.ObservedGeneration >= s.Generation &&
			s.Status.CurrentRevision == s.Status.UpdateRevision && s.Status.UpdatedReplicas == n && s.Status.ReadyReplicas == n
	}
}

// rolledByPawl is rolled, after Pawl has let the set go and parked it.
func rolledByPawl(image string) func(*appsv1.StatefulSet) bool {
	ended := rolled(image)
	return func(s *appsv1.StatefulSet) bool { return parked(s) && ended(s) }
}

// patch is a merge patch of a set.
func (w *world) patch(ctx context.Context, name, text string) error {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return w.client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(text)))
}

func (w *world) setImage(ctx context.Context, name, image string) error {
	return w.patch(ctx, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}

// setImageAt changes image and partition in one patch.
func (w *world) setImageAt(ctx context.Context, name, image string, partition int) error {
	return w.patch(ctx, name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}},"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, image, partition))
}

// deleteRollouts deletes all Rollouts, and returns when the operator has let their sets go.
func (w *world) deleteRollouts(ctx context.Context) error {
	if err := w.client.DeleteAllOf(ctx, &api.Rollout{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var left metav1.PartialObjectMetadataList
		left.SetGroupVersionKind(rollout.GroupVersionKind)
		if err := w.client.List(ctx, &left, client.InNamespace(namespace), client.Limit(1)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if len(left.Items) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Rollouts are not gone: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	for _, obj := range w.sets.List() {
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			if err := w.patch(ctx, set.Name, `{"metadata":{"labels":{"`+heldLabel+`":null,"`+rolloutLabel+`":null}}}`); err != nil {
				return err
			}
		}
	}
	return nil
}

// cumulative is how many pods have the new revision after a batch, as Pawl deals them.
func (o Options) cumulative(batch int) int {
	size, rest := o.Pods/o.Batches, o.Pods%o.Batches
	return (batch+1)*size + max(0, batch+1-(o.Batches-rest))
}

// plan deals the pods into the batches.
func (o Options) plan() api.RolloutPlan {
	return api.RolloutPlan{NumBatches: new(int32(o.Batches))}
}

// rollAll changes the image of n sets, so many at a time, and waits for each until it has ended.
func (w *world) rollAll(ctx context.Context, n, atOnce int, begin func(name string) error, ended func(*appsv1.StatefulSet) bool) (time.Duration, error) {
	began := time.Now()
	err := each(n, atOnce, func(i int) error {
		if err := begin(setName(i)); err != nil {
			return err
		}
		return w.await(ctx, setName(i), ended)
	})
	return time.Since(began), err
}
