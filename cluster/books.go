package cluster

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Books keep the records. Its exam is bookstest.
type Records interface {
	// Commit makes a change: all of it or nothing. fault.WriteConflict if a
	// cluster, journal row or job is not at the revision it was read at.
	// It fills in ids and raises revisions in what it was given, and what jobs
	// and events leave empty of their cluster. A node keeps a hello that is
	// newer than the one it was given with.
	Commit(ctx context.Context, c *Change) error
	// Book gives all that is recorded of a cluster, removed ones too.
	// CLUSTER_NOT_FOUND.
	Record(ctx context.Context, uuid string) (*Record, error)
	// Details of a cluster, opened. CLUSTER_NOT_FOUND.
	Details(ctx context.Context, uuid string) (*Details, error)
	// List gives clusters without their books, and how many there are in all.
	List(ctx context.Context, q ClusterQuery) (clusters []Cluster, total int, err error)
}

// Ledger is what faces, collector and synchronisation read beside single
// books. Every Books of ours is one.
type Store interface {
	Records
	Notices
	// Scan hands every cluster that lives (or is Expunge) with its nodes and
	// journal to visit, in the order of ids, without holding them all.
	Scan(ctx context.Context, q ScanQuery, visit func(*Record) error) error
	// Nodes gives the living nodes of several clusters (their ids) in one read, for lists.
	Nodes(ctx context.Context, clusters []int64) (map[int64][]Node, error)
	// Reach gives how several clusters (their ids) are reached, in one read, for lists.
	Reach(ctx context.Context, clusters []int64) (map[int64]Reach, error)
	// Workers counts the living workers of several clusters (their ids), VMs gives
	// the provider's ids of their living nodes that have one, control nodes first,
	// then by ordinal: one read each, for lists. Clusters without any are left out.
	Workers(ctx context.Context, clusters []int64) (map[int64]int, error)
	VMs(ctx context.Context, clusters []int64) (map[int64][]string, error)
	// Unsettled gives uuids of clusters the walker must look at: in a transient
	// state, with an Ask, an alarm, Desired other than State, or GCNext or
	// RecoverNext before now.
	Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error)
	// Job by id: JOB_NOT_FOUND. Jobs newest first and their number.
	Job(ctx context.Context, id string) (*Job, error)
	Jobs(ctx context.Context, q JobQuery) ([]Job, int, error)
	// Events after a sequence number, oldest first.
	Events(ctx context.Context, q EventQuery) ([]Event, error)
	// Feed gives the numbers of the newest event that was removed and of the
	// newest there ever was; 0: none. Events behind the floor are all there.
	Feed(ctx context.Context) (floor, newest int64, err error)
	// Hellos keeps what nodes said, newest wins, in one write; no revision is raised.
	Heartbeats(ctx context.Context, heartbeats []NodeHeartbeat) error
	// Rows gives journal rows over all clusters, oldest intent first, and their number.
	Rows(ctx context.Context, q RowQuery) ([]OwnedRow, int, error)
	// Usage is what an owner's living clusters take: their desired nodes, and
	// the cores and memory in their rows.
	Usage(ctx context.Context, o Owner) (Usage, error)
	// Prune removes what is older than its keep: rows of destroyed clusters
	// and their closed journal, completed jobs, events.
	Prune(ctx context.Context, now time.Time, keep Retention) (int, error)
}

// Change is one write. Everything in it is stored or nothing is.
type Change struct {
	Cluster *Cluster // ID 0: insert; else compare-and-set on Revision; nil: untouched
	// Book is the cluster the rest belongs to, when Cluster is nil.
	ClusterID int64
	Nodes     []*Node       // ID 0: insert
	Journal   []*JournalRow // ID 0: insert (an existing key is a conflict); else compare-and-set
	Jobs      []*Job        // upsert by ID; one that is completed, of another cluster or another Digest stays as it is (WriteConflict)
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
	AfterID       int64  // instead of Offset: those behind this id
	NewestFirst   bool   // default: by created, then id
}

// Scope is what a caller may see. The zero Scope is nothing.
type Scope struct {
	All       bool
	AccountID string   // one account
	DomainIDs []string // or all accounts of these domains
}

// Sees reports whether an owner's things are within the scope.
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

// Reach is by whom and where a cluster is reached.
type Reach struct {
	Username  string // of its endpoint
	AddressID string // provider's, of the address in its journal; empty: none
}

// ScanQuery selects clusters of a scan.
type ScanQuery struct {
	Provider     string
	Zone         string
	States       []machine.State // empty: all but Destroyed
	AfterID      int64
	IDs          []int64 // only these, at most PageLimit; empty: all
	ClustersOnly bool    // clusters alone: their nodes and journal may be left out
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

// OwnedRow is a journal row with whose it is.
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

// NodeHello is what a node said last.
type NodeHeartbeat struct {
	NodeID   int64
	At       time.Time
	Ready    bool
	NotReady string
	Address  string
	Version  string
}

// Why is what Node.NotReady becomes by a hello.
func (h NodeHeartbeat) NotReadyReason() string {
	if h.Ready {
		return ""
	}
	return cmp.Or(h.NotReady, "not ready")
}

// PageLimit is the limit of a list that names none.
const PageLimit = 500

// Belong fills in what a job leaves empty of its cluster: for stores.
func (j *Job) SetCluster(c *Cluster) {
	if j.ClusterID == 0 {
		j.ClusterID = c.ID
	}
	j.Cluster = cmp.Or(j.Cluster, c.UUID)
	j.Owner = cmp.Or(j.Owner, c.Owner)
}

// Belong fills in what an event leaves empty of its cluster: for stores.
func (e *Event) SetCluster(c *Cluster) {
	e.Cluster = cmp.Or(e.Cluster, c.UUID)
	e.Owner = cmp.Or(e.Owner, c.Owner)
	e.Revision = cmp.Or(e.Revision, c.Revision)
}

// Keep says how long things are kept. Zero fields are the defaults: clusters
// and journal 90 days, jobs 24 h, events 30 days.
type Retention struct{ Clusters, Jobs, Events time.Duration }

// OrDefault fills in the defaults.
func (k Retention) OrDefault() Retention {
	return Retention{Clusters: cmp.Or(k.Clusters, 90*day), Jobs: cmp.Or(k.Jobs, day), Events: cmp.Or(k.Events, 30*day)}
}

const day = 24 * time.Hour
