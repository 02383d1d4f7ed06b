package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) runstore.Store {
			return sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
		},
		Reopen: func(t testing.TB, s runstore.Store) runstore.Store {
			path := sqltest.Crash(s.(*sql.SQLite))
			return sqltest.OpenSQLite(t, sql.Options{Path: path})
		},
		DiskFull: func(t testing.TB, s runstore.Store) func() { return sqltest.Fill(t, s.(*sql.SQLite)) },
	})
}

func BenchmarkSQLiteLimits(b *testing.B) {
	storetest.BenchmarkLimits(b, func(t testing.TB) runstore.Store {
		return sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	})
}
