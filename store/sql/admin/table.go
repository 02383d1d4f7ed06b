package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runtype"
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
	{name: "run_limit_value", key: "key"},
	{name: "step_limit", key: "key"},
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

// isFilledSQL counts what a restore would mix with: not 0 if there is something. A new
// database has one account.
const isFilledSQL = `SELECT CASE WHEN EXISTS (SELECT 1 FROM run) OR EXISTS (SELECT 1 FROM object) OR EXISTS (SELECT 1 FROM container_cluster) OR EXISTS (SELECT 1 FROM job) OR EXISTS (SELECT 1 FROM cluster_event)
	OR (SELECT count(*) FROM account) > 1 OR EXISTS (SELECT 1 FROM token) OR EXISTS (SELECT 1 FROM api_key) THEN 1 ELSE 0 END`

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

// exportTables writes the rows of all tables. It goes on after a damaged table. A file with
// an older schema may lack a table.
func (a *Admin) exportTables(x db.Session, out *exporter) error {
	for _, t := range exportedTables {
		var failed error // error of writing the export
		known, err := x.HasTable(t.name)
		if err == nil && known {
			err = x.Columns("SELECT * FROM "+t.name+" ORDER BY "+t.key, func(names []string, values []any) error {
				columns := map[string]cell{}
				for i, name := range names {
					columns[name] = cell{values[i]}
				}
				failed = out.write(dump{Table: t.name, Row: columns})
				return failed
			})
		}
		switch {
		case failed != nil:
			return failed
		case err != nil && a.db.IsDamage(err):
			if err := out.write(dump{Damaged: &Damage{What: "table " + t.name + ": " + fault.Message(err)}}); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

var columnName = regexp.MustCompile(`^[a-z_]+$`)

// restoreRow inserts a row of an export.
func restoreRow(x db.Rewriter, line dump) error {
	i := slices.IndexFunc(exportedTables, func(t exportedTable) bool { return t.name == line.Table })
	if i < 0 {
		return runtype.InputInvalid.Errorf("the export holds a table %q: a newer version of the program has written it", line.Table)
	}
	t, columns := exportedTables[i], slices.Sorted(maps.Keys(line.Row))
	var args []any
	for _, c := range columns {
		if !columnName.MatchString(c) {
			return runtype.InputInvalid.Errorf("the export holds a column %q", c)
		}
		args = append(args, line.Row[c].value)
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(columns, ", "), db.Parameters(1, len(columns)))
	if t.replace {
		sql += fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s", t.key, db.Excluded(slices.DeleteFunc(columns, func(c string) bool { return c == t.key })))
	}
	return x.Execute([]db.Statement{{SQL: sql, Args: args}})
}

// advanceNumbers makes the database continue after the restored numbers.
func advanceNumbers(x db.Rewriter) error {
	if err := x.Restored("run", "k"); err != nil {
		return err
	}
	for _, t := range exportedTables {
		if t.number == "" {
			continue
		}
		if err := x.Restored(t.name, t.number); err != nil {
			return err
		}
	}
	return nil
}
