// Package locks stores locks in either database.
package locks

import (
	"bytes"
	"context"
	"time"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// store implements lock.Backend in either database.
type store struct{ m db.Backend }

// New returns the locks of a database.
func New(m db.Backend) lock.Backend { return store{m} }

// Transact implements lock.Backend by compare-and-swap. It reads the clock after the
// value, so a decision is never earlier than the value that it depends on.
func (l store) Transact(ctx context.Context, name string, decide func(now time.Time, old []byte) (next []byte, write bool)) error {
	return db.RetryStale(func() error {
		var now time.Time
		var old []byte
		err := l.m.Read(ctx, func(s db.Session) (err error) {
			if old, err = l.value(s, name); err == nil {
				now, err = l.m.Clock(s)
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
		var swap db.Statement
		switch {
		case old == nil:
			swap = db.Statement{SQL: `INSERT INTO lock (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING 1`, Args: []any{name, next}}
		case next == nil:
			swap = db.Statement{SQL: `DELETE FROM lock WHERE name = $1 AND value = $2 RETURNING 1`, Args: []any{name, old}}
		default:
			swap = db.Statement{SQL: `UPDATE lock SET value = $1 WHERE name = $2 AND value = $3 RETURNING 1`, Args: []any{next, name, old}}
		}
		swap.Must = db.ErrStale
		return l.m.Apply(ctx, db.Change{List: []db.Statement{swap}})
	})
}

// Read implements lock.Backend.
func (l store) Read(ctx context.Context, name string) (value []byte, err error) {
	err = l.m.Read(ctx, func(s db.Session) (err error) {
		value, err = l.value(s, name)
		return err
	})
	return value, err
}

func (l store) value(s db.Session, name string) (value []byte, err error) {
	err = s.Query(`SELECT value FROM lock WHERE name = $1`, []any{name}, func(r db.Row) error {
		value = r.Bytes(0)
		return nil
	})
	return value, err
}

// List implements lock.Lister. It reads the clock after the values, as Transact does.
func (l store) List(ctx context.Context, after string, limit int) (values []lock.Value, now time.Time, err error) {
	err = l.m.Read(ctx, func(s db.Session) error {
		values = nil
		err := s.Query(`SELECT name, value FROM lock WHERE name > $1 ORDER BY name LIMIT $2`, []any{after, int64(limit)}, func(r db.Row) error {
			values = append(values, lock.Value{Name: r.Text(0), Data: r.Bytes(1)})
			return nil
		})
		if err == nil {
			now, err = l.m.Clock(s)
		}
		return err
	})
	return values, now, err
}
