package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Memory is a Ledger that forgets at the end of the process. What goes in and
// out is copied. It may be used by several goroutines.
type Memory struct {
	mu      sync.Mutex
	shelves map[int64]*shelf
	uuids   map[string]int64
	jobs    []*Job // in order of arrival
	events  []*Event
	ids     int64 // of clusters, nodes and rows
	seq     int64 // of events
	floor   int64 // of the newest event that was removed
}

// shelf is what belongs to one cluster. Rows stay in order of their ids.
type shelf struct {
	cluster *Cluster
	nodes   []*Node
	journal []*JournalRow
	details *Details
}

var _ Ledger = (*Memory)(nil)

// NewMemory makes an empty ledger.
func NewMemory() *Memory {
	return &Memory{shelves: map[int64]*shelf{}, uuids: map[string]int64{}}
}

// Commit implements Books.
func (m *Memory) Commit(ctx context.Context, c *Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.admit(c)
	if err != nil {
		return err
	}
	m.apply(s, c)
	return nil
}

// admit refuses a change before anything of it is stored. It gives the shelf of
// its cluster: an empty one for a new cluster, nil if it names none.
func (m *Memory) admit(c *Change) (*shelf, error) {
	s, err := m.shelfOf(c)
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	for _, n := range c.Nodes {
		if n.ID == 0 {
			continue
		}
		if _, known := find(s.nodes, n.ID, nodeID); !known || seen[n.ID] {
			return nil, fault.WriteConflict.Errorf("node %s is not in the books of this cluster", n.Name)
		}
		seen[n.ID] = true
	}
	keys := map[string]bool{}
	for _, r := range c.Journal {
		if r.ID == 0 {
			if keys[r.Key] || slices.ContainsFunc(s.journal, func(old *JournalRow) bool { return old.Key == r.Key }) {
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
		if i := m.job(j.ID); i >= 0 && !m.jobs[i].mayBecome(j, s) {
			return nil, fault.WriteConflict.Errorf("job %s is completed, or is another request's", j.ID)
		}
	}
	return s, nil
}

func (m *Memory) shelfOf(c *Change) (*shelf, error) {
	switch {
	case c.Cluster == nil && c.Book == 0:
		if len(c.Nodes)+len(c.Journal) > 0 || c.Details != nil {
			return nil, NotFound.Errorf("a change of nodes, journal or details names no cluster")
		}
		return nil, nil
	case c.Cluster == nil:
		if s := m.shelves[c.Book]; s != nil {
			return s, nil
		}
		return nil, NotFound.Errorf("no cluster has the key %d", c.Book)
	case c.Cluster.ID == 0:
		if m.uuids[c.Cluster.UUID] != 0 {
			return nil, fault.WriteConflict.Errorf("cluster %s exists", c.Cluster.UUID)
		}
		return &shelf{}, nil
	}
	s := m.shelves[c.Cluster.ID]
	if s == nil || s.cluster.Revision != c.Cluster.Revision {
		return nil, fault.WriteConflict.Errorf("cluster %s is not at revision %d", c.Cluster.Name, c.Cluster.Revision)
	}
	return s, nil
}

// mayBecome reports an open job that stays the same request of the same cluster.
func (j *Job) mayBecome(next *Job, s *shelf) bool {
	of := next.ClusterID
	if of == 0 && s != nil && s.cluster != nil {
		of = s.cluster.ID
	}
	return j.Status == JobOpen && j.Digest == next.Digest && j.ClusterID == of
}

// apply stores an admitted change, and fills in ids and revisions.
func (m *Memory) apply(s *shelf, c *Change) {
	if c.Cluster != nil {
		if c.Cluster.ID == 0 {
			c.Cluster.ID, c.Cluster.Revision = m.next(), 0
			m.shelves[c.Cluster.ID], m.uuids[c.Cluster.UUID] = s, c.Cluster.ID
		}
		c.Cluster.Revision++
		s.cluster = c.Cluster.copy()
	}
	for _, n := range c.Nodes {
		n.ClusterID = s.cluster.ID
		if n.ID == 0 {
			n.ID = m.next()
			s.nodes = append(s.nodes, n.copy())
			continue
		}
		i, _ := find(s.nodes, n.ID, nodeID)
		next := n.copy()
		next.keepHello(s.nodes[i])
		s.nodes[i] = next
	}
	for _, r := range c.Journal {
		r.ClusterID = s.cluster.ID
		if r.ID == 0 {
			r.ID, r.Revision = m.next(), 1
			s.journal = append(s.journal, r.copy())
			continue
		}
		r.Revision++
		i, _ := find(s.journal, r.ID, rowID)
		s.journal[i] = r.copy()
	}
	if c.Details != nil {
		c.Details.ClusterID = s.cluster.ID
		s.details = c.Details.copy()
	}
	for _, j := range c.Jobs {
		if s != nil {
			j.Belong(s.cluster)
		}
		if i := m.job(j.ID); i >= 0 {
			m.jobs[i] = j.copy()
		} else {
			m.jobs = append(m.jobs, j.copy())
		}
	}
	for _, e := range c.Events {
		if s != nil {
			e.Belong(s.cluster)
		}
		m.seq++
		e.Seq = m.seq
		m.events = append(m.events, e.copy())
	}
}

func (m *Memory) next() int64 { m.ids++; return m.ids }

// job is the place of a job, -1 if it is unknown.
func (m *Memory) job(id string) int {
	return slices.IndexFunc(m.jobs, func(j *Job) bool { return j.ID == id })
}

func nodeID(n *Node) int64      { return n.ID }
func rowID(r *JournalRow) int64 { return r.ID }

func find[T any](rows []T, id int64, of func(T) int64) (int, bool) {
	return slices.BinarySearchFunc(rows, id, func(row T, id int64) int { return cmp.Compare(of(row), id) })
}

// keepHello keeps what a node said after the given one was read.
func (n *Node) keepHello(stored *Node) {
	if !stored.HelloAt.After(n.HelloAt) {
		return
	}
	n.HelloAt, n.NotReady = stored.HelloAt, stored.NotReady
	n.ReadyAt = cmp.Or(n.ReadyAt, stored.ReadyAt)
	n.Address, n.Version = cmp.Or(stored.Address, n.Address), cmp.Or(stored.Version, n.Version)
}

// Book implements Books.
func (m *Memory) Book(ctx context.Context, uuid string) (*Book, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shelf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	return s.book(), nil
}

func (m *Memory) shelf(ctx context.Context, uuid string) (*shelf, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s := m.shelves[m.uuids[uuid]]; s != nil {
		return s, nil
	}
	return nil, NotFound.Errorf("no cluster has the id %q", uuid)
}

func (s *shelf) book() *Book {
	b := &Book{Cluster: *s.cluster.copy()}
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

// Details implements Books.
func (m *Memory) Details(ctx context.Context, uuid string) (*Details, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shelf(ctx, uuid)
	if err != nil {
		return nil, err
	}
	if s.details == nil {
		return &Details{ClusterID: s.cluster.ID, NetworkCleanup: true}, nil
	}
	return s.details.copy(), nil
}

// List implements Books.
func (m *Memory) List(ctx context.Context, q ClusterQuery) ([]Cluster, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Cluster
	for _, s := range m.shelves {
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
		if s := m.shelves[q.AfterID]; s != nil {
			at = s.cluster
		} else { // it was removed: ids grow as time does
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

// window is a page of a list. Limit 0: PageLimit; negative: all.
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

// within reports a part of a text, without case.
func within(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Scan implements Ledger.
func (m *Memory) Scan(ctx context.Context, q ScanQuery, visit func(*Book) error) error {
	for after := q.AfterID; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := m.behind(q, after)
		if b == nil {
			return nil
		}
		if err := visit(b); err != nil {
			return err
		}
		after = b.Cluster.ID
	}
}

// behind is the next book of a scan.
func (m *Memory) behind(q ScanQuery, after int64) *Book {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := after + 1; id <= m.ids; id++ {
		s := m.shelves[id]
		if s == nil || q.Provider != "" && q.Provider != s.cluster.Provider || q.Zone != "" && q.Zone != s.cluster.Zone.ID {
			continue
		}
		if len(q.States) == 0 && s.cluster.State != Destroyed || slices.Contains(q.States, s.cluster.State) {
			return s.book()
		}
	}
	return nil
}

// Nodes implements Ledger.
func (m *Memory) Nodes(ctx context.Context, clusters []int64) (map[int64][]Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64][]Node{}
	for _, id := range clusters {
		if s := m.shelves[id]; s != nil {
			found[id] = s.book().Nodes
		}
	}
	return found, ctx.Err()
}

// Unsettled implements Ledger.
func (m *Memory) Unsettled(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*Cluster
	for _, s := range m.shelves {
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
	return c.State != Destroyed && (Transient(c.State) || c.Ask != nil || c.Alarm || string(c.Desired) != string(c.State) ||
		due(c.GCNext) || due(c.RecoverNext))
}

// Job implements Ledger.
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

// Jobs implements Ledger.
func (m *Memory) Jobs(ctx context.Context, q JobQuery) ([]Job, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*Job
	for _, j := range slices.Backward(m.jobs) {
		if q.Scope.Sees(j.Owner) && (q.Cluster == "" || q.Cluster == j.Cluster) && (!q.OnlyOpen || j.Status == JobOpen) {
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

// Events implements Ledger.
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

// Feed implements Ledger.
func (m *Memory) Feed(ctx context.Context) (floor, newest int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.floor, m.seq, nil
}

// Hellos implements Ledger.
func (m *Memory) Hellos(ctx context.Context, hellos []NodeHello) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := map[int64]*Node{}
	for _, s := range m.shelves {
		for _, n := range s.nodes {
			nodes[n.ID] = n
		}
	}
	for _, h := range hellos {
		n := nodes[h.NodeID]
		if n == nil || !n.Removed.IsZero() || !h.At.After(n.HelloAt) {
			continue
		}
		n.HelloAt, n.NotReady = clock(h.At), h.Why()
		if h.Ready && n.ReadyAt.IsZero() {
			n.ReadyAt = n.HelloAt
		}
		n.Address, n.Version = cmp.Or(h.Address, n.Address), cmp.Or(h.Version, n.Version)
	}
	return nil
}

// Rows implements Ledger.
func (m *Memory) Rows(ctx context.Context, q RowQuery) ([]OwnedRow, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []OwnedRow
	for _, s := range m.shelves {
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

// Usage implements Ledger.
func (m *Memory) Usage(ctx context.Context, o Owner) (u Usage, err error) {
	if err := ctx.Err(); err != nil {
		return u, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.shelves {
		if c := s.cluster; c.Owner.AccountID == o.AccountID && c.State != Destroyed {
			u.Clusters++
			u.Nodes += c.NodeCount + c.ControlCount
			u.Cores += c.Cores
			u.MemoryMB += c.MemoryMB
		}
	}
	return u, nil
}

// Prune implements Ledger.
func (m *Memory) Prune(ctx context.Context, now time.Time, keep Keep) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	keep = keep.OrDefault()
	old := func(at time.Time, keep time.Duration) bool { return !at.IsZero() && !at.After(now.Add(-keep)) }
	n := 0
	for id, s := range m.shelves {
		if s.cluster.State != Destroyed || !old(s.cluster.Removed, keep.Clusters) {
			continue
		}
		n += len(s.journal) + len(s.nodes)
		s.journal = slices.DeleteFunc(s.journal, func(r *JournalRow) bool { return r.Phase == Gone || r.Phase == NeverCreated || r.Origin == Given })
		n -= len(s.journal)
		s.nodes = nil
		if s.details != nil {
			s.details, n = nil, n+1
		}
		if len(s.journal) == 0 {
			n++
			delete(m.shelves, id)
			delete(m.uuids, s.cluster.UUID)
		}
	}
	n += len(m.jobs) + len(m.events)
	m.jobs = slices.DeleteFunc(m.jobs, func(j *Job) bool { return j.Status != JobOpen && old(j.Completed, keep.Jobs) })
	m.events = slices.DeleteFunc(m.events, func(e *Event) bool {
		if old(e.At, keep.Events) {
			m.floor = max(m.floor, e.Seq)
			return true
		}
		return false
	})
	return n - len(m.jobs) - len(m.events), nil
}

// clock is a time as a store keeps it: UTC, without a monotonic reading.
func clock(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

func (c *Cluster) copy() *Cluster {
	n := *c
	n.CIDRs, n.Recovery, n.Findings = slices.Clone(c.CIDRs), slices.Clone(c.Recovery), slices.Clone(c.Findings)
	for i := range n.Findings {
		f := &n.Findings[i]
		f.Since, f.At = clock(f.Since), clock(f.At)
	}
	n.Position.Params, n.Position.Since = slices.Clone(c.Position.Params), clock(c.Position.Since)
	if c.Position.Ending != nil {
		ending := *c.Position.Ending
		n.Position.Ending = &ending
	}
	if c.Ask != nil {
		ask := *c.Ask
		ask.Victims, ask.Recovery = slices.Clone(c.Ask.Victims), slices.Clone(c.Ask.Recovery)
		n.Ask = &ask
	}
	for _, t := range []*time.Time{&n.StateSince, &n.SuspectSince, &n.ObservedAt, &n.RecoverNext, &n.Created, &n.Removed, &n.GCNext} {
		*t = clock(*t)
	}
	return &n
}

func (n *Node) copy() *Node {
	c := *n
	c.ReadyAt, c.HelloAt, c.Removed = clock(n.ReadyAt), clock(n.HelloAt), clock(n.Removed)
	return &c
}

// copy leaves user data out: it is secret and never kept.
func (r *JournalRow) copy() *JournalRow {
	c := *r
	c.Spec.CIDRs, c.Spec.VMs, c.Spec.UserData = slices.Clone(r.Spec.CIDRs), slices.Clone(r.Spec.VMs), nil
	for _, t := range []*time.Time{&c.IntentAt, &c.PresentAt, &c.ClosingAt, &c.GoneAt, &c.NextAt} {
		*t = clock(*t)
	}
	return &c
}

func (d *Details) copy() *Details {
	c := *d
	c.JoinTokenNames, c.Credentials = slices.Clone(d.JoinTokenNames), maps.Clone(d.Credentials)
	c.JoinTokenExpires = clock(d.JoinTokenExpires)
	return &c
}

func (j *Job) copy() *Job {
	c := *j
	c.Created, c.Completed = clock(j.Created), clock(j.Completed)
	return &c
}

func (e *Event) copy() *Event {
	c := *e
	c.Data, c.At = slices.Clone(e.Data), clock(e.At)
	return &c
}
