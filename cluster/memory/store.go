// Package memory stores clusters in the memory of the process.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Store is a cluster.Store in the memory of the process. It copies what goes in and out.
// Several goroutines may use it.
type Store struct {
	mu       sync.Mutex
	clusters map[int64]*clusterData
	uuids    map[string]int64
	jobs     []*cluster.Job // in order of arrival
	events   []*cluster.Event
	notices  []cluster.Notice
	ids      int64 // of clusters, nodes and rows
	seq      int64 // of events
	floor    int64 // of the newest event that was removed
}

// clusterData holds the data of one cluster. Rows are in the order of their ids.
type clusterData struct {
	cluster *cluster.Cluster
	nodes   []*cluster.Node
	journal []*cluster.JournalRow
	details *cluster.Details
}

var _ cluster.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{clusters: map[int64]*clusterData{}, uuids: map[string]int64{}}
}

// Commit implements Records.
func (m *Store) Commit(ctx context.Context, c *cluster.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.check(c)
	if err != nil {
		return err
	}
	m.apply(s, c)
	return nil
}

// check refuses a change before anything of it is stored. It returns the data of
// the cluster: an empty one for a new cluster, nil if the change names none.
func (m *Store) check(c *cluster.Change) (*clusterData, error) {
	s, err := m.targetOf(c)
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	for _, n := range c.Nodes {
		if n.ID == 0 {
			continue
		}
		if _, known := find(s.nodes, n.ID, nodeID); !known || seen[n.ID] {
			return nil, fault.WriteConflict.Errorf("node %s is not recorded for this cluster", n.Name)
		}
		seen[n.ID] = true
	}
	keys := map[string]bool{}
	for _, r := range c.Journal {
		if r.ID == 0 {
			if keys[r.Key] || slices.ContainsFunc(s.journal, func(old *cluster.JournalRow) bool { return old.Key == r.Key }) {
				return nil, fault.WriteConflict.Errorf("journal key %s exists", r.Key)
			}
			keys[r.Key] = true
			continue
		}
		old, known := find(s.journal, r.ID, rowID)
		if !known || seen[r.ID] || s.journal[old].Revision != r.Revision {
			return nil, fault.WriteConflict.Errorf("journal row %s is not at revision %d", r.Key, r.Revision)
		}
		seen[r.ID] = true
	}
	for _, j := range c.Jobs {
		if i := m.job(j.ID); i >= 0 && !accepts(m.jobs[i], j, s) {
			return nil, fault.WriteConflict.Errorf("job %s is completed, or is another request's", j.ID)
		}
	}
	return s, nil
}

func (m *Store) targetOf(c *cluster.Change) (*clusterData, error) {
	switch {
	case c.Cluster == nil && c.ClusterID == 0:
		if len(c.Nodes)+len(c.Journal) > 0 || c.Details != nil {
			return nil, cluster.NotFound.Errorf("a change of nodes, journal or details names no cluster")
		}
		return nil, nil
	case c.Cluster == nil:
		if s := m.clusters[c.ClusterID]; s != nil {
			return s, nil
		}
		return nil, cluster.NotFound.Errorf("no cluster has the key %d", c.ClusterID)
	case c.Cluster.ID == 0:
		if m.uuids[c.Cluster.UUID] != 0 {
			return nil, fault.WriteConflict.Errorf("cluster %s exists", c.Cluster.UUID)
		}
		return &clusterData{}, m.nameFree(c.Cluster)
	}
	s := m.clusters[c.Cluster.ID]
	if s == nil || s.cluster.Revision != c.Cluster.Revision {
		return nil, fault.WriteConflict.Errorf("cluster %s is not at revision %d", c.Cluster.Name, c.Cluster.Revision)
	}
	if s.cluster.Name != c.Cluster.Name {
		return s, m.nameFree(c.Cluster)
	}
	return s, nil
}

// nameFree refuses the name of another living cluster of the account.
func (m *Store) nameFree(c *cluster.Cluster) error {
	for _, other := range m.clusters {
		if o := other.cluster; c.Name != "" && o.ID != c.ID && o.Name == c.Name && o.Owner.AccountID == c.Owner.AccountID && o.State != cluster.Destroyed {
			return cluster.NameTaken.Errorf("the account has a cluster %s already", c.Name).With("parameter", "name")
		}
	}
	return nil
}

// accepts reports whether next may replace the job: the job is open, and next
// belongs to the same request and cluster.
func accepts(j *cluster.Job, next *cluster.Job, s *clusterData) bool {
	of := next.ClusterID
	if of == 0 && s != nil && s.cluster != nil {
		of = s.cluster.ID
	}
	return j.Status == cluster.JobOpen && j.Digest == next.Digest && j.ClusterID == of
}

