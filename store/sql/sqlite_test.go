package sql_test

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/storetest"
)

func openSQLite(t testing.TB, o sql.Options) *sql.SQLite {
	t.Helper()
	s, err := sql.OpenSQLite(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) workflow.Store {
			return openSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
		},
		Reopen: func(t testing.TB, s workflow.Store) workflow.Store {
			path := sql.Crash(s.(*sql.SQLite))
			return openSQLite(t, sql.Options{Path: path})
		},
		DiskFull: func(t testing.TB, s workflow.Store) func() { return sql.Fill(t, s.(*sql.SQLite)) },
	})
}
