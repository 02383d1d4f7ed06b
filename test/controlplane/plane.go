package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// Options of a plane. The zero value means three status-only nodes.
type Options struct {
	// Bin is the folder of the programs; bin/ of the repository by default.
	Bin string
	// CRDs are files and folders of CustomResourceDefinitions. They are installed before the
	// controller manager starts, so that its garbage collector knows them from the beginning.
	CRDs []string
	// Kubelet are the nodes; Config, Dir, Addresses and Record are filled in.
	// Nodes: -1 means none, for a test that starts its own (Plane.StartKubelet).
	Kubelet kubelet.Options
	// Endpoints makes all nodes serve kubectl logs and exec of pods with processes.
	Endpoints bool
	// NodeGrace is how long a node may be silent until it is NotReady (Kubernetes and default:
	// 50 s). EvictAfter is how long its pods stay then (5 min).
	NodeGrace, EvictAfter time.Duration
	// Audit are the users whose requests the API server logs: see Requests.
	Audit []string
	// AuditPolicy is the JSON of an audit policy instead of that of Audit: see AuditLog.
	AuditPolicy string
	// Admission are admission plugins in addition to Kubernetes' defaults.
	Admission []string
	// Keep keeps the folder with logs and pods after Stop.
	Keep bool
	// Log receives the errors of the fake kubelet; by default they go to kubelet.log in the
	// plane's folder.
	Log func(format string, args ...any)
}

// Plane is a running control plane.
type Plane struct {
	// Kubelet simulates the nodes; nil without nodes.
	Kubelet *kubelet.Kubelet
	// Binaries are the programs, kubectl among them.
	Binaries Binaries

	o          Options
	slot       *slot
	env        *envtest.Environment
	config     *rest.Config
	kubeconfig string
	client     kubernetes.Interface
	addresses  *kubelet.Addresses
	authority  *kubelet.Authority // nil: nodes serve nothing
	log        *os.File

	ctx      context.Context // ends when the plane stops
	cancel   context.CancelFunc
	mu       sync.Mutex
	children []*child
	kubelets []*kubelet.Kubelet
	closers  []func()
	stop     sync.Once
	stopped  error

	background sync.WaitGroup // namespaces that are being deleted
}

// startTimeout is how long a program may take to start on a busy machine.
const startTimeout = 2 * time.Minute

// Start starts a plane. It first builds programs that are missing in bin/ of the
// repository, which takes minutes; for another folder it returns BinariesMissing. Stop
// ends the plane.
func Start(o Options) (*Plane, error) { return StartContext(context.Background(), o) }

