package service

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/controller"
	"github.com/pawl-dev/pawl/cluster/flows"
	"github.com/pawl-dev/pawl/cluster/gc"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/notices"
	"github.com/pawl-dev/pawl/cluster/observe"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/resources"
	clustersync "github.com/pawl-dev/pawl/cluster/sync"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
)

// Service is the container cluster service. The faces call the methods of
// api.Service.
type Service struct {
	*api.Service
	engine     *boundEngine
	home       *resources.Home
	flows      []workflow.Flow
	controller *controller.Controller
	heartbeats *heartbeat.Receiver
	sync       *clustersync.Synchronizer
	collector  *gc.Collector
}

// New returns a service. Register its Flows in an engine and pass the engine to
// Bind. CLUSTER_INVALID if a required option is missing.
func New(o Options) (*Service, error) {
	if o.Records == nil || len(o.Providers) == 0 || o.Installation == "" {
		return nil, cluster.ClusterInvalid.Errorf("the service needs records, at least one provider and the id of this installation")
	}
	o = o.withDefaults()
	set, err := providers.New(o.Providers, o.Settings.PerProvider, o.Settings.CallTimeout, o.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Service{engine: &boundEngine{}, home: &resources.Home{URL: o.HomeURL, CA: o.HomeCA, Bootstrap: o.Bootstrap}}
	observer := observe.New(observe.Options{Store: o.Records, Providers: set, Installation: o.Installation, Probe: o.Probe, Now: o.Now})
	room := capacity.New(capacity.Options{Store: o.Records, Directory: o.Directory, Providers: set})
	upgrades := upgrade.New(o.Versions, set)

	s.controller = controller.New(controller.Options{Store: o.Records, Runs: s.engine, Settings: o.Settings, Metrics: o.Metrics, Logger: o.Logger, Now: o.Now})
	s.heartbeats = heartbeat.New(heartbeat.Options{Store: o.Records, Runs: s.engine, Providers: set, Versions: o.Versions, Logger: o.Logger, Now: o.Now})
	s.buildFlows(o, set, observer, room, upgrades)
	s.buildTasks(o, set)
	s.Service = api.New(api.Options{
		Store: o.Records, Providers: set, Directory: o.Directory, Runs: s.engine, Flows: s.flows, Observer: observer, Capacity: room, Upgrades: upgrades,
		Notify: s.controller.Notify, HomeURL: func() string { return s.home.URL }, Versions: o.Versions, Settings: o.Settings, Now: o.Now,
	})
	return s, nil
}

func (s *Service) buildFlows(o Options, set *providers.Set, observer *observe.Observer, room *capacity.Checker, upgrades *upgrade.Planner) {
	tokens := &heartbeat.Tokens{}
	s.flows = flows.New(flows.Options{
		Store: o.Records, Observer: observer, Capacity: room, Upgrades: upgrades, Tokens: tokens,
		Versions: o.Versions, Settings: o.Settings, Installation: o.Installation, Probe: o.Probe,
		Resources: resources.New(resources.Options{
			Store: o.Records, Providers: set, Members: s.heartbeats, Tokens: tokens, Home: func() resources.Home { return *s.home },
			Installation: o.Installation, Settings: o.Settings, Now: o.Now,
		}),
	})
}

// buildTasks builds the synchronization and the collector.
func (s *Service) buildTasks(o Options, set *providers.Set) {
	told := notices.New(notices.Options{Store: o.Records, Logger: o.Logger, Now: o.Now})
	s.sync = clustersync.New(clustersync.Options{
		Store: o.Records, Providers: set, Runs: s.engine, Notices: told, Notify: s.controller.Notify, Locks: o.Locks, Owner: o.Worker,
		Installation: o.Installation, Settings: o.Settings, Versions: o.Versions, Probe: o.Probe, Metrics: o.Metrics, Logger: o.Logger, Now: o.Now,
	})
	s.collector = gc.New(gc.Options{
		Store: o.Records, Providers: set, Runs: s.engine, Notices: told, Notify: s.controller.Notify, Synced: s.sync.FirstPass, Locks: o.Locks, Owner: o.Worker,
		Installation: o.Installation, Settings: o.Settings, Metrics: o.Metrics, Logger: o.Logger, Now: o.Now,
	})
}

// Flows returns the flows of the lifecycle, for workflow.New.
func (s *Service) Flows() []workflow.Flow { return s.flows }

// Bind sets the engine, which must have the flows of the service.
// MACHINE_INVALID.
func (s *Service) Bind(e Engine) error {
	var known func(string) bool
	if lister, ok := e.(interface{ Flows() []workflow.Flow }); ok {
		known = func(flow string) bool {
			return slices.ContainsFunc(lister.Flows(), func(f workflow.Flow) bool { return f.Name == flow })
		}
	}
	if err := s.controller.Bind(known); err != nil {
		return err
	}
	s.engine.Engine = e
	return nil
}

// Hook returns the hook that queues a cluster when its run ends or pauses. Add
// it to the hooks of the engine.
func (s *Service) Hook() workflow.Hook { return s.controller.Hook() }

// SetHomeURL sets Options.HomeURL, for a server that knows its address only once
// it listens. It must be called before Serve.
func (s *Service) SetHomeURL(url string) { s.home.URL = url }

// Heartbeat receives a heartbeat of a node. NODE_TOKEN_REFUSED.
func (s *Service) Heartbeat(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	return s.heartbeats.Heartbeat(ctx, token, h)
}

// KnowsNode checks the token of a heartbeat and changes nothing.
// NODE_TOKEN_REFUSED.
func (s *Service) KnowsNode(ctx context.Context, token string, h cluster.Heartbeat) error {
	return s.heartbeats.KnowsNode(ctx, token, h)
}

// Serve runs the controller and the periodic tasks until the context ends, and
// waits for all their goroutines. Bind must have been called.
func (s *Service) Serve(ctx context.Context) error {
	if s.engine.Engine == nil {
		return cluster.ClusterInvalid.Errorf("the service has no engine: call Bind before Serve")
	}
	return control.Run(ctx, []control.Runner{s.heartbeats, s.sync, s.collector}, []control.Runner{s.controller})
}
