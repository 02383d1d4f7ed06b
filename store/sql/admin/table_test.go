package admin_test

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// An export would lose a table that is neither in exportedTables nor written separately.
func TestExportKnowsEveryTable(t *testing.T) {
	known := []string{"migration", "run", "birth", "event", "signal", "definition", "counter", "object", "feed", "lock", "run_log", "run_log_size",
		"change", "idempotency", "run_label", "run_limit", // a restored store does not need these
		"sqlite_sequence"}
	known = append(known, admin.ExportedTables()...)
	s := sqltest.SQLite(t)
	n := 0
	err := s.DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("SELECT name FROM sqlite_schema WHERE type = 'table'", nil, func(r db.Row) error {
			n++
			if !slices.Contains(known, r.Text(0)) {
				t.Errorf("table %s is in no export: add it to exportedTables", r.Text(0))
			}
			return nil
		})
	})
	if err != nil || n < len(admin.ExportedTables()) {
		t.Errorf("%d tables, %v", n, err)
	}
}

// Tables with encrypted columns are exported tables, so that rotation and exports agree.
func TestEncryptedTablesAreExported(t *testing.T) {
	for _, encrypted := range admin.EncryptedTables() {
		if !slices.Contains(admin.ExportedTables(), encrypted) {
			t.Errorf("table %s has encrypted columns and is in no export", encrypted)
		}
	}
}

// No row may depend on another row: there are no foreign keys and no cascades.
func TestNoForeignKeys(t *testing.T) {
	s := sqltest.SQLite(t)
	err := s.DB.Read(t.Context(), func(x db.Session) error {
		return x.Query(`SELECT m.name, f."table" FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`, nil, func(r db.Row) error {
			t.Errorf("%s refers to %s", r.Text(0), r.Text(1))
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
