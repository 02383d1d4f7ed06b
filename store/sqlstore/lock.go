package sqlstore

import (
	"context"
	"time"
)

// locks implements lock.Medium in either database.
type locks struct{ m medium }

// Transact implements lock.Medium.
func (l locks) Transact(ctx context.Context, name string, change func(now time.Time, old []byte) (next []byte, write bool)) error {
	return l.m.write(ctx, "lock/"+name, func(s session) error {
		now, err := l.m.clock(s)
		if err != nil {
			return err
		}
		old, err := l.value(s, name)
		if err != nil {
			return err
		}
		next, write := change(now, old)
		switch {
		case !write:
			return nil
		case next == nil:
			return s.query(`DELETE FROM lock WHERE name = $1`, []any{name}, nil)
		default:
			return s.query(`INSERT INTO lock (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, []any{name, next}, nil)
		}
	})
}

// Read implements lock.Medium.
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
