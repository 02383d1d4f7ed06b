package sql

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// An export would lose a table that is neither in exportedTables nor written separately.
func TestExportKnowsEveryTable(t *testing.T) {
	known := []string{"migration", "run", "birth", "event", "signal", "definition", "counter", "object", "feed", "lock",
		"change", "idempotency", "run_label", // a restored store does not need these
		"sqlite_sequence"}
	for _, table := range exportedTables {
		known = append(known, table.name)
	}
	s, err := OpenSQLite(t.Context(), Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	err = s.read(t.Context(), func(conn *sqlite.Conn) error {
		return query(conn, "SELECT name FROM sqlite_schema WHERE type = 'table'", func(row *sqlite.Stmt) error {
			n++
			if !slices.Contains(known, row.ColumnText(0)) {
				t.Errorf("table %s is in no export: add it to carriedTables", row.ColumnText(0))
			}
			return nil
		})
	})
	if err != nil || n < len(exportedTables) {
		t.Errorf("%d tables, %v", n, err)
	}
}

// Tables with encrypted columns are exported tables, so that rotation and exports agree.
func TestEncryptedTablesAreExported(t *testing.T) {
	for _, encrypted := range encryptedTables {
		if !slices.ContainsFunc(exportedTables, func(c exportedTable) bool { return c.name == encrypted.name }) {
			t.Errorf("table %s has encrypted columns and is in no export", encrypted.name)
		}
	}
}

// No row may depend on another row: there are no foreign keys and no cascades.
func TestNoForeignKeys(t *testing.T) {
	s, err := OpenSQLite(t.Context(), Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.read(t.Context(), func(conn *sqlite.Conn) error {
		return query(conn, `SELECT m.name, f."table" FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`, func(row *sqlite.Stmt) error {
			t.Errorf("%s refers to %s", row.ColumnText(0), row.ColumnText(1))
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// A transaction that the server ends because of a deadlock is executed again.
func TestPostgresWritesAgainAfterADeadlock(t *testing.T) {
	p, _ := newPostgres(t, pgtest.Options{NoSync: true})
	m := p.Backend()
	put := func(name string) db.Statement {
		return db.Statement{SQL: `INSERT INTO setting (name, value, at) VALUES ($1, '1', 0) ON CONFLICT (name) DO UPDATE SET value = setting.value || '1'`, Args: []any{name}}
	}
	for round := 0; ; round++ {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		for _, name := range []string{a, b} {
			if err := m.Apply(t.Context(), db.Change{List: []db.Statement{put(name)}}); err != nil {
				t.Fatal(err)
			}
		}
		var tries atomic.Int64
		var all sync.WaitGroup
		for _, names := range [][]string{{a, b}, {b, a}} { // both transactions have their first row before they request the other's
			all.Go(func() {
				err := m.Apply(t.Context(), db.Change{List: []db.Statement{put(names[0]), {SQL: `SELECT pg_sleep(0.2)`}, put(names[1])}, Begin: func() { tries.Add(1) }})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, name := range []string{a, b} {
			if v, err := p.Clusters().Setting(t.Context(), name); err != nil || v != "111" {
				t.Errorf("%s was written %q, %v; want once by each", name, v, err)
			}
		}
		switch {
		case tries.Load() > 2:
			return
		case round == 20:
			t.Fatal("there was no deadlock: the test proves nothing")
		}
	}
}
