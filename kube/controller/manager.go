package controller

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// The defaults of a manager.
const (
	FieldOwner = "pawl"          // field owner for server-side apply
	LeaseName  = "pawl-operator" // name of the leader's Lease
	qps        = 200             // requests per second to the API server
	burst      = 400

	leaseDuration = 15 * time.Second // controller-runtime's default
	cancelGrace   = 5 * time.Second  // time for a cancelled pass to end, after Drain
)

// Options of a manager. Scheme is required.
type Options struct {
	Scheme *runtime.Scheme
	// Namespaces are the namespaces that the manager serves; empty: all.
	Namespaces []string
	// Listen is the address of /healthz, /readyz and /metrics; empty: none.
	Listen string
	// MetricsToken is the bearer token that a request for metrics needs unless it comes to
	// a loopback address; empty: metrics are served on loopback only.
	MetricsToken string
	// LeaseNamespace and Lease name the Lease of the leader. Default: the
	// namespace of the pod, else "default"; LeaseName.
	LeaseNamespace, Lease string
	// LeaseDuration is how long a leader that does not renew stays the leader,
	// RenewDeadline how long it tries to renew, RetryPeriod the interval of its tries.
	// Default: 15 s, 10 s, 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// NoLeaderElection disables the leader election: only for a single process.
	NoLeaderElection bool
	// FieldOwner of all writes that name none. Default: FieldOwner.
	FieldOwner string
	// Drain is how long running passes may take when the manager is stopped.
	// Default: control.DefaultDrain.
	Drain time.Duration
	// Resync is the interval in which every object is reconciled without an event.
	// Default: 10 h.
	Resync time.Duration
	// NewClient makes the client beneath, for tests that let calls fail. nil: client.New.
	NewClient client.NewClientFunc
	// Metrics is the registry of the metrics. nil: a new registry.
	Metrics *prometheus.Registry
	Log     *slog.Logger // nil: slog.Default
}

// Manager runs controllers: see controller-runtime's Manager. Errors of its client are
// faults, reads come from caches, and probes and metrics are served at one address. A
// former leader writes nothing after its lease; use Fence for writes to other servers than
// the API server, and Leading for acts that are no requests.
type Manager struct {
	manager.Manager
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	live     client.Reader
	fence    *fence // nil: no leader election
	listener net.Listener
	kinds    []schema.GroupVersionKind // the watched kinds
	unsynced atomic.Int64              // sources whose caches are not synced yet

	health, ready checks
	background    sync.WaitGroup // goroutines of the controllers beside their passes
	passes        context.Context
	cancel        context.CancelCauseFunc
}

