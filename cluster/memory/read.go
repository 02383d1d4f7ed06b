package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Record implements Records.
func (m *Store) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.dataOf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	return s.record(), nil
}

func (m *Store) dataOf(ctx context.Context, uuid string) (*clusterData, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s := m.clusters[m.uuids[uuid]]; s != nil {
		return s, nil
	}
	return nil, cluster.NotFound.Errorf("no cluster has the id %q", uuid)
}

func (s *clusterData) record() *cluster.Record {
	b := &cluster.Record{Cluster: *copyCluster(s.cluster)}
	for _, n := range s.nodes {
		if n.Removed.IsZero() {
			b.Nodes = append(b.Nodes, *copyNode(n))
		}
	}
	for _, r := range s.journal {
		b.Journal = append(b.Journal, *copyRow(r))
	}
	return b
}

// Details implements Records.
func (m *Store) Details(ctx context.Context, uuid string) (*cluster.Details, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.dataOf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	if s.details == nil {
		return &cluster.Details{ClusterID: s.cluster.ID, NetworkCleanup: true}, nil
	}
	return copyDetails(s.details), nil
}

// List implements Records.
func (m *Store) List(ctx context.Context, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*cluster.Cluster
	for _, s := range m.clusters {
		if matches(&q, s.cluster) {
			all = append(all, s.cluster)
		}
	}
	order := func(a, b *cluster.Cluster) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) }
	if q.NewestFirst {
		forward := order
		order = func(a, b *cluster.Cluster) int { return forward(b, a) }
	}
	slices.SortFunc(all, order)
	total := len(all)
	if q.AfterID != 0 {
		at := &cluster.Cluster{ID: q.AfterID}
		if s := m.clusters[q.AfterID]; s != nil {
			at = s.cluster
		} else { // it was pruned: order by id, which grows with time
			order = func(a, b *cluster.Cluster) int { return cmp.Compare(a.ID, b.ID) }
			if q.NewestFirst {
				order = func(a, b *cluster.Cluster) int { return cmp.Compare(b.ID, a.ID) }
			}
		}
		all = slices.DeleteFunc(all, func(c *cluster.Cluster) bool { return order(c, at) <= 0 })
		q.Offset = 0
	}
	var page []cluster.Cluster
	for _, c := range window(all, q.Offset, q.Limit) {
		page = append(page, *copyCluster(c))
	}
	return page, total, nil
}

// window returns a page of a list. Limit 0: PageLimit; negative: all.
func window[T any](all []T, offset, limit int) []T {
	if limit == 0 {
		limit = cluster.PageLimit
	}
	all = all[min(max(0, offset), len(all)):]
	if limit > 0 && limit < len(all) {
		all = all[:limit]
	}
	return all
}

func matches(q *cluster.ClusterQuery, c *cluster.Cluster) bool {
	return q.Scope.Sees(c.Owner) &&
		(q.UUID == "" || q.UUID == c.UUID) &&
		(q.Name == "" || q.ExactName && q.Name == c.Name || !q.ExactName && within(c.Name, q.Name)) &&
		(within(c.Name, q.Keyword) || within(c.Description, q.Keyword)) &&
		(q.State == "" && (q.WithDestroyed || c.State != cluster.Destroyed) || q.State != "" && q.State == c.State) &&
		(q.AccountID == "" || q.AccountID == c.Owner.AccountID) &&
		(len(q.DomainIDs) == 0 || slices.Contains(q.DomainIDs, c.Owner.DomainID)) &&
		(q.Network == "" || q.Network == c.Network.ID)
}

// within reports whether a text contains part, ignoring case.
func within(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Scan implements Store.
func (m *Store) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	for after := q.AfterID; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := m.nextRecord(q, after)
		if b == nil {
			return nil
		}
		if err := visit(b); err != nil {
			return err
		}
		after = b.Cluster.ID
	}
}

// nextRecord returns the next record of a scan.
func (m *Store) nextRecord(q cluster.ScanQuery, after int64) *cluster.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := after + 1; id <= m.ids; id++ {
		s := m.clusters[id]
		if s == nil || len(q.IDs) > 0 && !slices.Contains(q.IDs, id) || q.Provider != "" && q.Provider != s.cluster.Provider || q.Zone != "" && q.Zone != s.cluster.Zone.ID {
			continue
		}
		if len(q.States) == 0 && s.cluster.State != cluster.Destroyed || slices.Contains(q.States, s.cluster.State) {
			return s.record()
		}
	}
	return nil
}

// Nodes implements Store.
func (m *Store) Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64][]cluster.Node{}
	for _, id := range clusters {
		if s := m.clusters[id]; s != nil {
			found[id] = s.record().Nodes
		}
	}
	return found, ctx.Err()
}

