package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow"
)

// exportedTable is a table whose rows an export copies unchanged: secrets stay
// encrypted.
type exportedTable struct {
	name, key string
	replace   bool   // a new database already has rows in it
	number    string // column whose sequence continues after the greatest number
}

// exportedTables are in the order of an export.
var exportedTables = []exportedTable{
	{name: "setting", key: "name", replace: true},
	{name: "domain", key: "id", replace: true},
	{name: "account", key: "id", replace: true},
	{name: "token", key: "id"},
	{name: "api_key", key: "id"},
	{name: "audit", key: "seq", number: "seq"},
	{name: "container_cluster", key: "id", number: "id"},
	{name: "container_cluster_vm_map", key: "id", number: "id"},
	{name: "container_cluster_details", key: "id", number: "id"},
	{name: "container_cluster_resource", key: "id", number: "id"},
	{name: "job", key: "number", number: "number"},
	{name: "cluster_event", key: "seq"},
	{name: "cluster_feed", key: "one", replace: true},
}

// hasClustersSQL reports whether the database has rows that a restore would mix with. A
// new database has one account.
const hasClustersSQL = `SELECT EXISTS (SELECT 1 FROM container_cluster) OR EXISTS (SELECT 1 FROM job) OR EXISTS (SELECT 1 FROM cluster_event)
	OR (SELECT count(*) FROM account) > 1 OR EXISTS (SELECT 1 FROM token) OR EXISTS (SELECT 1 FROM api_key)`

// cell is a column value: int64, string, []byte or nil.
type cell struct{ value any }

// MarshalJSON writes bytes as {"b": base64}.
func (c cell) MarshalJSON() ([]byte, error) {
	if b, ok := c.value.([]byte); ok {
		return json.Marshal(map[string][]byte{"b": b})
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(c.value)
	return []byte(strings.TrimSpace(text.String())), err
}

// UnmarshalJSON reads the format of MarshalJSON.
func (c *cell) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		c.value = nil
		return nil
	case '"':
		var s string
		err := json.Unmarshal(data, &s)
		c.value = s
		return err
	case '{':
		var b struct{ B []byte }
		err := json.Unmarshal(data, &b)
		c.value = db.NonNil(b.B)
		return err
	}
	var n int64
	err := json.Unmarshal(data, &n)
	c.value = n
	return err
}

// exportTables writes the rows of all tables. It goes on after a damaged table.
func exportTables(out *exporter, rows func(t exportedTable, each func(map[string]cell) error) error) error {
	for _, t := range exportedTables {
		var failed error // error of writing the export
		err := rows(t, func(columns map[string]cell) error {
			failed = out.write(dump{Table: t.name, Row: columns})
			return failed
		})
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, workflow.StoreCorrupt):
			if err := out.write(dump{Damaged: &Damage{What: "table " + t.name + ": " + fault.Message(err)}}); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// sqRows calls each for every row of a table. A file with an older schema may lack the
// table.
func sqRows(conn *sqlite.Conn, t exportedTable, each func(map[string]cell) error) error {
	known, err := text(conn, "SELECT count(*) FROM sqlite_schema WHERE name = ?", t.name)
	if err != nil || known == "0" {
		return sqFault(err, t.name)
	}
	return sqFault(query(conn, "SELECT * FROM "+t.name+" ORDER BY "+t.key, func(row *sqlite.Stmt) error {
		columns := map[string]cell{}
		for i := range row.ColumnCount() {
			var v any
			switch row.ColumnType(i) {
			case sqlite.TypeInteger:
				v = row.ColumnInt64(i)
			case sqlite.TypeText:
				v = row.ColumnText(i)
			case sqlite.TypeBlob:
				v = db.NonNil(column(row, i))
			case sqlite.TypeNull:
			default:
				return workflow.StoreCorrupt.Errorf("column %s holds a %v", row.ColumnName(i), row.ColumnType(i))
			}
			columns[row.ColumnName(i)] = cell{v}
		}
		return each(columns)
	}), t.name)
}

// pgRows calls each for every row of a table.
func pgRows(s postgres.Session, t exportedTable, each func(map[string]cell) error) error {
	return s.Columns("SELECT * FROM "+t.name+" ORDER BY "+t.key, func(names []string, values []any) error {
		columns := map[string]cell{}
		for i, name := range names {
			columns[name] = cell{values[i]}
		}
		return each(columns)
	})
}

var columnName = regexp.MustCompile(`^[a-z_]+$`)

// restoreRow inserts a row of an export.
func restoreRow(s db.Session, line dump) error {
	i := slices.IndexFunc(exportedTables, func(t exportedTable) bool { return t.name == line.Table })
	if i < 0 {
		return workflow.InputInvalid.Errorf("the export holds a table %q: a newer version of the program has written it", line.Table)
	}
	t, columns := exportedTables[i], slices.Sorted(maps.Keys(line.Row))
	var args []any
	for _, c := range columns {
		if !columnName.MatchString(c) {
			return workflow.InputInvalid.Errorf("the export holds a column %q", c)
		}
		args = append(args, line.Row[c].value)
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(columns, ", "), db.Parameters(1, len(columns)))
	if t.replace {
		sql += fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s", t.key, db.Excluded(slices.DeleteFunc(columns, func(c string) bool { return c == t.key })))
	}
	return s.Query(sql, args, nil)
}

// advanceSequences continues PostgreSQL's sequences after the restored numbers. SQLite
// does so by itself.
func advanceSequences(s postgres.Session) error {
	for _, t := range exportedTables {
		if t.number == "" {
			continue
		}
		sql := fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', '%s'), max(%s)) FROM %s HAVING max(%s) IS NOT NULL", t.name, t.number, t.number, t.name, t.number)
		if err := s.Query(sql, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkRecords reads all cluster tables. Of secrets it checks only the envelope.
func checkRecords(s db.Session, report *Report) error {
	note := func(what string, err error) {
		if err != nil {
			report.Damage = append(report.Damage, Damage{What: what + ": " + fault.Message(err)})
		}
	}
	var err error
	if report.Clusters, err = clusters.Check(s, note); err != nil {
		return err
	}
	for _, t := range encryptedTables {
		sql := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s", t.idColumn, strings.Join(t.columns, ", "), t.name, t.idColumn)
		if err := s.Query(sql, nil, func(r db.Row) error {
			for i, column := range t.columns {
				if encrypted := r.Bytes(i + 1); len(encrypted) > 0 && !secrets.IsEncrypted(encrypted) {
					note(secrets.Location(t.name, column, r.Text(0)), workflow.StoreCorrupt.Errorf("this is not an encrypted secret"))
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
