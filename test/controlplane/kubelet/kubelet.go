package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Mode is how pods are simulated.
type Mode int

// The modes.
const (
	StatusOnly Mode = iota // no processes; a function decides which pod is Ready
	Process                // containers are processes of this machine
)

// Options of a kubelet. Config is required, and Dir in the mode Process.
type Options struct {
	Config *rest.Config
	Mode   Mode
	// Nodes is the number of nodes; 3 by default. Their names are Name ("node" by default) and
	// a number from 1, and each is its own zone.
	Nodes int
	Name  string
	// Labels are added to all nodes.
	Labels map[string]string
	// Node changes node number n (from 1) before it is created: its labels, such as its zone,
	// and the taints in its spec. LabelNode and TaintNode change them later.
	Node func(n int, node *corev1.Node)
	// Ready decides in the mode StatusOnly which pod is Ready; all are by default. It is
	// called five times a second for each pod and must not block.
	Ready func(*corev1.Pod) bool
	// Termination returns in the mode StatusOnly how long a deleted pod takes to go, at most its
	// grace period. All go at once by default.
	Termination func(*corev1.Pod) time.Duration
	// Crash returns in the mode StatusOnly the next crash of a container that has restarted so
	// often, nil for none. The pod's annotations CrashAfterAnnotation and CrashTimesAnnotation
	// say the same without a function. Only containers with restartPolicy Always crash. It is called
	// as often as Ready and must not block.
	Crash func(pod *corev1.Pod, container string, restarts int32) *Crash
	// Images maps images to this machine in the mode Process. A name without a tag applies to
	// all tags without their own entry.
	Images map[string]Image
	// Users maps ids in pods (runAsUser, runAsGroup, fsGroup) to ids on this machine, for
	// images with other ids.
	Users map[int64]int64
	// Dir is the folder of pods and claims in the mode Process. Keep its path
	// short: sockets in it have at most 107 bytes.
	Dir string
	// InCluster puts in the mode Process the service account where in-cluster clients look
	// (/var/run/secrets/kubernetes.io/serviceaccount), in a mount namespace for each container,
	// instead of KUBECONFIG. It needs root: see CanMount.
	InCluster bool
	// DNS resolves in the mode Process the names of pods and Services for the containers, as a
	// cluster's DNS does. It needs root: see CanMount. Kubelet.Resolver is for others.
	DNS bool
	// FileDelay is in the mode Process how long after a change of a ConfigMap or Secret a running
	// pod sees it in its files (kubelets: up to a minute); at once by default. A pod that starts
	// sees the current ones. SetFileDelay changes it.
	FileDelay time.Duration
	// TokenAge is the age at which tokens of service accounts are replaced; half their validity
	// by default.
	TokenAge time.Duration
	// Addresses assigns the addresses of nodes and pods; 127.255.0.0/16 by default.
	Addresses *Addresses
	// Authority makes the nodes serve kubectl logs and exec over HTTPS, to clients with
	// certificates of it; without it they serve nothing.
	Authority *Authority
	// Lease is how often nodes renew their leases; 10 s by default.
	Lease time.Duration
	// Backoff is the wait before the second restart of a container in a row; it
	// doubles up to 30 times as long. 1 s by default (Kubernetes: 10 s).
	Backoff time.Duration
	// Record is called with the pid of each started process.
	Record func(pid int)
	// Log receives errors that are not a pod's fault.
	Log func(format string, args ...any)
}

// Kubelet simulates nodes. Start it with Start.
type Kubelet struct {
	o      Options
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	requests sync.WaitGroup // to the nodes' endpoints
	names    *names         // nil without Options.DNS

	mu             sync.Mutex
	nodes          map[string]*node
	workers        map[types.UID]*worker
	rules          map[string]func(*corev1.Pod) bool // by namespace
	statusOnlyPods map[types.UID]*paperPod
	delay          time.Duration // of files
	count          int           // number of pods, for the names of their folders
}