// Reach implements Store.
func (m *Store) Reach(ctx context.Context, clusters []int64) (map[int64]cluster.Reach, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64]cluster.Reach{}
	for _, id := range clusters {
		s := m.clusters[id]
		if s == nil {
			continue
		}
		var r cluster.Reach
		if s.details != nil {
			r.Username = s.details.Username
		}
		r.AddressID = cluster.AddressOf(s.record().Journal)
		if r != (cluster.Reach{}) {
			found[id] = r
		}
	}
	return found, ctx.Err()
}

// Unsettled implements Store.
func (m *Store) Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*cluster.Cluster
	for _, s := range m.clusters {
		if unsettled(s.cluster, now) {
			found = append(found, s.cluster)
		}
	}
	slices.SortFunc(found, func(a, b *cluster.Cluster) int { return cmp.Compare(a.ID, b.ID) })
	var uuids []string
	for _, c := range window(found, 0, limit) {
		uuids = append(uuids, c.UUID)
	}
	return uuids, nil
}

func unsettled(c *cluster.Cluster, now time.Time) bool {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	return c.State != cluster.Destroyed && (cluster.Transient(c.State) || c.Request != nil || c.Alarm || string(c.Desired) != string(c.State) ||
		due(c.GCNext) || due(c.RecoverNext))
}

// Job implements Store.
func (m *Store) Job(ctx context.Context, id string) (*cluster.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.job(id); i >= 0 {
		return copyJob(m.jobs[i]), nil
	}
	return nil, cluster.JobNotFound.Errorf("no job has the id %q", id)
}

// Jobs implements Store.
func (m *Store) Jobs(ctx context.Context, q cluster.JobQuery) ([]cluster.Job, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*cluster.Job
	for _, j := range slices.Backward(m.jobs) {
		if q.Scope.Sees(j.Owner) && (q.Cluster == "" || q.Cluster == j.Cluster) && (!q.OnlyOpen || j.Status == cluster.JobOpen) &&
			strings.Contains(strings.ToLower(j.Command), strings.ToLower(q.Keyword)) {
			found = append(found, j)
		}
	}
	slices.SortStableFunc(found, func(a, b *cluster.Job) int { return b.Created.Compare(a.Created) })
	var page []cluster.Job
	for _, j := range window(found, q.Offset, q.Limit) {
		page = append(page, *copyJob(j))
	}
	return page, len(found), nil
}

// Events implements Store.
func (m *Store) Events(ctx context.Context, q cluster.EventQuery) ([]cluster.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []cluster.Event
	for _, e := range m.events {
		if e.Seq > q.After && q.Scope.Sees(e.Owner) && (q.Cluster == "" || q.Cluster == e.Cluster) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) {
			page = append(page, *copyEvent(e))
			if q.Limit >= 0 && len(page) == cmp.Or(q.Limit, cluster.PageLimit) {
				break
			}
		}
	}
	return page, nil
}

// Feed implements Store.
func (m *Store) Feed(ctx context.Context) (floor, newest int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.floor, m.seq, nil
}

// Rows implements Store.
func (m *Store) Rows(ctx context.Context, q cluster.RowQuery) ([]cluster.OwnedRow, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []cluster.OwnedRow
	for _, s := range m.clusters {
		if q.Cluster != "" && q.Cluster != s.cluster.UUID {
			continue
		}
		for _, r := range s.journal {
			if (len(q.Phases) == 0 || slices.Contains(q.Phases, r.Phase)) && (q.Kind == "" || q.Kind == r.Kind) {
				c := s.cluster
				found = append(found, cluster.OwnedRow{JournalRow: *copyRow(r), Cluster: c.UUID, ClusterName: c.Name, Provider: c.Provider, Owner: c.Owner, State: c.State})
			}
		}
	}
	slices.SortFunc(found, func(a, b cluster.OwnedRow) int {
		return cmp.Or(a.IntentAt.Compare(b.IntentAt), cmp.Compare(a.ID, b.ID))
	})
	return window(found, q.Offset, q.Limit), len(found), nil
}

// Usage implements Store.
func (m *Store) Usage(ctx context.Context, o cluster.Owner) (u cluster.Usage, err error) {
	if err := ctx.Err(); err != nil {
		return u, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.clusters {
		if c := s.cluster; c.Owner.AccountID == o.AccountID && c.State != cluster.Destroyed {
			u.Clusters++
			u.Nodes += c.NodeCount + c.ControlCount
			u.Cores += c.Cores
			u.MemoryMB += c.MemoryMB
		}
	}
	return u, nil
}