// apply stores a checked change and fills in ids and revisions.
func (m *Store) apply(s *clusterData, c *cluster.Change) {
	if c.Cluster != nil {
		if c.Cluster.ID == 0 {
			c.Cluster.ID, c.Cluster.Revision = m.next(), 0
			m.clusters[c.Cluster.ID], m.uuids[c.Cluster.UUID] = s, c.Cluster.ID
		}
		c.Cluster.Revision++
		s.cluster = copyCluster(c.Cluster)
	}
	for _, n := range c.Nodes {
		n.ClusterID = s.cluster.ID
		if n.ID == 0 {
			n.ID = m.next()
			s.nodes = append(s.nodes, copyNode(n))
			continue
		}
		i, _ := find(s.nodes, n.ID, nodeID)
		next := copyNode(n)
		keepNewerHeartbeat(next, s.nodes[i])
		s.nodes[i] = next
	}
	for _, r := range c.Journal {
		r.ClusterID = s.cluster.ID
		if r.ID == 0 {
			r.ID, r.Revision = m.next(), 1
			s.journal = append(s.journal, copyRow(r))
			continue
		}
		r.Revision++
		i, _ := find(s.journal, r.ID, rowID)
		s.journal[i] = copyRow(r)
	}
	if c.Details != nil {
		c.Details.ClusterID = s.cluster.ID
		s.details = copyDetails(c.Details)
	}
	for _, j := range c.Jobs {
		if s != nil {
			j.SetCluster(s.cluster)
		}
		if i := m.job(j.ID); i >= 0 {
			m.jobs[i] = copyJob(j)
		} else {
			m.jobs = append(m.jobs, copyJob(j))
		}
	}
	for _, e := range c.Events {
		if s != nil {
			e.SetCluster(s.cluster)
		}
		m.seq++
		e.Seq = m.seq
		m.events = append(m.events, copyEvent(e))
	}
}

func (m *Store) next() int64 { m.ids++; return m.ids }

// job returns the index of a job; -1 if it is unknown.
func (m *Store) job(id string) int {
	return slices.IndexFunc(m.jobs, func(j *cluster.Job) bool { return j.ID == id })
}

func nodeID(n *cluster.Node) int64      { return n.ID }
func rowID(r *cluster.JournalRow) int64 { return r.ID }

func find[T any](rows []T, id int64, of func(T) int64) (int, bool) {
	return slices.BinarySearchFunc(rows, id, func(row T, id int64) int { return cmp.Compare(of(row), id) })
}

// keepNewerHeartbeat keeps the heartbeat that arrived after the node was read.
func keepNewerHeartbeat(n *cluster.Node, stored *cluster.Node) {
	if !stored.HeartbeatAt.After(n.HeartbeatAt) {
		return
	}
	n.HeartbeatAt, n.NotReady = stored.HeartbeatAt, stored.NotReady
	n.ReadyAt = cmp.Or(n.ReadyAt, stored.ReadyAt)
	n.Address, n.Version = cmp.Or(stored.Address, n.Address), cmp.Or(stored.Version, n.Version)
}

// Heartbeats implements Store.
func (m *Store) Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := map[int64]*cluster.Node{}
	for _, s := range m.clusters {
		for _, n := range s.nodes {
			nodes[n.ID] = n
		}
	}
	for _, h := range heartbeats {
		n := nodes[h.NodeID]
		if n == nil || !n.Removed.IsZero() || !h.At.After(n.HeartbeatAt) {
			continue
		}
		n.HeartbeatAt, n.NotReady = storedTime(h.At), h.NotReadyReason()
		if h.Ready && n.ReadyAt.IsZero() {
			n.ReadyAt = n.HeartbeatAt
		}
		n.Address, n.Version = cmp.Or(h.Address, n.Address), cmp.Or(h.Version, n.Version)
	}
	return nil
}

// Prune implements Store.
func (m *Store) Prune(ctx context.Context, now time.Time, keep cluster.Retention) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	keep = keep.OrDefault()
	old := func(at time.Time, keep time.Duration) bool { return !at.IsZero() && !at.After(now.Add(-keep)) }
	n := 0
	for id, s := range m.clusters {
		if s.cluster.State != cluster.Destroyed || !old(s.cluster.Removed, keep.Clusters) {
			continue
		}
		n += len(s.journal) + len(s.nodes)
		s.journal = slices.DeleteFunc(s.journal, func(r *cluster.JournalRow) bool {
			return r.Phase == cluster.Gone || r.Phase == cluster.NeverCreated || r.Origin == cluster.OriginGiven
		})
		n -= len(s.journal)
		s.nodes = nil
		if s.details != nil {
			s.details, n = nil, n+1
		}
		if len(s.journal) == 0 {
			n++
			delete(m.clusters, id)
			delete(m.uuids, s.cluster.UUID)
		}
	}
	n += len(m.jobs) + len(m.events)
	m.jobs = slices.DeleteFunc(m.jobs, func(j *cluster.Job) bool { return j.Status != cluster.JobOpen && old(j.Completed, keep.Jobs) })
	m.events = slices.DeleteFunc(m.events, func(e *cluster.Event) bool {
		if old(e.At, keep.Events) {
			m.floor = max(m.floor, e.Seq)
			return true
		}
		return false
	})
	return n - len(m.jobs) - len(m.events), nil
}
