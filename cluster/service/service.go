package service

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Service is the container cluster service.
type Service struct {
	options    Options
	providers  map[string]cluster.Provider
	flows      []workflow.Flow
	engine     Engine
	controller *machine.Machine[*view]
	tokens     tokens
	heartbeats heartbeatState
	background background

	mu         sync.Mutex
	subscriber func(uuid string) // adds to the queue of the controller; nil: it does not run
}

// New returns a service. Register its Flows in an engine and pass the engine to
// Bind. CLUSTER_INVALID if a required option is missing.
func New(o Options) (*Service, error) {
	if o.Records == nil || len(o.Providers) == 0 || o.Installation == "" {
		return nil, cluster.ClusterInvalid.Errorf("the service needs records, at least one provider and the id of this installation")
	}
	o.Settings = o.Settings.withDefaults()
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	if o.Locks != nil { // other servers may have other clocks
		c := &clock{local: o.Now}
		o.Locks = clockBackend{o.Locks, c}
		o.Records = &clockStore{o.Records, o.Locks, c}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	s := &Service{options: o, providers: map[string]cluster.Provider{}, background: background{worker: control.NewUID()}}
	for _, n := range o.Providers {
		if _, twice := s.providers[n.Name]; twice || n.Name == "" || n.Provider == nil {
			return nil, cluster.ClusterInvalid.Errorf("provider %q: each provider needs a name of its own", n.Name)
		}
		s.providers[n.Name] = limit(n, &s.options)
	}
	s.flows = []workflow.Flow{s.startFlow(), s.stopFlow(), s.scaleFlow(), s.recoverFlow(), s.deleteFlow()}
	return s, nil
}

// OrDefault returns the settings with defaults in place of zero fields.
func (t Settings) OrDefault() Settings { return t.withDefaults() }

// withDefaults returns the settings with defaults in place of zero fields.
func (t Settings) withDefaults() Settings {
	t.SyncEvery = cmp.Or(t.SyncEvery, 30*time.Second)
	t.CollectEvery = cmp.Or(t.CollectEvery, 5*time.Minute)
	t.CollectFirst = cmp.Or(t.CollectFirst, t.CollectEvery/2)
	t.GCFirst = cmp.Or(t.GCFirst, cluster.GCBackoff.Initial)
	t.GCLongest = cmp.Or(t.GCLongest, cluster.GCBackoff.Max)
	t.OrphanGrace = cmp.Or(t.OrphanGrace, time.Hour)
	t.ReportAfter = cmp.Or(t.ReportAfter, 5)
	t.Settle = cmp.Or(t.Settle, 90*time.Second)
	t.MaxWorkers = cmp.Or(t.MaxWorkers, cluster.MaxWorkers)
	t.PerCluster = cmp.Or(t.PerCluster, 5)
	t.PerProvider = cmp.Or(t.PerProvider, 100)
	t.MaxUnavailable = cmp.Or(t.MaxUnavailable, 1)
	t.OnFailure = cmp.Or(t.OnFailure, cluster.Rollback)
	t.EndpointWait = cmp.Or(t.EndpointWait, 25*time.Minute)
	t.JoinWait = cmp.Or(t.JoinWait, 20*time.Minute)
	t.CallTimeout = cmp.Or(t.CallTimeout, time.Minute)
	t.PollFirst = cmp.Or(t.PollFirst, time.Second)
	t.PollLongest = cmp.Or(t.PollLongest, 15*time.Second)
	t.ResyncEvery = cmp.Or(t.ResyncEvery, 5*time.Second)
	return t
}

// Flows returns the flows of the lifecycle, for workflow.New.
func (s *Service) Flows() []workflow.Flow { return s.flows }

// Bind sets the engine, which must have the flows of the service.
// MACHINE_INVALID.
func (s *Service) Bind(e Engine) error {
	options := machine.Options[*view]{Objects: objects{s}, Flows: e, Now: s.options.Now, Logger: s.options.Logger}
	if lister, ok := e.(interface{ Flows() []workflow.Flow }); ok {
		options.Known = func(flow string) bool {
			return slices.ContainsFunc(lister.Flows(), func(f workflow.Flow) bool { return f.Name == flow })
		}
	}
	controller, err := machine.New(table(), options)
	if err != nil {
		return err
	}
	s.engine, s.controller = e, controller
	return nil
}

// SetHomeURL sets Options.HomeURL, for a server that knows its address only once
// it listens. It must be called before Serve.
func (s *Service) SetHomeURL(url string) { s.options.HomeURL = url }

// Serve runs the controller and the periodic tasks until the context ends, and
// waits for all their goroutines. Bind must have been called.
func (s *Service) Serve(ctx context.Context) error {
	if s.engine == nil {
		return cluster.ClusterInvalid.Errorf("the service has no engine: call Bind before Serve")
	}
	return control.Run(ctx, s.periodicTasks(), []control.Runner{s.newController()})
}

// periodicTasks returns the runners besides the controller.
func (s *Service) periodicTasks() []control.Runner {
	return []control.Runner{runner(s.flushHeartbeats), s.syncRunner(), s.collectRunner()}
}

// runner is a control.Runner of a function that ends with its context.
type runner func(ctx context.Context) error

// Run implements control.Runner.
func (r runner) Run(ctx context.Context) error { return r(ctx) }

// noMetrics is Metrics that does nothing.
type noMetrics struct{}

func (noMetrics) Operation(string, string, time.Duration)            {}
func (noMetrics) ProviderCall(string, string, string, time.Duration) {}
func (noMetrics) SyncPass(string, time.Duration, int)                {}
func (noMetrics) Collected(string)                                   {}
