package sql

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/workflow"
)

// firstLabel returns the term whose index a list reads: the first term that names a
// value. nil: no term does, and the list reads every run.
func firstLabel(terms []workflow.LabelTerm) (first *workflow.LabelTerm, others []workflow.LabelTerm) {
	at := slices.IndexFunc(terms, func(t workflow.LabelTerm) bool { return !t.Any && !t.Not })
	if at < 0 {
		return nil, terms
	}
	return &terms[at], slices.Delete(slices.Clone(terms), at, at+1)
}

// labelCondition returns a term as SQL, and the values of its parameters.
func labelCondition(t workflow.LabelTerm, run, key, value string) (condition string, values []any) {
	inner := "SELECT 1 FROM run_label l WHERE l.run = " + run + " AND l.key = " + key
	values = []any{t.Key}
	if !t.Any {
		inner += " AND l.value = " + value
		values = append(values, t.Value)
	}
	condition = "EXISTS (" + inner + ")"
	if t.Not {
		condition = "NOT " + condition
	}
	return condition, values
}

// labelRow is one label of a new run.
type labelRow struct {
	run        string
	key, value string
}

func labelRows(run string, labels map[string]string) []labelRow {
	var rows []labelRow
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		rows = append(rows, labelRow{run, key, labels[key]})
	}
	return rows
}

// addLabels indexes the labels of a new run.
func (w *sqWriter) addLabels(row int64, labels map[string]string) error {
	for _, l := range labelRows("", labels) {
		if err := w.exec("INSERT INTO run_label (key, value, run) VALUES (?, ?, ?)", l.key, l.value, row); err != nil {
			return err
		}
	}
	return nil
}

// sqliteLabels indexes the labels of runs that are older than the index.
func sqliteLabels(conn *sqlite.Conn) error {
	return query(conn, "SELECT run, data FROM birth", func(row *sqlite.Stmt) error {
		var r workflow.Run
		if err := codec.ReadBirth(column(row, 1), &r); err != nil {
			return nil //nolint:nilerr // a damaged run must not stop the migration
		}
		for key, value := range r.Labels {
			if err := execute(conn, "INSERT INTO run_label (key, value, run) VALUES (?, ?, ?)", key, value, row.ColumnInt64(0)); err != nil {
				return err
			}
		}
		return nil
	})
}

// labelSQL indexes the labels of the runs that this transaction created.
const labelSQL = `
INSERT INTO run_label (key, value, run)
SELECT s.key, s.value, r.k FROM unnest($1::text[], $2::text[], $3::text[]) AS s(id, key, value) JOIN run r ON r.id = s.id
WHERE r.xmin = pg_current_xact_id()::xid AND r.revision = 1`

// putLabelSQL indexes one label of a run.
const putLabelSQL = `INSERT INTO run_label (key, value, run) SELECT $2, $3, k FROM run WHERE id = $1`

// postgresLabels is sqliteLabels for PostgreSQL.
func postgresLabels(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT id, birth FROM run ORDER BY k")
	if err != nil {
		return err
	}
	var found []labelRow
	for rows.Next() {
		var r workflow.Run
		var birth []byte
		if err := rows.Scan(&r.ID, &birth); err != nil {
			return err
		}
		if codec.ReadBirth(birth, &r) == nil {
			found = append(found, labelRows(r.ID, r.Labels)...)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, l := range found {
		if _, err := tx.Exec(ctx, putLabelSQL, l.run, l.key, l.value); err != nil {
			return fmt.Errorf("label %s: %w", l.key, err)
		}
	}
	return nil
}
