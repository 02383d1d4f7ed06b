// Package api is what the faces of container clusters call: requests, reads, lists
// and plans.
package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Runs reads and plans runs.
type Runs interface {
	Get(ctx context.Context, id string) (*runtype.Run, error)
	Plan(flow string, input json.RawMessage) (workflow.Plan, error)
	Store() runstore.Store
}

// Providers finds configured providers.
type Providers interface {
	Names() []string
	Has(name string) bool
	Provider(name string) (cluster.Provider, error)
}

// Observer observes clusters.
type Observer interface {
	Observe(ctx context.Context, record *cluster.Record) (cluster.Observed, error)
}

// Capacity tells what prevents more nodes.
type Capacity interface {
	Findings(ctx context.Context, c *cluster.Cluster, nodes, grown int, stored capacity.Counted) ([]cluster.Finding, error)
}

// Upgrades decides which nodes an upgrade changes, and how.
type Upgrades interface {
	MayUpgradeControl(record *cluster.Record, ask *cluster.Request) error
	Order(record *cluster.Record, ask *cluster.Request) []upgrade.Batch
}

// Options of a Service.
type Options struct {
	Store     cluster.Store
	Providers Providers
	Directory Directory // nil: one account without limits
	Runs      Runs
	Flows     []workflow.Flow // of the lifecycle
	Observer  Observer
	Capacity  Capacity
	Upgrades  Upgrades
	Notify    func(uuid string) // queues a cluster for the controller
	HomeURL   func() string     // base URL for heartbeats of nodes, without the path
	Versions  settings.Versions
	Settings  settings.Settings
	Now       func() time.Time
}

// Service is what the faces of container clusters call.
type Service struct {
	*Reader
	*Requests
	*Planner
	*Explainer
}

// New returns a service.
func New(o Options) *Service {
	reader := &Reader{&o}
	requests := &Requests{options: &o, reader: reader, drafter: &drafter{&o}}
	return &Service{reader, requests, &Planner{options: &o, requests: requests}, &Explainer{&o}}
}

// Reader reads clusters as far as a caller may see them.
type Reader struct{ options *Options }

// Requests accepts changes of clusters.
type Requests struct {
	options *Options
	reader  *Reader
	drafter *drafter
}

// Planner tells what a request would do. Nothing is stored or created.
type Planner struct {
	options  *Options
	requests *Requests
}

// Explainer tells what the run of a cluster waits for.
type Explainer struct{ options *Options }

// drafter checks the request for a new cluster.
type drafter struct{ options *Options }

// Directory reads accounts and domains.
type Directory interface {
	// Resolve finds an account by name in a domain (id). ACCESS_REFUSED if there
	// is none.
	Resolve(ctx context.Context, account, domainID string) (cluster.Owner, error)
	// Names returns the names of an owner's account and domain, and whether the
	// account is enabled.
	Names(ctx context.Context, o cluster.Owner) (account, domain string, enabled bool, err error)
	// Limits returns the limits of an account.
	Limits(ctx context.Context, o cluster.Owner) (cluster.Limits, error)
	// Subtree returns a domain and all domains below it.
	Subtree(ctx context.Context, domainID string) ([]string, error)
}