// Start creates the nodes and begins to serve their pods. Stop it before the
// API server stops.
func Start(ctx context.Context, o Options) (*Kubelet, error) {
	if o.Config == nil {
		return nil, errors.New("kubelet: no Config")
	}
	if o.Mode == Process && o.Dir == "" {
		return nil, errors.New("kubelet: the mode Process needs a Dir")
	}
	if (o.InCluster || o.DNS) && o.Mode == Process {
		if err := CanMount(); err != nil {
			return nil, fmt.Errorf("kubelet: InCluster and DNS: %w", err)
		}
	}
	o = o.withDefaults()
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	k := &Kubelet{
		o: o, client: client,
		queue:          workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second)),
		nodes:          map[string]*node{},
		workers:        map[types.UID]*worker{},
		rules:          map[string]func(*corev1.Pod) bool{},
		statusOnlyPods: map[types.UID]*paperPod{},
		delay:          o.FileDelay,
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	for n := 1; n <= o.Nodes; n++ {
		if err := k.addNode(ctx, fmt.Sprintf("%s-%d", o.Name, n), n); err != nil {
			k.Stop()
			return nil, err
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	k.pods = factory.Core().V1().Pods().Lister()
	if err := errors.Join(k.watch(informer, factory), k.serveDNS(factory)); err != nil {
		k.Stop()
		return nil, err
	}
	factory.Start(k.ctx.Done())
	k.wg.Go(func() {
		<-k.ctx.Done()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		k.Stop()
		return nil, fmt.Errorf("kubelet: the pods could not be listed: %w", context.Cause(ctx))
	}
	for range 8 {
		k.wg.Go(k.serve)
	}
	k.wg.Go(k.pollReadiness)
	return k, nil
}

func (o Options) withDefaults() Options {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Name == "" {
		o.Name = "node"
	}
	if o.Ready == nil {
		o.Ready = func(*corev1.Pod) bool { return true }
	}
	if o.Addresses == nil {
		o.Addresses = NewAddresses(255)
	}
	if o.Lease == 0 {
		o.Lease = 10 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Record == nil {
		o.Record = func(int) {}
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o
}

func (k *Kubelet) watch(informer cache.SharedIndexInformer, factory informers.SharedInformerFactory) error {
	add := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if pod, ok := obj.(*corev1.Pod); ok && k.ownsNode(pod.Spec.NodeName) {
			k.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, DeleteFunc: add, UpdateFunc: func(_, now any) { add(now) },
	}); err != nil {
		return err
	}
	if k.o.Mode == StatusOnly {
		return nil
	}
	// A running pod sees its ConfigMaps and Secrets change.
	changed := func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			k.refresh(o.GetNamespace(), o.GetName())
		}
	}
	refresh := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }}
	for _, source := range []cache.SharedIndexInformer{factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().Secrets().Informer()} {
		if _, err := source.AddEventHandler(refresh); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubelet) serveDNS(factory informers.SharedInformerFactory) (err error) {
	if !k.o.DNS || k.o.Mode != Process {
		return nil
	}
	services := factory.Core().V1().Services().Lister()
	if k.names, err = listenDNS(k.o.Addresses.server(), filepath.Join(k.o.Dir, "resolv"), services, k.pods, k.o.Log); err != nil {
		return err
	}
	k.wg.Go(k.names.serve)
	k.wg.Go(func() {
		<-k.ctx.Done()
		k.names.conn.Close()
	})
	return nil
}

// Stop kills all processes of pods and stops the simulation. The nodes and pods stay as
// objects.
func (k *Kubelet) Stop() {
	k.cancel()
	k.queue.ShutDown()
	k.mu.Lock()
	all := make([]*worker, 0, len(k.workers))
	for _, w := range k.workers {
		all = append(all, w)
	}
	k.mu.Unlock()
	for _, w := range all {
		w.killAll()
	}
	k.wg.Wait()
	k.requests.Wait()
}

func (k *Kubelet) refresh(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.name.Namespace == namespace && w.uses(name) {
			w.refresh()
		}
	}
}

// SetFileDelay changes Options.FileDelay for changes from now on.
func (k *Kubelet) SetFileDelay(delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delay = delay
}

func (k *Kubelet) fileDelay() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.delay
}

// Decide sets the function that decides which pods of a namespace are Ready in the mode
// StatusOnly, instead of Options.Ready; nil restores it.
func (k *Kubelet) Decide(namespace string, ready func(*corev1.Pod) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ready == nil {
		delete(k.rules, namespace)
		return
	}
	k.rules[namespace] = ready
}

// Pods returns how many pods of a namespace still have processes; "" means all.
func (k *Kubelet) Pods(namespace string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, w := range k.workers {
		if namespace == "" || w.name.Namespace == namespace {
			n++
		}
	}
	return n
}

func (k *Kubelet) serve() {
	for {
		name, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		if err := k.sync(name); err != nil && k.ctx.Err() == nil {
			k.o.Log("kubelet: pod %s: %v", name, err)
			k.queue.AddRateLimited(name)
		} else {
			k.queue.Forget(name)
		}
		k.queue.Done(name)
	}
}

// sync updates the processes of a pod to its current object.
func (k *Kubelet) sync(name types.NamespacedName) error {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		pod = nil // gone: a lister returns no other error
	}
	if k.o.Mode == Process {
		k.dispatch(name, withLocalUsers(pod, k.o.Users))
		return nil
	}
	if pod == nil || !k.reachable(pod.Spec.NodeName) {
		return nil
	}
	return k.syncStatusOnly(pod)
}

// pollReadiness polls the functions of the mode StatusOnly.
func (k *Kubelet) pollReadiness() {
	if k.o.Mode != StatusOnly {
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
		pods, err := k.pods.List(labels.Everything())
		if err != nil {
			continue
		}
		for _, pod := range pods {
			if k.reachable(pod.Spec.NodeName) && k.stale(pod) {
				k.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
			}
		}
	}
}
