package idempotency_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/server/idempotency/idempotencytest"
	"github.com/pawl-dev/pawl/store/sql/idempotency"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestIdempotency(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Keys { return sqltest.SQLite(t).Keys() })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Keys {
			p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
			return p.Keys()
		})
	})
}

// A session that was signed out is signed out for every server on the database, and is
// not the answer to a request.
func TestSignedOut(t *testing.T) {
	suite := func(t *testing.T, first, second idempotency.Keys) {
		for range 2 { // signing out twice is harmless
			if err := first.SignOut(t.Context(), "0a1b"); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]bool{"0a1b": true, "0a1c": false} {
			if out, err := second.SignedOut(t.Context(), id); out != want || err != nil {
				t.Errorf("%s is signed out: %v, %v", id, out, err)
			}
		}
		if taken, _, _, err := second.Claim(t.Context(), "acme", "0a1b", "h", time.Hour, time.Hour); !taken || err != nil {
			t.Errorf("a request's key is taken by a session: %v", err)
		}
		if _, _, _, err := second.Claim(t.Context(), "acme", "later", "h", time.Nanosecond, time.Hour); err != nil { // removes old entries
			t.Fatal(err)
		}
		if out, err := first.SignedOut(t.Context(), "0a1b"); out || err != nil {
			t.Errorf("it is kept for ever: %v, %v", out, err)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		s := sqltest.SQLite(t)
		suite(t, s.Keys(), s.Keys())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
		suite(t, p.Keys(), p.Keys())
	})
}
