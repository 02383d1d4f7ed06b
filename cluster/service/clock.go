package service

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/lock"
)

// clock knows how far the clock that all servers share, that of the locks'
// medium, is ahead of ours. Whether a lookup that finds nothing is believed
// hangs on how old an intent is: so what one server has written is read by
// another one as if it had been written by its own clock (timed).
type clock struct {
	own func() time.Time

	mu    sync.Mutex
	known bool
	ahead time.Duration
}

// reading takes in that the shared clock was at shared at some moment between
// two readings of ours. Clocks that agree within that time are the same one.
func (c *clock) reading(before, shared, after time.Time) {
	least, most := shared.Sub(after.Round(0)), shared.Sub(before.Round(0))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.ahead = true, min(max(c.ahead, least), most)
}

// offset is how far the shared clock is ahead. Who asks first asks the medium.
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

// clockName is a lock that nobody takes.
const clockName = "cluster/clock"

// ticking is a medium of locks that tells its time by the way: whoever holds a
// lock renews it every few seconds.
type ticking struct {
	lock.Backend
	clock *clock
}

// Transact implements lock.Medium.
func (m ticking) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	before := m.clock.own()
	return m.Backend.Transact(ctx, name, func(now time.Time, old []byte) ([]byte, bool) {
		m.clock.reading(before, now, m.clock.own())
		return change(now, old)
	})
}

// timed is a ledger whose times of journal and nodes are kept by the shared
// clock, and given and taken by ours.
type timed struct {
	cluster.Store
	backend lock.Backend
	clock   *clock
}

func (t *timed) offset(ctx context.Context) (time.Duration, error) {
	return t.clock.offset(ctx, t.backend)
}

// Commit implements cluster.Books.
func (t *timed) Commit(ctx context.Context, c *cluster.Change) error {
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

// Heartbeats implements cluster.Ledger.
func (t *timed) Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error {
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

// Record implements cluster.Books.
func (t *timed) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
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

// Scan implements cluster.Ledger.
func (t *timed) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	ahead, err := t.offset(ctx)
	if err != nil {
		return err
	}
	return t.Store.Scan(ctx, q, func(b *cluster.Record) error {
		shiftRecord(b, -ahead)
		return visit(b)
	})
}

// Nodes implements cluster.Ledger.
func (t *timed) Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error) {
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

// Rows implements cluster.Ledger.
func (t *timed) Rows(ctx context.Context, q cluster.RowQuery) ([]cluster.OwnedRow, int, error) {
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
