// Package sqlite is the part of the run store that is SQLite's own: one writer makes all writes of a moment in one
// transaction, and claims are kept in memory by the owner of the file.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// dialect implements runs.Dialect.
type dialect struct {
	runs   *runs.Store
	db     *sqlite.DB
	claims claimTable
	update *driver.Stmt // updateSQL; of the writer
	event  *driver.Stmt // eventSQL; of the writer
}

var texts = runs.Texts{
	Key: "r.row",
	Columns: `r.row, r.id, r.flow, r.version, r.hash, r.subject, r.parent, r.inline, r.phase, r.queue_no, r.revision, r.epoch, r.owner, r.mail,
		coalesce(r.due, -1), r.created, r.ended, r.body, b.data, b.input`,
	From: "run AS r LEFT JOIN birth AS b ON b.run = r.row",
	// A cross join keeps the order: first the index of labels, then the runs by row.
	Labelled: "run_label AS c CROSS JOIN run AS r ON r.row = c.run LEFT JOIN birth AS b ON b.run = r.row",
	Active:   "ended IS NULL",
	Ended:    "r.ended IS NOT NULL",
	Newest:   "SELECT 0, coalesce(max(row), 0) + 1 FROM event",
	Events: `SELECT $1, e.row, r.id, e.data FROM event AS e JOIN run AS r ON r.row = e.run
		WHERE e.row >= $2 AND e.data IS NOT NULL ORDER BY e.row LIMIT CAST($3 AS INTEGER)`,
	Rows:    "SELECT $1, row, run, data FROM event WHERE row >= $2 AND data IS NOT NULL ORDER BY row LIMIT CAST($3 AS INTEGER)",
	ID:      "SELECT id FROM run WHERE row = $1",
	Seen:    "SELECT id FROM signal WHERE run = $1 AND data IS NULL ORDER BY row",
	Chained: true,
}

// Indexes of sqlite.Writer.Counters: the newest rows of two tables. A number is never
// used twice, so cursors stay valid.
const (
	lastRun = iota
	lastEvent
)

// Counters are the queries of the writer's counters.
var Counters = []string{
	lastRun:   "SELECT max(coalesce((SELECT max(row) FROM run), 0), coalesce((SELECT value FROM counter WHERE name = 'run'), 0))",
	lastEvent: "SELECT max(coalesce((SELECT max(row) FROM event), 0), coalesce((SELECT value FROM counter WHERE name = 'event'), 0))",
}

// New returns the run store of an open file.
func New(ctx context.Context, on *sqlite.DB) (*runs.Store, error) {
	d := newDialect(on)
	err := on.Do(sqlite.Func{Run: func(w *sqlite.Writer) (err error) {
		if d.update, err = w.Conn.Prepare(updateSQL); err == nil {
			d.event, err = w.Conn.Prepare(eventSQL)
		}
		return err
	}}, false)
	if err == nil && on.IsOwner() {
		err = d.loadOrphans(ctx)
	}
	if err == nil && on.IsOwner() {
		err = d.startAll()
	}
	return d.runs, err
}

// NewReadOnly returns the run store of a file that is only read.
func NewReadOnly(on *sqlite.DB) *runs.Store { return newDialect(on).runs }

func newDialect(on *sqlite.DB) *dialect {
	d := &dialect{db: on}
	d.claims.init()
	d.runs = runs.New(on, d, texts)
	return d
}

// Close does nothing: the writer belongs to the file.
func (d *dialect) Close() {}

// ProbeWriter does nothing: all writes of the file take the same way.
func (d *dialect) ProbeWriter(context.Context) error { return nil }

// Complete implements runs.Dialect.
func (d *dialect) Complete(x db.Session, row *runs.Row) error {
	var err error
	row.Damage, err = d.chain(x, "steps", row.Handle.LastSteps, func(data []byte) (prev int64, err error) {
		settled, err := codec.ReadRecords(data, &prev)
		slices.Reverse(settled)
		row.Settled = append(row.Settled, settled...)
		return prev, err
	})
	slices.Reverse(row.Settled)
	if err != nil || row.Damage != nil || row.Run.Mail == 0 {
		return err
	}
	return x.Query("SELECT id, data FROM signal WHERE run = ? AND data IS NOT NULL ORDER BY row", []any{row.Handle.Key}, func(r db.Row) error {
		signal, err := codec.ReadSignal(r.Text(0), r.Bytes(1))
		row.Damage = errors.Join(row.Damage, err)
		row.Signals = append(row.Signals, signal)
		return nil
	})
}

// History implements runs.Dialect.
func (d *dialect) History(x db.Session, id string, h *runs.Handle, after int64, _ int) (rows [][]runtype.Event, damage, err error) {
	damage, err = d.chain(x, "data", h.LastEvent, func(data []byte) (prev int64, err error) {
		events, err := codec.ReadEvents(id, data, &prev)
		if len(events) > 0 && events[len(events)-1].Seq <= after {
			return 0, err
		}
		rows = append(rows, events)
		return prev, err
	})
	slices.Reverse(rows)
	return rows, damage, err
}

// chain reads rows of event from the newest back. fn returns the number of the row
// before; 0 ends.
func (d *dialect) chain(x db.Session, column string, last int64, fn func(data []byte) (int64, error)) (damage, err error) {
	sql := "SELECT " + column + " FROM event WHERE row = ?"
	for last > 0 && damage == nil {
		at, found := last, false
		err := x.Query(sql, []any{at}, func(r db.Row) error {
			found = true
			last, damage = fn(r.Bytes(0))
			return nil
		})
		if err != nil {
			return nil, err
		}
		if damage == nil && (!found || last >= at) {
			damage = fmt.Errorf("row %d of its history is missing or damaged", at)
		}
	}
	return damage, nil
}

// loadOrphans lists the runs of a dead owner. They are due at once.
func (d *dialect) loadOrphans(ctx context.Context) error {
	return d.db.Read(ctx, func(x db.Session) error {
		return x.Query("SELECT row FROM run WHERE due = 0 ORDER BY row", nil, func(r db.Row) error {
			d.claims.orphans = append(d.claims.orphans, r.Int(0))
			return nil
		})
	})
}
