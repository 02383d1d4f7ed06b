package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	insertRunSQL = `INSERT INTO run (row, id, flow, version, hash, subject, parent, inline, phase, slot, queue_no, revision, epoch, owner, mail, due, created, ended, body, fault)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	createRunSQL   = insertRunSQL + " ON CONFLICT DO NOTHING"
	insertBirthSQL = "INSERT INTO birth (run, data, input) VALUES (?, ?, ?)"
)

// columns are the columns of a new run that Run does not hold.
type columns struct {
	row, mail, ended int64
	slot             bool
	due              any
	body             []byte
}

// insertRun returns the parameters of insertRunSQL.
func insertRun(r *runtype.Run, c columns) []any {
	var slot, owner, ended, parent, fault any
	if c.slot {
		slot = int64(1)
	}
	if r.Owner != "" {
		owner = r.Owner
	}
	if c.ended != 0 {
		ended = c.ended
	}
	if r.Parent != "" {
		parent = r.Parent
	}
	if code := runs.FaultOf(r); code != "" {
		fault = code
	}
	return []any{c.row, r.ID, r.Flow, r.Version, r.Hash, r.Subject, parent, r.Inline, codec.PhaseNumber(r.Phase), slot, r.Queue, r.Revision, r.Epoch,
		owner, c.mail, c.due, db.Nanos(r.CreatedAt), ended, c.body, fault}
}

// Create implements runs.Dialect.
func (d *dialect) Create(_ context.Context, n *runs.NewRun) (runs.Created, error) {
	op := &create{d: d, new: n}
	if err := d.db.Do(op, false); err != nil {
		return runs.Created{}, err
	}
	if !d.db.IsOwner() {
		if !op.made.Known && op.made.Phase == runtype.Running {
			op.toWake = append(op.toWake, n.Run.ID)
		}
		d.db.WakeOwner(op.toWake...)
	}
	return op.made, nil
}

// create is a Create in the writer.
type create struct {
	d    *dialect
	new  *runs.NewRun
	made runs.Created

	toWake []string // runs that have acquired a limit
}

// Execute implements sqlite.Write.
func (op *create) Execute(w *sqlite.Writer) error {
	h := op.new.Handle
	r := *op.new.Run
	op.toWake = op.toWake[:0]
	r.Phase, r.Revision, r.Queue = runtype.Running, 1, 0
	if !op.d.db.IsOwner() {
		r.Owner, r.Epoch = "", 0
	}
	c := columns{row: w.Counters[lastRun] + 1, slot: !r.Inline, due: int64(0)}
	c.body = putPointers(w, h, op.new.Encoded)
	if r.Owner == "" {
		if r.NextAt.IsZero() {
			r.NextAt = time.Now().UTC()
		}
		c.due = dueAt(r.NextAt)
	}
	insert := func() (bool, error) {
		err := w.Exec(createRunSQL, insertRun(&r, c)...)
		return w.Conn.Changes() == 1, err
	}
	done, err := insert()
	if err != nil {
		return err
	}
	if !done {
		if _, err := find(w, r.ID); !errors.Is(err, runstore.ErrNotFound) {
			op.made.Known = err == nil
			return err
		}
		if r.PassesLimited() {
			passed, err := standBehind(w, r.Subject, time.Now(), &op.toWake)
			if err != nil {
				return sqlite.Partial(err)
			}
			if passed {
				if done, err = insert(); err != nil || !done {
					return sqlite.Partial(fmt.Errorf("run %s could not be started: %w", r.ID, err))
				}
			}
		}
	}
	if !done {
		waiting, newest := 0, int64(0)
		err := sqlite.Query(w.Conn, "SELECT count(*), max(queue_no) FROM run WHERE subject = ? AND queue_no > 0", func(row *driver.Stmt) error {
			waiting, newest = row.ColumnInt(0), row.ColumnInt64(1)
			return nil
		}, r.Subject)
		if err != nil {
			return err
		}
		if waiting >= runstore.MaxQueued {
			return runstore.QueueFull.Errorf("%d runs of %s wait already", waiting, r.Subject)
		}
		r.Phase, r.Queue = runtype.Queued, newest+1
		r.Owner, r.Epoch, r.NextAt = "", 0, time.Time{}
		c.due, c.slot = nil, false
		if done, err = insert(); err != nil || !done {
			return fmt.Errorf("run %s could neither be started nor queued: %w", r.ID, err)
		}
	}
	w.Counters[lastRun] = c.row
	if err := op.rest(w, c.row); err != nil {
		return sqlite.Partial(err)
	}
	if len(r.Limits) > 0 {
		waits, err := putLimits(w, c.row, &r)
		if err == nil && waits {
			r.Phase, r.Owner, r.Epoch, r.NextAt = runtype.Queued, "", 0, time.Time{}
			err = w.Exec("UPDATE run SET phase = ?, owner = NULL, epoch = 0, due = NULL WHERE row = ?", codec.PhaseNumber(r.Phase), c.row)
		}
		if err != nil {
			return sqlite.Partial(err)
		}
	}
	op.made = runs.Created{Key: c.row, Queue: r.Queue, Epoch: r.Epoch, NextAt: db.Nanos(r.NextAt), Phase: r.Phase, Owner: r.Owner}
	return nil
}

// rest writes the other rows of a new run.
func (op *create) rest(w *sqlite.Writer, row int64) error {
	r := op.new.Run
	if err := w.Exec(insertBirthSQL, row, op.new.Birth, []byte(r.Input)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		if err := w.Exec(runs.PutLabelSQL, name, r.Labels[name], row); err != nil {
			return err
		}
	}
	return op.d.addEvent(w, row, op.new.Encoded)
}

// Durable implements sqlite.Write.
func (op *create) Durable() {
	d, id := op.d, op.new.Run.ID
	switch {
	case op.made.Known || op.made.Phase == runtype.Queued || !d.db.IsOwner():
	case op.made.Owner != "":
		d.claims.setOwner(op.made.Key, id, op.made.Owner, op.made.Epoch)
	default:
		d.db.Waker.Notify(id)
	}
	for _, id := range op.toWake {
		d.db.Waker.Notify(id)
	}
}

// Restorer implements runs.Dialect. It numbers runs and events behind the newest ones.
func (d *dialect) Restorer(x db.Session) (func(runs.Dump) []db.Statement, error) {
	var last [2]int64
	for i, sql := range Counters {
		var err error
		if last[i], err = db.FirstInt(x, sql, nil); err != nil {
			return nil, err
		}
	}
	return func(dump runs.Dump) []db.Statement {
		r := dump.Run
		n := d.runs.Restored(dump)
		last[lastRun]++
		row := last[lastRun]
		var newest [2]int64 // rows of events and of records
		if n.Events != nil || n.Steps != nil {
			last[lastEvent]++
			if n.Events != nil {
				newest[0] = last[lastEvent]
			}
			if n.Steps != nil {
				newest[1] = last[lastEvent]
			}
		}
		c := columns{row: row, mail: r.Mail, slot: !r.Inline && !r.Phase.Final() && r.Queue == 0, body: runs.PutPointers(n.Body, newest[0], newest[1])}
		switch {
		case r.Phase.Final():
			c.ended = db.Nanos(r.EndedAt)
		case r.Owner != "":
			c.due = int64(1)
		case !r.NextAt.IsZero():
			c.due = dueAt(r.NextAt)
		}
		r.Owner = ""
		list := []db.Statement{{SQL: insertRunSQL, Args: insertRun(r, c)}, {SQL: insertBirthSQL, Args: []any{row, n.Birth, []byte(r.Input)}}}
		list = append(list, runs.LabelStatements(row, r.Labels)...)
		list = append(list, runs.LimitStatements(row, r)...)
		list = append(list, runs.LogStatements(row, dump)...)
		for _, id := range dump.Seen {
			list = append(list, db.Statement{SQL: insertSignalSQL, Args: []any{row, id, nil}})
		}
		for _, signal := range dump.Signals {
			list = append(list, db.Statement{SQL: insertSignalSQL, Args: []any{row, signal.ID, codec.AppendSignal(nil, &signal)}})
		}
		if n.Events != nil || n.Steps != nil {
			list = append(list, db.Statement{SQL: eventSQL, Args: []any{last[lastEvent], row, n.Events, n.Steps}})
		}
		return list
	}, nil
}
