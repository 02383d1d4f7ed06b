package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Records stores clusters. Package clustertest is its conformance suite.
type Records interface {
	// Commit makes a change: all of it or nothing. fault.WriteConflict if a
	// cluster, journal row or job is not at the revision that was read. Commit
	// writes ids and revisions into the change, and completes jobs and events with
	// the values of their cluster. A node keeps its stored heartbeat if that is
	// newer.
	Commit(ctx context.Context, c *Change) error
	// Record returns the record of a cluster, also of a removed one.
	// CLUSTER_NOT_FOUND.
	Record(ctx context.Context, uuid string) (*Record, error)
	// Details returns the decrypted details of a cluster. CLUSTER_NOT_FOUND.
	Details(ctx context.Context, uuid string) (*Details, error)
	// List returns clusters without nodes and journal, and the number of all that
	// match.
	List(ctx context.Context, q ClusterQuery) (clusters []Cluster, total int, err error)
}

// Store adds to Records what the APIs, the collector and the synchronisation read
// and write.
type Store interface {
	Records
	Notices
	// Scan passes every cluster (by default all but Destroyed ones) with its nodes
	// and journal to visit, in the order of ids, without holding them all in
	// memory.
	Scan(ctx context.Context, q ScanQuery, visit func(*Record) error) error
	// Nodes returns the nodes of several clusters (by their ids) in one read,
	// without removed ones.
	Nodes(ctx context.Context, clusters []int64) (map[int64][]Node, error)
	// Reach returns how to reach several clusters (by their ids), in one read.
	Reach(ctx context.Context, clusters []int64) (map[int64]Reach, error)
	// Workers counts the workers of several clusters (by their ids). VMs returns
	// the provider ids of their nodes that have one, control nodes first, then by
	// ordinal. Each is one read. Removed nodes do not count; clusters without any
	// node are left out.
	Workers(ctx context.Context, clusters []int64) (map[int64]int, error)
	VMs(ctx context.Context, clusters []int64) (map[int64][]string, error)
	// Unsettled returns the uuids of clusters that the controller must visit: in a
	// transient state, with a Request, an alarm, Desired other than State, or
	// GCNext or RecoverNext before now.
	Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error)
	// Job returns a job by id: JOB_NOT_FOUND. Jobs returns jobs, newest first, and
	// their number.
	Job(ctx context.Context, id string) (*Job, error)
	Jobs(ctx context.Context, q JobQuery) ([]Job, int, error)
	// Events returns the events after a sequence number, oldest first.
	Events(ctx context.Context, q EventQuery) ([]Event, error)
	// Feed returns the numbers of the newest removed event and of the newest event;
	// 0: none. All events after floor are stored.
	Feed(ctx context.Context) (floor, newest int64, err error)
	// Heartbeats stores heartbeats of nodes in one write; the newest wins. It
	// raises no revision.
	Heartbeats(ctx context.Context, heartbeats []NodeHeartbeat) error
	// Rows returns journal rows of all clusters, oldest intent first, and their
	// number.
	Rows(ctx context.Context, q RowQuery) ([]OwnedRow, int, error)
	// Usage returns what the clusters of an owner use: their desired nodes, and
	// their recorded cores and memory. Destroyed clusters do not count.
	Usage(ctx context.Context, o Owner) (Usage, error)
	// Prune removes data older than its retention: destroyed clusters with their
	// closed journal, completed jobs, and events. It returns the number of removed
	// rows.
	Prune(ctx context.Context, now time.Time, keep Retention) (int, error)
}

// Change is one write. The store stores all of it or nothing.
type Change struct {
	Cluster *Cluster // ID 0: insert; else compare-and-set on Revision; nil: untouched. NameTaken: the account has a living cluster of its name
	// ClusterID is the cluster of the other fields if Cluster is nil.
	ClusterID int64
	Nodes     []*Node       // ID 0: insert
	Journal   []*JournalRow // ID 0: insert (an existing key is a conflict); else compare-and-set
	Jobs      []*Job        // upsert by ID; a stored job that is completed, or has another cluster or Digest, is not changed (WriteConflict)
	Details   *Details      // upsert
	Events    []*Event      // appended
}

