package sqlstore

import (
	"testing"

	"github.com/pawl-dev/pawl/server/idempotencytest"
	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

func TestIdempotency(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Keys { return file(t).Keys() })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Keys {
			p, _ := postgres(t, pgtest.Options{NoSync: true})
			return p.Keys()
		})
	})
}
