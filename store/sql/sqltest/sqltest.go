// Package sqltest opens databases for the tests of the packages below store/sql.
package sqltest

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
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
func Postgres(t testing.TB, o pgtest.Options) (*sql.Postgres, string) {
	t.Helper()
	dsn := pgtest.Start(t, o).Database(t)
	return ReopenPostgres(t, dsn), dsn
}

// ReopenPostgres opens another store on the same database, which acts as another process.
func ReopenPostgres(t testing.TB, dsn string) *sql.Postgres {
	t.Helper()
	s, err := sql.OpenPostgres(t.Context(), sql.Options{DSN: dsn})
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

// Execute runs a statement in the writer of a store.
func Execute(t testing.TB, s *sql.SQLite, statement string) {
	t.Helper()
	err := s.DB.Do(sqlite.Func{Run: func(w *sqlite.Writer) error { return sqlite.Execute(w.Conn, statement) }}, false)
	if err != nil {
		t.Fatal(err)
	}
}

// Fill stops the growth of the file until the caller calls the returned function.
func Fill(t testing.TB, s *sql.SQLite) func() {
	Execute(t, s, "PRAGMA max_page_count = 1") // SQLite raises this to the present size
	return func() { Execute(t, s, "PRAGMA max_page_count = 1073741823") }
}

// Refuse makes writes into a table fail until the caller calls the returned function.
func Refuse(t testing.TB, s *sql.SQLite, table string) func() {
	Execute(t, s, "CREATE TRIGGER refuse BEFORE INSERT ON "+table+" BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
	return func() { Execute(t, s, "DROP TRIGGER refuse") }
}

// Crash ends a store as the death of its process would: it releases nothing. The file
// keeps what the kernel has of it, as after a kill.
func Crash(s *sql.SQLite) (path string) {
	s.Close()
	return s.DB.Path()
}
