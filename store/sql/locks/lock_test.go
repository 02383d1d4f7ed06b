package locks_test

import (
	"testing"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/lock/locktest"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestLocks(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend { return sqltest.SQLite(t).Locks() })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend {
			p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
			return p.Locks()
		})
	})
}