// ClusterQuery selects clusters. Zero fields do not restrict.
type ClusterQuery struct { //nolint:revive // beside JobQuery, RowQuery and EventQuery a plain Query would say nothing
	Scope         Scope
	UUID          string
	Name          string // substring without case; with ExactName the whole
	ExactName     bool
	Keyword       string // substring of name or description, without case
	State         machine.State
	WithDestroyed bool // false: destroyed clusters are left out unless State asks for them
	AccountID     string
	DomainIDs     []string
	Network       string // id
	Offset, Limit int    // Limit 0: 500, negative: all
	AfterID       int64  // instead of Offset: clusters after this id
	NewestFirst   bool   // default: by created, then id
}

// Scope says what a caller may see. The zero Scope is nothing.
type Scope struct {
	All       bool
	AccountID string   // one account
	DomainIDs []string // or all accounts of these domains
}

// Sees reports whether the clusters of an owner are in the scope.
func (s Scope) Sees(o Owner) bool {
	if s.All || s.AccountID != "" && s.AccountID == o.AccountID {
		return true
	}
	for _, d := range s.DomainIDs {
		if d == o.DomainID {
			return true
		}
	}
	return false
}

// Reach says how to reach a cluster.
type Reach struct {
	Username  string // user name at its endpoint
	AddressID string // id at the provider of the address in its journal; empty: none
}

// ScanQuery selects clusters of a scan.
type ScanQuery struct {
	Provider     string
	Zone         string
	States       []machine.State // empty: all but Destroyed
	AfterID      int64
	IDs          []int64 // only these, at most PageLimit; empty: all
	ClustersOnly bool    // nodes and journal may be left out
}

// JobQuery selects jobs.
type JobQuery struct {
	Scope         Scope
	Cluster       string // uuid
	OnlyOpen      bool
	Keyword       string // substring of the command, without case
	Offset, Limit int    // Limit 0: 500
}

// RowQuery selects journal rows.
type RowQuery struct {
	Phases        []Phase // empty: all
	Cluster       string  // uuid
	Kind          Kind
	Offset, Limit int // Limit 0: 500
}

// OwnedRow is a journal row together with its cluster and owner.
type OwnedRow struct {
	JournalRow
	Cluster, ClusterName, Provider string
	Owner                          Owner
	State                          machine.State
}

// EventQuery selects events.
type EventQuery struct {
	Scope   Scope
	Cluster string
	After   int64
	Types   []string
	Limit   int // 0: 500
}

// NodeHeartbeat is the last heartbeat of a node.
type NodeHeartbeat struct {
	NodeID   int64
	At       time.Time
	Ready    bool
	NotReady string
	Address  string
	Version  string
}

// NotReadyReason returns the value of Node.NotReady after this heartbeat.
func (h NodeHeartbeat) NotReadyReason() string {
	if h.Ready {
		return ""
	}
	return cmp.Or(h.NotReady, "not ready")
}

// PageLimit is the limit of a list that sets none.
const PageLimit = 500

// SetCluster fills the empty fields of a job from its cluster. Stores call it.
func (j *Job) SetCluster(c *Cluster) {
	if j.ClusterID == 0 {
		j.ClusterID = c.ID
	}
	j.Cluster = cmp.Or(j.Cluster, c.UUID)
	j.Owner = cmp.Or(j.Owner, c.Owner)
}

// SetCluster fills the empty fields of an event from its cluster. Stores call it.
func (e *Event) SetCluster(c *Cluster) {
	e.Cluster = cmp.Or(e.Cluster, c.UUID)
	e.Owner = cmp.Or(e.Owner, c.Owner)
	e.Revision = cmp.Or(e.Revision, c.Revision)
}

// Retention says how long data is kept. Zero fields are the defaults: clusters and
// journal 90 days, jobs 24 h, events 30 days.
type Retention struct{ Clusters, Jobs, Events time.Duration }

// OrDefault fills in the defaults.
func (k Retention) OrDefault() Retention {
	return Retention{Clusters: cmp.Or(k.Clusters, 90*day), Jobs: cmp.Or(k.Jobs, day), Events: cmp.Or(k.Events, 30*day)}
}

const day = 24 * time.Hour
