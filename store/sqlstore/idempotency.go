package sqlstore

import (
	"context"
	"time"
)

// Keys keeps the answers of requests by account and key, so that a request
// that is sent twice is carried out once. It is what a server calls its
// Idempotency; server/idempotencytest is its exam.
type Keys struct{ m medium }

// Claim takes a key for the request with this hash, if nobody has it, if what
// is there is older than keep, or if it was claimed by the same request longer
// than stale ago and never answered. Else it gives what is there. What is older
// than keep is removed on the way.
func (k Keys) Claim(ctx context.Context, account, key, hash string, keep, stale time.Duration) (taken bool, old string, answer []byte, err error) {
	err = k.m.write(ctx, "idempotency/"+account+"/"+key, func(s session) error {
		taken, old, answer = false, "", nil
		now, err := k.m.clock(s)
		if err != nil {
			return err
		}
		var at int64
		known := false
		if err := s.query(`SELECT hash, at, answer FROM idempotency WHERE account = $1 AND key = $2`, []any{account, key}, func(r row) error {
			known, old, at, answer = true, r.text(0), r.int(1), r.bytes(2)
			return nil
		}); err != nil {
			return err
		}
		age := now.Sub(time.Unix(0, at))
		if taken = !known || age >= keep || old == hash && answer == nil && age >= stale; !taken {
			return nil
		}
		if err := s.query(`DELETE FROM idempotency WHERE at <= $1`, []any{now.Add(-keep).UnixNano()}, nil); err != nil {
			return err
		}
		return s.query(`INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, $3, $4, NULL)
			ON CONFLICT (account, key) DO UPDATE SET hash = excluded.hash, at = excluded.at, answer = NULL`,
			[]any{account, key, hash, now.UnixNano()}, nil)
	})
	return taken, old, answer, err
}

// Answer keeps what a claimed key was answered with.
func (k Keys) Answer(ctx context.Context, account, key string, answer []byte) error {
	if answer == nil {
		answer = []byte{}
	}
	return k.m.write(ctx, "idempotency/"+account+"/"+key, func(s session) error {
		return s.query(`UPDATE idempotency SET answer = $1 WHERE account = $2 AND key = $3`, []any{answer, account, key}, nil)
	})
}

// Release gives a claimed key back: its request changed nothing.
func (k Keys) Release(ctx context.Context, account, key string) error {
	return k.m.write(ctx, "idempotency/"+account+"/"+key, func(s session) error {
		return s.query(`DELETE FROM idempotency WHERE account = $1 AND key = $2`, []any{account, key}, nil)
	})
}

// signedOut is the account of entries that are no answers but sessions of the
// console which were signed out. Both are forgotten after a day.
const signedOut = "signed out"

// SignOut remembers that a session of the console was signed out, for the
// hours that it would have been good.
func (k Keys) SignOut(ctx context.Context, id string) error {
	return k.m.write(ctx, "idempotency/"+signedOut+"/"+id, func(s session) error {
		now, err := k.m.clock(s)
		if err != nil {
			return err
		}
		return s.query(`INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, '', $3, NULL) ON CONFLICT (account, key) DO NOTHING`,
			[]any{signedOut, id, now.UnixNano()}, nil)
	})
}

// SignedOut reports a session that was signed out, here or by a server beside this one.
func (k Keys) SignedOut(ctx context.Context, id string) (found bool, err error) {
	err = k.m.read(ctx, func(s session) error {
		found = false
		return s.query(`SELECT 1 FROM idempotency WHERE account = $1 AND key = $2`, []any{signedOut, id}, func(row) error {
			found = true
			return nil
		})
	})
	return found, err
}

// Keys are those of this file.
func (s *SQLite) Keys() Keys { return Keys{sqMedium{s}} }

// Keys are those of this database.
func (p *Postgres) Keys() Keys { return Keys{pgMedium{p}} }
