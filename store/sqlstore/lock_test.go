package sqlstore

import (
	"testing"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/lock/locktest"
	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

func TestLocks(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend { return file(t).Locks() })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend {
			p, _ := postgres(t, pgtest.Options{NoSync: true})
			return p.Locks()
		})
	})
}
