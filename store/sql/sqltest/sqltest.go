// Package sqltest opens databases for the tests of the packages below store/sql.
package sqltest

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// MasterKey is the master key of tests.
var MasterKey = bytes.Repeat([]byte{7}, secrets.KeySize)

// SQLite opens a store on a new file.
func SQLite(t testing.TB) *sql.SQLite {
	t.Helper()
	return Reopen(t, filepath.Join(t.TempDir(), "pawl.db"))
}

// Reopen opens a store on a file.
func Reopen(t testing.TB, path string) *sql.SQLite {
	t.Helper()
	return OpenSQLite(t, sql.Options{Path: path})
}

// OpenSQLite opens a store on a file.
func OpenSQLite(t testing.TB, o sql.Options) *sql.SQLite {
	t.Helper()
	s, err := sql.OpenSQLite(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// Postgres opens a store on a new database.
func Postgres(t testing.TB, o pgtest.Options) (sql.Store, string) {
	t.Helper()
	dsn := pgtest.Start(t, o).Database(t)
	return ReopenPostgres(t, dsn), dsn
}

// ReopenPostgres opens another store on the same database, which acts as another process.
func ReopenPostgres(t testing.TB, dsn string) sql.Store {
	t.Helper()
	s, err := sql.Open(t.Context(), sql.Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// OpenPostgres opens a store on a database of its own.
func OpenPostgres(t testing.TB, o sql.Options) sql.Store {
	t.Helper()
	o.DSN = pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	s, err := sql.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t testing.TB, s sql.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
