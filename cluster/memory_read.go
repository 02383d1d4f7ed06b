package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Record implements Records.
func (m *Memory) Record(ctx context.Context, uuid string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.dataOf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	return s.record(), nil
}

func (m *Memory) dataOf(ctx context.Context, uuid string) (*clusterData, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s := m.clusters[m.uuids[uuid]]; s != nil {
		return s, nil
	}
	return nil, NotFound.Errorf("no cluster has the id %q", uuid)
}

func (s *clusterData) record() *Record {
	b := &Record{Cluster: *s.cluster.copy()}
	for _, n := range s.nodes {
		if n.Removed.IsZero() {
			b.Nodes = append(b.Nodes, *n.copy())
		}
	}
	for _, r := range s.journal {
		b.Journal = append(b.Journal, *r.copy())
	}
	return b
}

// Details implements Records.
func (m *Memory) Details(ctx context.Context, uuid string) (*Details, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.dataOf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	if s.details == nil {
		return &Details{ClusterID: s.cluster.ID, NetworkCleanup: true}, nil
	}
	return s.details.copy(), nil
}

// List implements Records.
func (m *Memory) List(ctx context.Context, q ClusterQuery) ([]Cluster, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Cluster
	for _, s := range m.clusters {
		if q.matches(s.cluster) {
			all = append(all, s.cluster)
		}
	}
	order := func(a, b *Cluster) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) }
	if q.NewestFirst {
		forward := order
		order = func(a, b *Cluster) int { return forward(b, a) }
	}
	slices.SortFunc(all, order)
	total := len(all)
	if q.AfterID != 0 {
		at := &Cluster{ID: q.AfterID}
		if s := m.clusters[q.AfterID]; s != nil {
			at = s.cluster
		} else { // it was pruned: order by id, which grows with time
			order = func(a, b *Cluster) int { return cmp.Compare(a.ID, b.ID) }
			if q.NewestFirst {
				order = func(a, b *Cluster) int { return cmp.Compare(b.ID, a.ID) }
			}
		}
		all = slices.DeleteFunc(all, func(c *Cluster) bool { return order(c, at) <= 0 })
		q.Offset = 0
	}
	var page []Cluster
	for _, c := range window(all, q.Offset, q.Limit) {
		page = append(page, *c.copy())
	}
	return page, total, nil
}

// window returns a page of a list. Limit 0: PageLimit; negative: all.
func window[T any](all []T, offset, limit int) []T {
	if limit == 0 {
		limit = PageLimit
	}
	all = all[min(max(0, offset), len(all)):]
	if limit > 0 && limit < len(all) {
		all = all[:limit]
	}
	return all
}

func (q *ClusterQuery) matches(c *Cluster) bool {
	return q.Scope.Sees(c.Owner) &&
		(q.UUID == "" || q.UUID == c.UUID) &&
		(q.Name == "" || q.ExactName && q.Name == c.Name || !q.ExactName && within(c.Name, q.Name)) &&
		(within(c.Name, q.Keyword) || within(c.Description, q.Keyword)) &&
		(q.State == "" && (q.WithDestroyed || c.State != Destroyed) || q.State != "" && q.State == c.State) &&
		(q.AccountID == "" || q.AccountID == c.Owner.AccountID) &&
		(len(q.DomainIDs) == 0 || slices.Contains(q.DomainIDs, c.Owner.DomainID)) &&
		(q.Network == "" || q.Network == c.Network.ID)
}

// within reports whether a text contains part, ignoring case.
func within(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Scan implements Store.
func (m *Memory) Scan(ctx context.Context, q ScanQuery, visit func(*Record) error) error {
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
func (m *Memory) nextRecord(q ScanQuery, after int64) *Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := after + 1; id <= m.ids; id++ {
		s := m.clusters[id]
		if s == nil || len(q.IDs) > 0 && !slices.Contains(q.IDs, id) || q.Provider != "" && q.Provider != s.cluster.Provider || q.Zone != "" && q.Zone != s.cluster.Zone.ID {
			continue
		}
		if len(q.States) == 0 && s.cluster.State != Destroyed || slices.Contains(q.States, s.cluster.State) {
			return s.record()
		}
	}
	return nil
}

// Nodes implements Store.
func (m *Memory) Nodes(ctx context.Context, clusters []int64) (map[int64][]Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64][]Node{}
	for _, id := range clusters {
		if s := m.clusters[id]; s != nil {
			found[id] = s.record().Nodes
		}
	}
	return found, ctx.Err()
}

