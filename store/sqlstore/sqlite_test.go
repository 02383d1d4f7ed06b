package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/store/sqlstore"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/storetest"
)

func openSQLite(t testing.TB, o sqlstore.Options) *sqlstore.SQLite {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) workflow.Store {
			return openSQLite(t, sqlstore.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
		},
		Reopen: func(t testing.TB, s workflow.Store) workflow.Store {
			path := sqlstore.Crash(s.(*sqlstore.SQLite))
			return openSQLite(t, sqlstore.Options{Path: path})
		},
		DiskFull: func(t testing.TB, s workflow.Store) func() { return sqlstore.Fill(t, s.(*sqlstore.SQLite)) },
	})
}
