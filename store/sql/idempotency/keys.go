// Package idempotency stores the answers to requests that may be sent twice, in either database.
package idempotency

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// Keys stores the answers to requests by account and key, so that a request that is sent
// twice is executed once. It implements the server's Idempotency; server/idempotencytest
// is its conformance suite.
type Keys struct{ m db.Backend }

// New returns the answers of a database.
func New(m db.Backend) Keys { return Keys{m} }

// Claim takes a key for the request with this hash. It succeeds if the key is free, if
// its entry is older than keep, or if the same request claimed it longer than stale ago
// and never answered. Otherwise it returns the stored hash and answer. It also removes
// entries that are older than keep.
func (k Keys) Claim(ctx context.Context, account, key, hash string, keep, stale time.Duration) (taken bool, old string, answer []byte, err error) {
	err = db.RetryStale(func() error {
		taken, old, answer = false, "", nil
		var now time.Time
		var at int64
		known := false
		err := k.m.Read(ctx, func(s db.Session) (err error) {
			if err := s.Query(`SELECT hash, at, answer FROM idempotency WHERE account = $1 AND key = $2`, []any{account, key}, func(r db.Row) error {
				known, old, at, answer = true, r.Text(0), r.Int(1), r.Bytes(2)
				return nil
			}); err != nil {
				return err
			}
			now, err = k.m.Clock(s)
			return err
		})
		if err != nil {
			return err
		}
		age := now.Sub(time.Unix(0, at))
		if taken = !known || age >= keep || old == hash && answer == nil && age >= stale; !taken {
			return nil
		}
		take := db.Statement{SQL: `INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, $3, $4, NULL) ON CONFLICT (account, key) DO NOTHING RETURNING 1`,
			Args: []any{account, key, hash, now.UnixNano()}, Must: db.ErrStale}
		if known {
			take.SQL = `UPDATE idempotency SET hash = $1, at = $2, answer = NULL WHERE account = $3 AND key = $4 AND hash = $5 AND at = $6`
			take.Args = []any{hash, now.UnixNano(), account, key, old, at}
			if answer == nil {
				take.SQL += ` AND answer IS NULL`
			}
			take.SQL += ` RETURNING 1`
		}
		return k.m.Apply(ctx, db.Change{List: []db.Statement{take, {
			SQL:  `DELETE FROM idempotency WHERE at <= $1 AND NOT (account = $2 AND key = $3)`,
			Args: []any{now.Add(-keep).UnixNano(), account, key},
		}}})
	})
	return taken, old, answer, err
}

// Answer stores the answer to the request that claimed the key.
func (k Keys) Answer(ctx context.Context, account, key string, answer []byte) error {
	if answer == nil {
		answer = []byte{}
	}
	return k.m.Apply(ctx, db.Single(`UPDATE idempotency SET answer = $1 WHERE account = $2 AND key = $3`, answer, account, key))
}

// Release frees a claimed key: its request changed nothing.
func (k Keys) Release(ctx context.Context, account, key string) error {
	return k.m.Apply(ctx, db.Single(`DELETE FROM idempotency WHERE account = $1 AND key = $2`, account, key))
}

// signedOut is the account name of entries that are not answers but console sessions
// that were signed out. Both kinds are removed after a day.
const signedOut = "signed out"

// SignOut records that a console session was signed out, for the rest of its lifetime.
func (k Keys) SignOut(ctx context.Context, id string) error {
	var now time.Time
	err := k.m.Read(ctx, func(s db.Session) (err error) {
		now, err = k.m.Clock(s)
		return err
	})
	if err != nil {
		return err
	}
	return k.m.Apply(ctx, db.Single(`INSERT INTO idempotency (account, key, hash, at, answer) VALUES ($1, $2, '', $3, NULL) ON CONFLICT (account, key) DO NOTHING`,
		signedOut, id, now.UnixNano()))
}

// SignedOut reports whether any server on this database has signed the session out.
func (k Keys) SignedOut(ctx context.Context, id string) (found bool, err error) {
	err = k.m.Read(ctx, func(s db.Session) error {
		found = false
		return s.Query(`SELECT 1 FROM idempotency WHERE account = $1 AND key = $2`, []any{signedOut, id}, func(db.Row) error {
			found = true
			return nil
		})
	})
	return found, err
}