// StartContext is Start that gives up when ctx ends. The plane outlives ctx.
func StartContext(ctx context.Context, o Options) (*Plane, error) {
	binaries, err := provide(ctx, o.Bin)
	if err != nil {
		return nil, err
	}
	s, err := takeSlot()
	if err != nil {
		return nil, err
	}
	p := &Plane{Binaries: binaries, o: o, slot: s, addresses: kubelet.NewAddresses(s.number)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) (err error) {
	if p.log, err = os.Create(p.path("kubelet.log")); err != nil {
		return err
	}
	if p.o.Log == nil {
		p.o.Log = func(format string, args ...any) {
			fmt.Fprintf(p.log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
		}
	}
	if err := p.startServers(); err != nil {
		return err
	}
	if err := p.startControllers(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	claims, err := kubelet.StartClaims(ctx, p.Config(), p.path("claims"), p.o.Log)
	if err != nil {
		return err
	}
	p.OnStop(claims.Stop)
	if p.o.Kubelet.Nodes >= 0 {
		if p.Kubelet, err = p.StartKubelet(p.o.Kubelet); err != nil {
			return err
		}
	}
	return p.awaitAccount(ctx, "default")
}

// StartKubelet starts another set of nodes, which must have a Name of its own.
// It stops with the plane.
func (p *Plane) StartKubelet(o kubelet.Options) (*kubelet.Kubelet, error) {
	o.Config, o.Addresses, o.Record, o.Authority = p.Config(), p.addresses, p.slot.record, p.authority
	if o.Dir == "" {
		o.Dir = p.slot.dir // short, because of the limit for socket paths
		if o.Name != "" {
			o.Dir = p.path(o.Name)
		}
	}
	if o.Log == nil {
		o.Log = p.o.Log
	}
	ctx, cancel := context.WithTimeout(p.ctx, startTimeout)
	defer cancel()
	k, err := kubelet.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	p.OnStop(k.Stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kubelets = append(p.kubelets, k)
	return k, nil
}

// startServers starts etcd and the API server, and installs the CRDs.
func (p *Plane) startServers() error {
	etcdLog, err := os.Create(p.path("etcd.log"))
	if err != nil {
		return err
	}
	defer etcdLog.Close()
	apiLog, err := os.Create(p.path("kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer apiLog.Close()
	own := false // ignores USE_EXISTING_CLUSTER
	p.env = &envtest.Environment{
		UseExistingCluster:       &own,
		CRDDirectoryPaths:        p.o.CRDs,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  20 * time.Second,
	}
	p.env.ControlPlane.KubectlPath = p.Binaries.Kubectl
	p.env.ControlPlane.Etcd = &envtest.Etcd{Path: p.Binaries.Etcd, DataDir: p.path("etcd"), Out: etcdLog, Err: etcdLog}
	p.env.ControlPlane.Etcd.Configure().Set("log-level", "warn")
	api := p.env.ControlPlane.GetAPIServer()
	api.Path, api.CertDir, api.Out, api.Err = p.Binaries.APIServer, p.path("apiserver"), apiLog, apiLog
	if err := errors.Join(os.Mkdir(api.CertDir, 0o700), os.Mkdir(p.path("etcd"), 0o700)); err != nil {
		return err
	}
	flags := api.Configure()
	flags.Disable("disable-admission-plugins") // enable ServiceAccount: its controllers run
	flags.Set("service-cluster-ip-range", "10.96.0.0/16")
	// The API server refuses a loopback address, and finds no other without a default route;
	// nothing uses the endpoints of kubernetes.default.
	flags.Set("advertise-address", "192.0.2.10")
	flags.Set("endpoint-reconciler-type", "none")
	if p.o.Endpoints {
		if p.authority, err = kubelet.NewAuthority(); err != nil {
			return err
		}
		toNodes, err := p.authority.Flags(api.CertDir)
		if err != nil {
			return err
		}
		for name, value := range toNodes {
			flags.Set(name, value)
		}
	}
	if p.o.EvictAfter > 0 {
		seconds := fmt.Sprint(max(1, int(p.o.EvictAfter/time.Second)))
		flags.Set("default-not-ready-toleration-seconds", seconds)
		flags.Set("default-unreachable-toleration-seconds", seconds)
	}
	if len(p.o.Admission) > 0 {
		flags.Append("enable-admission-plugins", p.o.Admission...)
	}
	if err := p.audit(api); err != nil {
		return err
	}
	config, err := p.env.Start()
	p.recordServers()
	if err != nil {
		return fmt.Errorf("starting etcd and the API server: %w\n%s", err, tail(p.path("kube-apiserver.log"), 8))
	}
	p.config = config
	if p.client, err = kubernetes.NewForConfig(p.Config()); err != nil {
		return err
	}
	p.kubeconfig = p.path("kubeconfig")
	return errors.Join(
		os.WriteFile(p.kubeconfig, p.env.KubeConfig, 0o600),
		os.WriteFile(p.path("ca.crt"), config.CAData, 0o644),
	)
}

// recordServers records the processes that envtest has started: they do not end with this
// process.
func (p *Plane) recordServers() {
	for _, other := range kubelet.Procs() {
		if component(other, p.slot.dir) {
			p.slot.record(other.PID)
		}
	}
}

func (p *Plane) startControllers() error {
	common := []string{"--kubeconfig=" + p.kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"}
	manager := append(slices.Clone(common),
		"--service-account-private-key-file="+filepath.Join(p.env.ControlPlane.APIServer.CertDir, "sa-signer.key"),
		"--root-ca-file="+p.path("ca.crt"),
		"--pvclaimbinder-sync-period=2s",
	)
	if p.o.NodeGrace > 0 {
		manager = append(manager, "--node-monitor-grace-period="+p.o.NodeGrace.String(), "--node-monitor-period=1s")
	}
	for _, c := range []struct {
		name, path string
		args       []string
	}{
		{"kube-controller-manager", p.Binaries.ControllerManager, manager},
		{"kube-scheduler", p.Binaries.Scheduler, common},
	} {
		child, err := startChild(c.name, c.path, p.slot.dir, c.args...)
		if err != nil {
			return err
		}
		p.slot.record(child.cmd.Process.Pid)
		p.children = append(p.children, child)
	}
	return nil
}

// awaitAccount waits until pods can be created in a namespace: the controller manager has
// created its default service account.
func (p *Plane) awaitAccount(ctx context.Context, namespace string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if dead := p.Check(); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s has no service account: %w", namespace, err)
		case <-tick.C:
		}
	}
}

// Check returns PlaneDead, with the end of the log, when the controller manager
// or the scheduler has ended.
func (p *Plane) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.children {
		errs = append(errs, c.check())
	}
	return errors.Join(errs...)
}

// OnStop registers a function that runs when the plane stops, before the API server does:
// clients, informers and managers must end by then. The last registered function runs
// first.
func (p *Plane) OnStop(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closers = append(p.closers, f)
}

// RestartAPIServer stops the API server, leaves it down for a while, and starts
// it again at its old address.
func (p *Plane) RestartAPIServer(down time.Duration) error {
	api := p.env.ControlPlane.APIServer
	log, err := os.OpenFile(p.path("kube-apiserver.log"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// Open watches would delay a graceful stop: kill it.
	for _, other := range p.slot.leftovers() {
		if args := other.Args(); len(args) > 0 && args[0] == p.Binaries.APIServer {
			if err := kubelet.End([]kubelet.Proc{other}); err != nil {
				return err
			}
		}
	}
	_ = api.Stop() // it is gone; this tells envtest
	time.Sleep(down)
	api.Out, api.Err = log, log
	err = api.Start()
	p.recordServers()
	return err
}

// Stop stops the plane: first the clients, then the controllers, the API server and
// etcd, and the remaining processes of pods. It may be called again.
func (p *Plane) Stop() error {
	p.stop.Do(func() { p.stopped = p.halt() })
	return p.stopped
}

func (p *Plane) halt() error {
	p.mu.Lock()
	closers, children := slices.Clone(p.closers), p.children
	p.mu.Unlock()
	for _, f := range slices.Backward(closers) {
		f()
	}
	p.cancel()
	p.background.Wait()
	var all sync.WaitGroup
	for _, c := range children {
		all.Go(c.stop)
	}
	all.Wait()
	var err error
	if p.env != nil {
		err = p.env.Stop()
	}
	if p.log != nil {
		err = errors.Join(err, p.log.Close())
	}
	return errors.Join(err, p.slot.free(p.o.Keep))
}

// Dir is the folder of the plane: logs of its programs, pods and claims.
func (p *Plane) Dir() string { return p.slot.dir }

func (p *Plane) path(name string) string { return filepath.Join(p.slot.dir, name) }
