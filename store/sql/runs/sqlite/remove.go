package sqlite

import (
	"context"
	"slices"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
)

// Remove implements runs.Dialect. It lets other writes in between.
func (d *dialect) Remove(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, 20) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := d.db.Do(sqlite.Func{Run: func(w *sqlite.Writer) error {
			for _, id := range chunk {
				if err := d.remove(w, id); err != nil {
					return err
				}
			}
			return w.Exec("INSERT INTO counter (name, value) VALUES ('run', ?), ('event', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
				w.Counters[lastRun], w.Counters[lastEvent])
		}}, true)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes one run that has ended. It keeps an unreadable run for inspection.
func (d *dialect) remove(w *sqlite.Writer, id string) error {
	var row int64
	var body []byte
	err := sqlite.Query(w.Conn, "SELECT row, body FROM run WHERE id = ? AND ended IS NOT NULL", func(found *driver.Stmt) error {
		row, body = found.ColumnInt64(0), sqlite.Column(found, 1)
		return nil
	}, id)
	if err != nil || row == 0 {
		return err
	}
	lastEvent, lastSteps, _, damage := runs.ReadPointers(body)
	var rows []int64
	gather := func(column string, last int64, previous func(data []byte) (int64, error)) error {
		if damage != nil {
			return nil //nolint:nilerr // a damaged run is kept
		}
		var err error
		damage, err = d.chain(sqlite.NewSession(w.Conn), column, last, func(data []byte) (int64, error) {
			rows = append(rows, last)
			var err error
			last, err = previous(data)
			return last, err
		})
		return err
	}
	if err := gather("data", lastEvent, func(data []byte) (prev int64, err error) { _, err = codec.ReadEvents("", data, &prev); return }); err != nil {
		return err
	}
	if err := gather("steps", lastSteps, func(data []byte) (prev int64, err error) { _, err = codec.ReadRecords(data, &prev); return }); err != nil || damage != nil {
		return err
	}
	for _, event := range rows {
		if err := w.Exec("DELETE FROM event WHERE row = ?", event); err != nil {
			return err
		}
	}
	for _, sql := range []string{"DELETE FROM signal WHERE run = ?", "DELETE FROM birth WHERE run = ?", "DELETE FROM run_label WHERE run = ?", "DELETE FROM run_limit WHERE run = ?", "DELETE FROM run_log WHERE run = ?", "DELETE FROM run_log_size WHERE run = ?", "DELETE FROM run WHERE row = ?"} {
		if err := w.Exec(sql, row); err != nil {
			return err
		}
	}
	return nil
}
