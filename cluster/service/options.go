package service

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/records"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
)

// Options of a service. Records, Providers and Installation are required.
type Options struct {
	Records      cluster.Store
	Providers    []providers.Named
	Directory    api.Directory // nil: one account without limits
	Locks        lock.Backend  // of periodic tasks; nil: there is only this process
	Worker       string        // name of this process in locks
	Installation string        // id of this installation, in the tags of all resources
	HomeURL      string        // base URL for heartbeats of nodes, without the path
	HomeCA       string        // PEM of the CA that nodes trust; empty: plain HTTP
	Versions     settings.Versions
	Bootstrap    string // template of user data; empty: the built-in cloud-config
	Settings     settings.Settings
	// Probe checks that the endpoint of a cluster answers. nil: no probe, only
	// heartbeats count.
	Probe   func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
	OnEvent func(cluster.Event) // called with each saved event, after the write; nil: none
	Logger  *slog.Logger
	Metrics Metrics
	Now     func() time.Time
}

// Metrics receives measurements. Its methods must be safe for concurrent use.
type Metrics interface {
	Operation(kind, outcome string, took time.Duration)
	ProviderCall(provider, call, outcome string, took time.Duration)
	SyncPass(provider string, took time.Duration, clusters int)
	Collected(outcome string)
}

// noMetrics is Metrics that does nothing.
type noMetrics struct{}

func (noMetrics) Operation(string, string, time.Duration)            {}
func (noMetrics) ProviderCall(string, string, string, time.Duration) {}
func (noMetrics) SyncPass(string, time.Duration, int)                {}
func (noMetrics) Collected(string)                                   {}

// withDefaults returns the options with defaults in place of empty fields, and
// with the store as the parts of the service use it.
func (o Options) withDefaults() Options {
	o.Settings = o.Settings.OrDefault()
	o.Worker = cmp.Or(o.Worker, control.NewUID())
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Locks != nil { // other servers may have other clocks
		o.Records, o.Locks = records.WithSharedClock(o.Records, o.Locks, o.Now)
	}
	if o.OnEvent != nil {
		o.Records = records.WithEvents(o.Records, o.OnEvent)
	}
	return o
}
