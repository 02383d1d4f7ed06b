//go:build unix

package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/admin"
	sqlitedb "github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/workflow/runstore"

	"github.com/pawl-dev/pawl/store/sql"
)

// foreign creates a database of another program.
func foreign(t *testing.T, path, script string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteScript(conn, script, nil), conn.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Opening, checking or exporting a file that is not a store fails at once and says what
// the file is. Nothing is written to it or beside it.
func TestFinding10FilesThatAreNoStore(t *testing.T) {
	for _, c := range []struct {
		what                string
		make                func(t *testing.T, path string)
		open, check, export *fault.Kind // nil: it succeeds
		damaged             bool
	}{
		{"empty", func(t *testing.T, path string) { write(t, path, nil) }, nil, sqlitedb.StoreEmpty, sqlitedb.StoreEmpty, false},
		{"short", func(t *testing.T, path string) { write(t, path, []byte("short")) }, sqlitedb.StoreForeign, sqlitedb.StoreForeign, sqlitedb.StoreForeign, false},
		{"one byte", func(t *testing.T, path string) { write(t, path, []byte("x")) }, sqlitedb.StoreForeign, sqlitedb.StoreForeign, sqlitedb.StoreForeign, false},
		{"a cut store", func(t *testing.T, path string) { write(t, path, []byte("SQLite format 3\x00\x10\x00\x02\x02")) }, runstore.StoreCorrupt, nil, runstore.StoreCorrupt, true},
		{"a text", func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("text\n"), 500)) }, runstore.StoreCorrupt, nil, runstore.StoreCorrupt, true},
		{"another program's", func(t *testing.T, path string) {
			foreign(t, path, "CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('x')")
		},
			sqlitedb.StoreForeign, sqlitedb.StoreForeign, sqlitedb.StoreForeign, false},
		{"another program's with runs", func(t *testing.T, path string) {
			foreign(t, path, "CREATE TABLE run (id TEXT); CREATE TABLE migration (version INTEGER); PRAGMA journal_mode = wal")
		}, sqlitedb.StoreForeign, sqlitedb.StoreForeign, sqlitedb.StoreForeign, false},
		{"a database without tables", func(t *testing.T, path string) { foreign(t, path, "CREATE TABLE x (y); DROP TABLE x") }, nil, sqlitedb.StoreEmpty, sqlitedb.StoreEmpty, false},
		{"a pipe", func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Skip(err)
			}
		}, sqlitedb.StoreNoFile, sqlitedb.StoreNoFile, sqlitedb.StoreNoFile, false},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, sqlitedb.StoreNoFile, sqlitedb.StoreNoFile, sqlitedb.StoreNoFile, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.db")
			c.make(t, path)
			before := bytesOf(path)
			code := func(what string, err error, want *fault.Kind) {
				t.Helper()
				if want == nil && err != nil || want != nil && fault.Of(err) != want {
					t.Errorf("%s: %v", what, err)
				}
			}
			report, err := admin.CheckFile(t.Context(), path)
			code("check", err, c.check)
			if report.Healthy || c.damaged != (len(report.Damage) > 0) {
				t.Errorf("check: %+v", report)
			}
			code("export", admin.ExportFile(t.Context(), path, &bytes.Buffer{}), c.export)
			for _, client := range []bool{true, false} {
				s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path, Client: client})
				code("open", err, c.open)
				if err == nil {
					s.Close()
				}
			}
			if c.open == nil {
				return
			}
			if !bytes.Equal(bytesOf(path), before) {
				t.Error("it was written to")
			}
			if beside, _ := filepath.Glob(path + "*"); len(beside) != 1 {
				t.Errorf("beside it are %v", beside)
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// bytesOf reads a regular file; nil for any other.
func bytesOf(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, _ := os.ReadFile(path)
	return data
}
