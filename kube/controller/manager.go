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
	FieldOwner = "pawl"          // of what is written, as server-side apply counts owners
	LeaseName  = "pawl-operator" // of the Lease of the leader
	qps        = 200             // requests per second to the API server; fairness is its own matter
	burst      = 400

	leaseDuration = 15 * time.Second // controller-runtime's default
	lastWords     = 5 * time.Second  // for a cancelled pass to end, beyond the drain
)

// Options of a manager. Scheme is required.
type Options struct {
	Scheme *runtime.Scheme
	// Namespaces that are served; empty: all.
	Namespaces []string
	// Listen is the address of /healthz, /readyz and /metrics; empty: none.
	Listen string
	// MetricsToken is what a request for metrics must bear unless it comes to a
	// loopback address; empty: metrics are for loopback only.
	MetricsToken string
	// LeaseNamespace and Lease name the Lease of the leader. Default: the
	// namespace of the pod, else "default"; LeaseName.
	LeaseNamespace, Lease string
	// LeaseDuration is how long a silent leader stays one, RenewDeadline how long
	// it tries to renew, RetryPeriod how often. Default: 15 s, 10 s, 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Alone works without a leader election: only where nobody else can be.
	Alone bool
	// FieldOwner of all writes that name none. Default: FieldOwner.
	FieldOwner string
	// Drain is how long passes may take that are begun when the manager is
	// stopped. Default: control.DefaultDrain.
	Drain time.Duration
	// Resync is how often every object is looked at without an event. Default: 10 h.
	Resync time.Duration
	// NewClient makes the client beneath, for tests that let calls fail. nil: client.New.
	NewClient client.NewClientFunc
	// Metrics takes what is counted. nil: a registry of its own.
	Metrics *prometheus.Registry
	Log     *slog.Logger // nil: slog.Default
}

// Manager runs controllers: see controller-runtime's. Its client's errors are
// faults, its reads come from caches, its probes and metrics are served at one
// address, and one who was the leader writes nothing after its lease (Fence for
// what goes elsewhere than to the API server).
type Manager struct {
	manager.Manager
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *metrics
	live     client.Reader
	fence    *fence // nil: nobody else can be the leader
	listener net.Listener
	kinds    []schema.GroupVersionKind // that are watched
	filling  atomic.Int64              // sources whose caches are not filled yet

	health, ready checks
	background    sync.WaitGroup // what the controllers have begun beside their passes
	passes        context.Context
	cancel        context.CancelCauseFunc
}

// NewManager makes a manager. It asks the API server nothing yet, but listens.
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
	if !o.Alone {
		leader = &fence{lease: cmp.Or(o.LeaseDuration, leaseDuration).Truncate(time.Second)} // a Lease counts whole seconds
		leader.guard(config)
	}
	inner, err := manager.New(config, o.inner())
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

// inner are the options of controller-runtime's manager.
func (o Options) inner() manager.Options {
	graceful := o.Drain + lastWords
	inner := manager.Options{
		Scheme: o.Scheme,
		Logger: logr.FromSlogHandler(o.Log.Handler()),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), // half of the memory, and nobody reads it
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
		LeaderElection:          !o.Alone,
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
	inner.Cache.DefaultNamespaces = o.served()
	return inner
}

// served are the namespaces of a cache; nil: all.
func (o Options) served() map[string]cache.Config {
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

// Addr is where health and metrics are served; empty: nowhere.
func (m *Manager) Addr() string {
	if m.listener == nil {
		return ""
	}
	return m.listener.Addr().String()
}

// Live reads from the API server, past the caches. Its errors are faults.
func (m *Manager) Live() client.Reader { return m.live }

// Fence keeps writes over HTTP to others than the API server, such as orders to
// agents, within the lease of this leader: LEADER_LOST after it. GET and HEAD pass.
func (m *Manager) Fence(next http.RoundTripper) http.RoundTripper {
	if m.fence == nil {
		return next
	}
	return m.fence.before(next)
}

// Metrics takes further metrics of this process.
func (m *Manager) Metrics() *prometheus.Registry { return m.registry }

// Gatherer gives all metrics: ours, and those of controller-runtime.
func (m *Manager) Gatherer() prometheus.Gatherer { return gatherers{m.registry, ctrlmetrics.Registry} }

// Events writes Events in the name of a controller.
func (m *Manager) Events(name string) Events {
	return Events{recorder: m.GetEventRecorder("pawl-" + name)}
}

// AddHealthzCheck adds to what /healthz asks.
func (m *Manager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.health.add(name, check)
}

// AddReadyzCheck adds to what /readyz asks, beside full caches.
func (m *Manager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.ready.add(name, check)
}

// Start fills the caches, waits to be elected and runs the controllers, until
// the context ends. Then no pass begins any more; those that are begun may take
// Options.Drain, then their contexts are cancelled with control.ErrStopped.
// When it returns nil, none of them is left and the lease is given back. When
// the lease was lost, Start cancels them and returns LEADER_LOST at once; the
// process must end then. From the end of the lease on, no write of a client made
// of GetConfig leaves the process: each fails with LEADER_LOST. Call it once.
// KIND_MISSING if the API server does not know a kind that is watched.
func (m *Manager) Start(ctx context.Context) error {
	for _, kind := range m.kinds {
		// All other trouble may be over when the caches ask.
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
	if err != nil && err.Error() == "leader election lost" { // it has no other name there
		err = LeaderLost.Errorf("its lease was not renewed in time")
	}
	m.cancel(cmp.Or(err, control.ErrStopped))
	close(drained)
	if err == nil {
		m.background.Wait()
	}
	return Fault(err)
}
