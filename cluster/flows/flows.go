// Package flows has the flows of the lifecycle: the steps that start, stop, scale,
// upgrade, repair and delete a cluster.
package flows

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/workflow"
)

// Store is the part of cluster.Store that the flows read. They write through their
// attempts.
type Store interface {
	Details(ctx context.Context, uuid string) (*cluster.Details, error)
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
	Outdated(record *cluster.Record, role cluster.Role, ask *cluster.Request) []cluster.Node
}

// Tokens holds the join tokens of runs.
type Tokens interface {
	Forget(run string)
}

// Options of the flows.
type Options struct {
	Store        Store
	Resources    *resources.Resources
	Observer     Observer
	Capacity     Capacity
	Upgrades     Upgrades
	Tokens       Tokens
	Versions     settings.Versions
	Settings     settings.Settings
	Installation string // id of this installation, in the tags of all resources
	// Probe checks that the endpoint of a cluster answers. nil: no probe, only
	// heartbeats count.
	Probe func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
}

// flows builds the flows.
type flows struct{ options Options }

// New returns the flows of the lifecycle, for workflow.New.
func New(o Options) []workflow.Flow {
	s := &flows{o}
	return []workflow.Flow{s.startFlow(), s.stopFlow(), s.scaleFlow(), s.recoverFlow(), s.deleteFlow()}
}
