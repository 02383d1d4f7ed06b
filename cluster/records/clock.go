package records

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/lock"
)

// clock measures how far the shared clock, that of the lock backend, is ahead
// of the clock of this process. The age of an intent decides whether a lookup
// that finds nothing is believed, so servers whose clocks differ must agree on
// it: clockStore stores times by the shared clock.
type clock struct {
	local func() time.Time

	mu    sync.Mutex
	known bool
	ahead time.Duration
}

// observe takes a reading of the shared clock, made between two readings of the
// local clock. An offset that is possible within that interval is kept.
func (c *clock) observe(before, shared, after time.Time) {
	least, most := shared.Sub(after.Round(0)), shared.Sub(before.Round(0))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.ahead = true, min(max(c.ahead, least), most)
}

// offset returns how far the shared clock is ahead. The first call reads it from
// the backend.
func (c *clock) offset(ctx context.Context, m lock.Backend) (time.Duration, error) {
	c.mu.Lock()
	known, ahead := c.known, c.ahead
	c.mu.Unlock()
	if known {
		return ahead, nil
	}
	if err := m.Transact(ctx, clockName, func(time.Time, []byte) ([]byte, bool) { return nil, false }); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, nil
}

// clockName is the name of a lock that is never held: it serves to read the
// clock.
const clockName = "cluster/clock"

// clockBackend is a lock.Backend that passes the time of each transaction to a
// clock. A held lock is renewed every few seconds, so the offset stays fresh.
type clockBackend struct {
	lock.Backend
	clock *clock
}

// Transact implements lock.Backend.
func (m clockBackend) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	before := m.clock.local()
	return m.Backend.Transact(ctx, name, func(now time.Time, old []byte) ([]byte, bool) {
		m.clock.observe(before, now, m.clock.local())
		return change(now, old)
	})
}

// clockStore is a Store that keeps the times of journal rows and nodes by the
// shared clock. Callers read and write them by the clock of this process.
type clockStore struct {
	cluster.Store
	backend lock.Backend
	clock   *clock
}

func (t *clockStore) offset(ctx context.Context) (time.Duration, error) {
	return t.clock.offset(ctx, t.backend)
}

// Commit implements cluster.Records.
func (t *clockStore) Commit(ctx context.Context, c *cluster.Change) error {
	ahead, err := t.offset(ctx)
	if err != nil {
		return err
	}
	shift := func(d time.Duration) {
		for _, r := range c.Journal {
			shiftRow(r, d)
		}
		for _, n := range c.Nodes {
			shiftNode(n, d)
		}
	}
	shift(ahead)
	defer shift(-ahead)
	return t.Store.Commit(ctx, c)
}

// Heartbeats implements cluster.Store.
func (t *clockStore) Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error {
	ahead, err := t.offset(ctx)
	if err != nil {
		return err
	}
	said := make([]cluster.NodeHeartbeat, len(heartbeats))
	for i, h := range heartbeats {
		h.At = shifted(h.At, ahead)
		said[i] = h
	}
	return t.Store.Heartbeats(ctx, said)
}

// Record implements cluster.Records.
func (t *clockStore) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	ahead, err := t.offset(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.Store.Record(ctx, uuid)
	if err == nil {
		shiftRecord(b, -ahead)
	}
	return b, err
}

// Scan implements cluster.Store.
func (t *clockStore) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	ahead, err := t.offset(ctx)
	if err != nil {
		return err
	}
	return t.Store.Scan(ctx, q, func(b *cluster.Record) error {
		shiftRecord(b, -ahead)
		return visit(b)
	})
}

// Nodes implements cluster.Store.
func (t *clockStore) Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error) {
	ahead, err := t.offset(ctx)
	if err != nil {
		return nil, err
	}
	found, err := t.Store.Nodes(ctx, clusters)
	for _, nodes := range found {
		for i := range nodes {
			shiftNode(&nodes[i], -ahead)
		}
	}
	return found, err
}

// Rows implements cluster.Store.
func (t *clockStore) Rows(ctx context.Context, q cluster.RowQuery) ([]cluster.OwnedRow, int, error) {
	ahead, err := t.offset(ctx)
	if err != nil {
		return nil, 0, err
	}
	rows, total, err := t.Store.Rows(ctx, q)
	for i := range rows {
		shiftRow(&rows[i].JournalRow, -ahead)
	}
	return rows, total, err
}

func shiftRecord(b *cluster.Record, d time.Duration) {
	for i := range b.Journal {
		shiftRow(&b.Journal[i], d)
	}
	for i := range b.Nodes {
		shiftNode(&b.Nodes[i], d)
	}
}

func shiftRow(r *cluster.JournalRow, d time.Duration) {
	for _, at := range []*time.Time{&r.IntentAt, &r.PresentAt, &r.ClosingAt, &r.GoneAt, &r.NextAt} {
		*at = shifted(*at, d)
	}
}

func shiftNode(n *cluster.Node, d time.Duration) {
	for _, at := range []*time.Time{&n.ReadyAt, &n.HeartbeatAt, &n.Removed} {
		*at = shifted(*at, d)
	}
}

func shifted(at time.Time, d time.Duration) time.Time {
	if at.IsZero() || d == 0 {
		return at
	}
	return at.Add(d)
}
