// Package upgrade decides which nodes an upgrade changes, in which order, and how.
package upgrade

import (
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/settings"
)

// Providers finds configured providers.
type Providers interface {
	Provider(name string) (cluster.Provider, error)
}

// Planner plans upgrades.
type Planner struct {
	versions  settings.Versions
	providers Providers
}

// New returns a planner.
func New(versions settings.Versions, providers Providers) *Planner {
	return &Planner{versions, providers}
}

// Batch names nodes of one role that are upgraded at the same time.
type Batch struct {
	Role    cluster.Role `json:"role"`
	Names   []string     `json:"names"`
	InPlace bool         `json:"inPlace,omitempty"` // the VM stays; otherwise a new VM replaces it
}

// Order returns the batches of an upgrade in order. Control nodes come first,
// one at a time, because no worker may be newer than its API; then workers,
// Surge at a time.
func (s *Planner) Order(record *cluster.Record, ask *cluster.Request) []Batch {
	batches := []Batch{}
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		size := max(1, ask.Surge)
		if role == cluster.Control {
			size = 1
		}
		for part := range slices.Chunk(names(s.Outdated(record, role, ask)), size) {
			batches = append(batches, Batch{role, part, role == cluster.Control && s.inPlace(&record.Cluster, ask)})
		}
	}
	return batches
}

// Outdated returns the nodes of a role that an upgrade changes, oldest
// first, without removed ones.
func (s *Planner) Outdated(record *cluster.Record, role cluster.Role, ask *cluster.Request) []cluster.Node {
	old := slices.DeleteFunc(slices.Clone(record.Nodes), func(n cluster.Node) bool {
		return n.Role != role || !n.Removed.IsZero() || !s.outdated(&n, &record.Cluster, ask)
	})
	slices.SortStableFunc(old, func(a, b cluster.Node) int { return a.Ordinal - b.Ordinal })
	return old
}

// inPlace reports an upgrade that keeps the VM of the only control node, since
// no other node has its data. It needs a provider whose VMs send heartbeats: the
// answer tells the node to upgrade itself. A caller who consents to the loss of
// the data has the node replaced.
func (s *Planner) inPlace(c *cluster.Cluster, ask *cluster.Request) bool {
	return c.ControlCount < 2 && !(ask.Consent && !ask.Downtime) && s.sendsHeartbeats(c)
}

func (s *Planner) sendsHeartbeats(c *cluster.Cluster) bool {
	p, err := s.providers.Provider(c.Provider)
	return err == nil && p.Capabilities().SendsHeartbeats
}

// MayUpgradeControl refuses an upgrade that the caller must allow first: one
// with downtime of the endpoint (DOWNTIME_NOT_ALLOWED), or one that replaces the
// only control node (LAST_CONTROL_NODE). The workers are never upgraded alone:
// they would be newer than their control node.
func (s *Planner) MayUpgradeControl(record *cluster.Record, ask *cluster.Request) error {
	c := &record.Cluster
	old := s.Outdated(record, cluster.Control, ask)
	switch {
	case c.ControlCount > 1, len(old) == 0, ask.Consent:
		return nil
	case !s.sendsHeartbeats(c):
		return cluster.LastControl.Errorf("%s is the only control node, and VMs of provider %s do not call home: it cannot be upgraded in place, only replaced", old[0].Name, c.Provider).
			With("resource", old[0].Name)
	case !ask.Downtime:
		return cluster.DowntimeRefused.Errorf("%s is the only control node: it is upgraded in place, before the workers, and the endpoint does not answer meanwhile", old[0].Name).
			With("resource", old[0].Name).With("parameter", "allowdowntime")
	}
	return nil
}

// outdated reports a node whose template or version differs from that of an
// upgrade. A node that has sent a heartbeat has the version that it reported:
// x.y.z, or the id of a version.
func (s *Planner) outdated(n *cluster.Node, c *cluster.Cluster, ask *cluster.Request) bool {
	return n.Template.ID != TemplateOf(c, ask).ID || !s.versions.Same(n.Version, ask.Version)
}

// TemplateOf returns the template of nodes after a request: that of the request,
// or else that of the cluster.
func TemplateOf(c *cluster.Cluster, ask *cluster.Request) cluster.Entity {
	if ask != nil && ask.Template.ID != "" {
		return ask.Template
	}
	return c.Template
}

func names(nodes []cluster.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}