// NewManager returns a manager. It listens on Options.Listen, but sends no request to the
// API server yet.
func NewManager(config *rest.Config, o Options) (*Manager, error) {
	if config == nil || o.Scheme == nil {
		return nil, errors.New("controller: a manager needs a configuration and Options.Scheme")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.NewClient == nil {
		o.NewClient = client.New
	}
	o.Drain = cmp.Or(o.Drain, control.DefaultDrain)
	counted, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, "pawl")
	if config.QPS == 0 {
		config.QPS, config.Burst = qps, burst
	}
	var leader *fence
	if !o.NoLeaderElection {
		leader = &fence{lease: cmp.Or(o.LeaseDuration, leaseDuration).Truncate(time.Second)} // a Lease has whole seconds
		leader.guard(config)
	}
	inner, err := manager.New(config, o.managerOptions())
	if err != nil {
		return nil, Fault(err)
	}
	m := &Manager{Manager: inner, options: o, log: o.Log, registry: o.Metrics, metrics: counted, fence: leader,
		live: faultReader{inner.GetAPIReader()}}
	m.passes, m.cancel = context.WithCancelCause(context.Background())
	if o.Listen != "" {
		if err := m.serve(o.Listen, o.MetricsToken); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// managerOptions returns the options of controller-runtime's manager.
func (o Options) managerOptions() manager.Options {
	graceful := o.Drain + cancelGrace
	inner := manager.Options{
		Scheme: o.Scheme,
		Logger: logr.FromSlogHandler(o.Log.Handler()),
		Cache: cache.Options{
			DefaultTransform: bare,
		},
		Client: client.Options{FieldOwner: cmp.Or(o.FieldOwner, FieldOwner)},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := o.NewClient(config, options)
			if err != nil {
				return nil, err
			}
			return FaultClient(c), nil
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &graceful,
		LeaderElection:          !o.NoLeaderElection,
		LeaderElectionID:        cmp.Or(o.Lease, LeaseName),
		LeaderElectionNamespace: cmp.Or(o.LeaseNamespace, PodNamespace(), "default"),
		// The process ends with its manager, and by then all passes have ended.
		LeaderElectionReleaseOnCancel: true,
	}
	if o.Resync > 0 {
		inner.Cache.SyncPeriod = &o.Resync
	}
	for _, d := range []struct {
		given time.Duration
		to    **time.Duration
	}{{o.LeaseDuration, &inner.LeaseDuration}, {o.RenewDeadline, &inner.RenewDeadline}, {o.RetryPeriod, &inner.RetryPeriod}} {
		if d.given > 0 {
			*d.to = &d.given
		}
	}
	inner.Cache.DefaultNamespaces = o.cacheNamespaces()
	return inner
}

// bare drops what nobody reads: managed fields, half of the memory, and the annotations of
// CustomResourceDefinitions, which hold all of them where kubectl applied them.
func bare(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok && o.Kind == definitions().Kind {
		o.Annotations = nil
	}
	return cache.TransformStripManagedFields()(obj)
}

// cacheNamespaces returns the namespaces of a cache; nil: all.
func (o Options) cacheNamespaces() map[string]cache.Config {
	if len(o.Namespaces) == 0 {
		return nil
	}
	served := map[string]cache.Config{}
	for _, n := range o.Namespaces {
		served[n] = cache.Config{}
	}
	return served
}

// PodNamespace is where this process runs as a pod; empty elsewhere.
func PodNamespace() string {
	raw, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(raw))
}

// Addr returns the address of health and metrics; "" if they are not served.
func (m *Manager) Addr() string {
	if m.listener == nil {
		return ""
	}
	return m.listener.Addr().String()
}

// Live returns a reader of the API server that uses no cache. Its errors are faults.
func (m *Manager) Live() client.Reader { return m.live }

// Fence wraps a transport to other servers than the API server, such as agents. Its writes
// fail with LEADER_LOST after the lease of this leader. GET and HEAD are not checked.
func (m *Manager) Fence(next http.RoundTripper) http.RoundTripper {
	if m.fence == nil {
		return next
	}
	return m.fence.wrap(next)
}

// Leading returns LEADER_LOST after the lease of this leader. Acts that are no requests, such as
// programs that are started, ask it right before.
func (m *Manager) Leading() error {
	if m.fence == nil {
		return nil
	}
	if ago := m.fence.expiredFor(); ago > 0 {
		return LeaderLost.Errorf("the lease ended %s ago", ago.Round(time.Millisecond))
	}
	return nil
}

// Metrics returns the registry for further metrics of this process.
func (m *Manager) Metrics() *prometheus.Registry { return m.registry }

// Gatherer returns all metrics: those of this registry and of controller-runtime.
func (m *Manager) Gatherer() prometheus.Gatherer { return gatherers{m.registry, ctrlmetrics.Registry} }

// Events returns a recorder of Events with the name of a controller.
func (m *Manager) Events(name string) Events {
	return Events{recorder: m.GetEventRecorder("pawl-" + name)}
}

// AddHealthzCheck adds a check to /healthz.
func (m *Manager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.health.add(name, check)
}

// AddReadyzCheck adds a check to /readyz, which also checks that the caches are synced.
func (m *Manager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.ready.add(name, check)
}

// Start fills the caches, waits until it is elected and runs the controllers until the
// context ends. Then no new pass begins. Running passes may take Options.Drain, then their
// contexts are cancelled with control.ErrStopped. When Start returns nil, all passes have
// ended and the lease is released.
//
// When the lease is lost, Start cancels the passes and returns LEADER_LOST at once; the
// process must end then. After the end of the lease every write of a client made from
// GetConfig fails with LEADER_LOST and is not sent.
//
// Start returns KIND_MISSING if the API server does not know a watched kind. Call it once.
func (m *Manager) Start(ctx context.Context) error {
	for _, kind := range m.kinds {
		// Other errors may be over when the caches start.
		if _, err := m.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); fault.Of(Fault(err)) == KindMissing {
			return Fault(err)
		}
	}
	drained := make(chan struct{})
	m.background.Go(func() {
		select {
		case <-ctx.Done():
		case <-drained:
			return
		}
		limit := time.NewTimer(m.options.Drain)
		defer limit.Stop()
		select {
		case <-limit.C:
			m.cancel(control.ErrStopped)
		case <-drained:
		}
	})
	err := m.Manager.Start(ctx)
	if err != nil && err.Error() == "leader election lost" { // controller-runtime exports no error for it
		err = LeaderLost.Errorf("its lease was not renewed in time")
	}
	m.cancel(cmp.Or(err, control.ErrStopped))
	close(drained)
	if err == nil {
		m.background.Wait()
	}
	return Fault(err)
}
