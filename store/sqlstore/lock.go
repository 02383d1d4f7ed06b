package sqlstore

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-dev/pawl/lock"
)

// locks implements lock.Backend in either database.
type locks struct{ m backend }

// newLocks returns the locks of a database.
func newLocks(m backend) lock.Backend { return locks{m} }

// Transact implements lock.Backend by compare-and-swap. It reads the clock after the
// value, so a decision is never earlier than the value that it depends on.
func (l locks) Transact(ctx context.Context, name string, decide func(now time.Time, old []byte) (next []byte, write bool)) error {
	return retryStale(func() error {
		var now time.Time
		var old []byte
		err := l.m.read(ctx, func(s session) (err error) {
			if old, err = l.value(s, name); err == nil {
				now, err = l.m.clock(s)
			}
			return err
		})
		if err != nil {
			return err
		}
		next, write := decide(now, bytes.Clone(old))
		if !write || next == nil && old == nil {
			return nil
		}
		var swap statement
		switch {
		case old == nil:
			swap = statement{sql: `INSERT INTO lock (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING 1`, args: []any{name, next}}
		case next == nil:
			swap = statement{sql: `DELETE FROM lock WHERE name = $1 AND value = $2 RETURNING 1`, args: []any{name, old}}
		default:
			swap = statement{sql: `UPDATE lock SET value = $1 WHERE name = $2 AND value = $3 RETURNING 1`, args: []any{next, name, old}}
		}
		swap.must = errStale
		return l.m.apply(ctx, change{list: []statement{swap}})
	})
}

// Read implements lock.Backend.
func (l locks) Read(ctx context.Context, name string) (value []byte, err error) {
	err = l.m.read(ctx, func(s session) (err error) {
		value, err = l.value(s, name)
		return err
	})
	return value, err
}

func (l locks) value(s session, name string) (value []byte, err error) {
	err = s.query(`SELECT value FROM lock WHERE name = $1`, []any{name}, func(r row) error {
		value = r.bytes(0)
		return nil
	})
	return value, err
}