// Reach implements Store.
func (m *Memory) Reach(ctx context.Context, clusters []int64) (map[int64]Reach, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64]Reach{}
	for _, id := range clusters {
		s := m.clusters[id]
		if s == nil {
			continue
		}
		var r Reach
		if s.details != nil {
			r.Username = s.details.Username
		}
		r.AddressID = AddressOf(s.record().Journal)
		if r != (Reach{}) {
			found[id] = r
		}
	}
	return found, ctx.Err()
}

// Unsettled implements Store.
func (m *Memory) Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*Cluster
	for _, s := range m.clusters {
		if s.cluster.unsettled(now) {
			found = append(found, s.cluster)
		}
	}
	slices.SortFunc(found, func(a, b *Cluster) int { return cmp.Compare(a.ID, b.ID) })
	var uuids []string
	for _, c := range window(found, 0, limit) {
		uuids = append(uuids, c.UUID)
	}
	return uuids, nil
}

func (c *Cluster) unsettled(now time.Time) bool {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	return c.State != Destroyed && (Transient(c.State) || c.Request != nil || c.Alarm || string(c.Desired) != string(c.State) ||
		due(c.GCNext) || due(c.RecoverNext))
}

// Job implements Store.
func (m *Memory) Job(ctx context.Context, id string) (*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.job(id); i >= 0 {
		return m.jobs[i].copy(), nil
	}
	return nil, JobNotFound.Errorf("no job has the id %q", id)
}

// Jobs implements Store.
func (m *Memory) Jobs(ctx context.Context, q JobQuery) ([]Job, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*Job
	for _, j := range slices.Backward(m.jobs) {
		if q.Scope.Sees(j.Owner) && (q.Cluster == "" || q.Cluster == j.Cluster) && (!q.OnlyOpen || j.Status == JobOpen) &&
			strings.Contains(strings.ToLower(j.Command), strings.ToLower(q.Keyword)) {
			found = append(found, j)
		}
	}
	slices.SortStableFunc(found, func(a, b *Job) int { return b.Created.Compare(a.Created) })
	var page []Job
	for _, j := range window(found, q.Offset, q.Limit) {
		page = append(page, *j.copy())
	}
	return page, len(found), nil
}

// Events implements Store.
func (m *Memory) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []Event
	for _, e := range m.events {
		if e.Seq > q.After && q.Scope.Sees(e.Owner) && (q.Cluster == "" || q.Cluster == e.Cluster) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) {
			page = append(page, *e.copy())
			if q.Limit >= 0 && len(page) == cmp.Or(q.Limit, PageLimit) {
				break
			}
		}
	}
	return page, nil
}

// Feed implements Store.
func (m *Memory) Feed(ctx context.Context) (floor, newest int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.floor, m.seq, nil
}

// Rows implements Store.
func (m *Memory) Rows(ctx context.Context, q RowQuery) ([]OwnedRow, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []OwnedRow
	for _, s := range m.clusters {
		if q.Cluster != "" && q.Cluster != s.cluster.UUID {
			continue
		}
		for _, r := range s.journal {
			if (len(q.Phases) == 0 || slices.Contains(q.Phases, r.Phase)) && (q.Kind == "" || q.Kind == r.Kind) {
				c := s.cluster
				found = append(found, OwnedRow{JournalRow: *r.copy(), Cluster: c.UUID, ClusterName: c.Name, Provider: c.Provider, Owner: c.Owner, State: c.State})
			}
		}
	}
	slices.SortFunc(found, func(a, b OwnedRow) int { return cmp.Or(a.IntentAt.Compare(b.IntentAt), cmp.Compare(a.ID, b.ID)) })
	return window(found, q.Offset, q.Limit), len(found), nil
}

// Usage implements Store.
func (m *Memory) Usage(ctx context.Context, o Owner) (u Usage, err error) {
	if err := ctx.Err(); err != nil {
		return u, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.clusters {
		if c := s.cluster; c.Owner.AccountID == o.AccountID && c.State != Destroyed {
			u.Clusters++
			u.Nodes += c.NodeCount + c.ControlCount
			u.Cores += c.Cores
			u.MemoryMB += c.MemoryMB
		}
	}
	return u, nil
}
