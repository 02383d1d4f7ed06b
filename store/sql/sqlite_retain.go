package sql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow"
)

// PutDefinition stores a flow definition. See workflow.Definitions.
func (s *SQLite) PutDefinition(ctx context.Context, d workflow.Definition) error {
	if _, err := s.Definition(ctx, d.Hash); !errors.Is(err, workflow.ErrNotFound) {
		return err
	}
	return s.writer.do(&sqWrite{run: func(w *sqWriter) error { return w.putDefinition(d) }})
}

func (w *sqWriter) putDefinition(d workflow.Definition) error {
	return w.exec("INSERT INTO definition (hash, flow, version, data, source) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		d.Hash, d.Flow, d.Version, db.NonNil(d.Data), db.NonNil(d.Source))
}

// Definition returns a flow definition by its hash. ErrNotFound.
func (s *SQLite) Definition(ctx context.Context, hash string) (d workflow.Definition, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		err := query(conn, "SELECT hash, flow, version, data, source FROM definition WHERE hash = ?", func(row *sqlite.Stmt) error {
			d = definition(row)
			return nil
		}, hash)
		if err == nil && d.Hash == "" {
			err = workflow.ErrNotFound
		}
		return err
	})
	return d, err
}

func definition(row *sqlite.Stmt) workflow.Definition {
	d := workflow.Definition{Hash: row.ColumnText(0), Flow: row.ColumnText(1), Version: row.ColumnInt(2), Data: column(row, 3)}
	if source := column(row, 4); len(source) > 0 {
		d.Source = source
	}
	return d
}

// Expired returns the finished runs that the policy no longer keeps. See
// workflow.Retainer. A child of a run that has not ended is not returned.
func (s *SQLite) Expired(ctx context.Context, now time.Time, policy func(flow string) workflow.Retention, limit int) (ids []string, err error) {
	type candidate struct{ row, ended int64 }
	var old []candidate
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		subject, rank := "", 0
		err := query(conn, "SELECT subject, ended, flow, row FROM run WHERE ended IS NOT NULL ORDER BY subject DESC, ended DESC, row DESC", func(row *sqlite.Stmt) error {
			if of := row.ColumnText(0); of != subject {
				subject, rank = of, 0
			}
			ended := row.ColumnInt64(1)
			if !policy(row.ColumnText(2)).Keeps(now, db.Instant(ended), rank) {
				old = append(old, candidate{row.ColumnInt64(3), ended})
			}
			rank++
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(old, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.row, b.row)) })
		for _, one := range old {
			if limit > 0 && len(ids) == limit {
				break
			}
			id, err := text(conn, `SELECT id FROM run WHERE row = ? AND NOT EXISTS
				(SELECT 1 FROM run AS parent WHERE parent.id = run.parent AND parent.ended IS NULL)`, one.row)
			if err != nil {
				return err
			}
			if id != "" {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// Remove deletes finished runs. See workflow.Retainer. It lets other writes in between.
func (s *SQLite) Remove(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, 20) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.writer.do(&sqWrite{run: func(w *sqWriter) error {
			for _, id := range chunk {
				if err := w.remove(id); err != nil {
					return err
				}
			}
			// A number is never used twice, so cursors stay valid.
			return w.exec("INSERT INTO counter (name, value) VALUES ('run', ?), ('event', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
				w.lastRun, w.lastRow)
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *sqWriter) remove(id string) error {
	var row int64
	var body []byte
	err := query(w.conn, "SELECT row, body FROM run WHERE id = ? AND ended IS NOT NULL", func(found *sqlite.Stmt) error {
		row, body = found.ColumnInt64(0), column(found, 1)
		return nil
	}, id)
	if err != nil || row == 0 {
		return err
	}
	lastEvent, lastSteps, _, err := readRowPointers(body)
	if err != nil {
		return nil //nolint:nilerr // the run is unreadable: keep it for inspection
	}
	var rows []int64
	gather := func(col string, last int64, prev func([]byte) (int64, error)) error {
		return chain(w.conn, col, last, func(data []byte) (int64, error) {
			rows = append(rows, last)
			var err error
			last, err = prev(data)
			return last, err
		})
	}
	if err := gather("data", lastEvent, func(data []byte) (prev int64, err error) { _, err = codec.ReadEvents("", data, &prev); return }); err != nil {
		return keepDamaged(err)
	}
	if err := gather("steps", lastSteps, func(data []byte) (prev int64, err error) { _, err = codec.ReadRecords(data, &prev); return }); err != nil {
		return keepDamaged(err)
	}
	for _, event := range rows {
		if err := w.exec("DELETE FROM event WHERE row = ?", event); err != nil {
			return err
		}
	}
	for _, sql := range []string{"DELETE FROM signal WHERE run = ?", "DELETE FROM birth WHERE run = ?", "DELETE FROM run_label WHERE run = ?", "DELETE FROM run WHERE row = ?"} {
		if err := w.exec(sql, row); err != nil {
			return err
		}
	}
	return nil
}

// keepDamaged keeps an unreadable run, so that the removal of the others goes on.
func keepDamaged(err error) error {
	if fatal(err) {
		return err
	}
	return nil
}
