package sql

import (
	"path/filepath"
	"testing"
)

// file opens a store on a new SQLite file.
func file(t testing.TB) *SQLite {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
}

// openFile opens a store on a SQLite file.
func openFile(t testing.TB, path string) *SQLite {
	t.Helper()
	s, err := OpenSQLite(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
