package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim/program"
	fdbworld "github.com/pawl-dev/pawl/fdb/sim/world"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// launchers play what runs in pods on paper, of the unified image: the launcher, which tells by annotations what it
// has read, and fdbserver, which joins the world from within this process. They start servers and restart none.
type launchers struct {
	world   *fdbworld.World
	folder  string // of the servers' files
	objects cache.Cache
	client  client.Client
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	started map[types.UID]bool
	running sync.WaitGroup
}

// launch plays launchers until the context ends, and then waits for their servers.
func (p *paper) launch(ctx context.Context) (*launchers, error) {
	l := &launchers{
		world: p.environment.World, folder: p.folder, client: p.client, started: map[types.UID]bool{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 5*time.Second)),
	}
	var err error
	l.objects, err = cache.New(p.plane.Config(), cache.Options{Scheme: p.client.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, err
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}, &v1beta2.FoundationDBCluster{}} {
		informer, err := l.objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { l.seen(ctx, o) }, UpdateFunc: func(_, o any) { l.seen(ctx, o) },
		}); err != nil {
			return nil, err
		}
	}
	l.running.Go(func() { _ = l.objects.Start(ctx) }) // it ends with the context
	for range 4 {
		l.running.Go(func() { l.serve(ctx) })
	}
	context.AfterFunc(ctx, l.queue.ShutDown)
	return l, nil
}

// seen has the pods looked at that an object is about.
func (l *launchers) seen(ctx context.Context, object any) {
	switch o := object.(type) {
	case *corev1.Pod:
		l.queue.Add(client.ObjectKeyFromObject(o))
	case *corev1.ConfigMap:
		var pods corev1.PodList
		if l.objects.List(ctx, &pods, client.MatchingLabels{foundationdb.ClusterLabel: strings.TrimSuffix(o.Name, "-config")}) != nil {
			return
		}
		for i := range pods.Items {
			l.queue.Add(client.ObjectKeyFromObject(&pods.Items[i]))
		}
	}
}

func (l *launchers) serve(ctx context.Context) {
	for {
		key, over := l.queue.Get()
		if over {
			return
		}
		if err := l.sync(ctx, key); err != nil && ctx.Err() == nil {
			l.queue.AddRateLimited(key)
		} else {
			l.queue.Forget(key)
		}
		l.queue.Done(key)
	}
}

// sync has the launcher of a pod read its file, and start its server when there is to be one.
func (l *launchers) sync(ctx context.Context, key types.NamespacedName) error {
	var pod corev1.Pod
	if err := l.objects.Get(ctx, key, &pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	id, err := fdb.ParseGroupID(pod.Labels[foundationdb.GroupLabel])
	if err != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
		return nil //nolint:nilerr // it is not a pod of a cluster
	}
	var c v1beta2.FoundationDBCluster
	var files corev1.ConfigMap
	cluster := types.NamespacedName{Namespace: key.Namespace, Name: pod.Labels[foundationdb.ClusterLabel]}
	if err := l.objects.Get(ctx, cluster, &c); err != nil {
		return err
	}
	cluster.Name += "-config"
	if err := l.objects.Get(ctx, cluster, &files); err != nil {
		return err
	}
	c.Spec = foundationdb.Effective(c.Spec)
	conf := files.Data[foundationdb.MonitorConfKey(id.Class, v1beta2.ImageTypeUnified, 1)]
	variables := foundationdb.Variables(&c, id, &pod)
	if pod.Annotations[foundationdb.LauncherConfigurationAnnotation] != conf {
		told, err := json.Marshal(variables)
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			foundationdb.LauncherConfigurationAnnotation: conf, foundationdb.LauncherEnvironmentAnnotation: string(told),
		}}})
		if err != nil {
			return err
		}
		if err := l.client.Patch(ctx, &pod, client.RawPatch(types.MergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	seed := files.Data[foundationdb.ClusterFileKey]
	if seed == "" || strings.Contains(conf, `"runServers":false`) {
		return nil
	}
	c.Status.ConnectionString = seed
	commands, err := foundationdb.StartCommands(&c, id.Class, v1beta2.ImageTypeUnified, 1, variables)
	if err != nil {
		return err
	}
	return l.start(ctx, &pod, commands[0], seed)
}

// start starts the server of a pod, unless it has been.
func (l *launchers) start(ctx context.Context, pod *corev1.Pod, command, seed string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started[pod.UID] {
		return nil
	}
	root := filepath.Join(l.folder, string(pod.UID))
	file := filepath.Join(root, "var/dynamic-conf/fdb.cluster")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(seed+"\n"), 0o600); err != nil {
		return err
	}
	version, err := fdb.ParseVersion(tested)
	if err != nil {
		return err
	}
	l.started[pod.UID] = true
	l.running.Go(func() {
		program.Main(ctx, &program.Process{
			Args: strings.Fields(command), Environ: []string{"CONTAINER_ROOT=" + root}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
			Version: version, Folder: "/usr/bin", Signals: make(chan os.Signal), World: func() (*fdbworld.Peer, error) { return l.world.Pipe(), nil },
		})
	})
	return nil
}

// kinds are those of the objects here.
func kinds() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1beta2.AddToScheme(scheme)
}
