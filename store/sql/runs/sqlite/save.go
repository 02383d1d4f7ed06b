package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The two statements of a step. The update matches its row only if nothing but the body
// of the run changes: then no index is touched.
const (
	updateSQL = "UPDATE run SET revision = revision + 1, body = ? WHERE row = ? AND revision = ? AND epoch = ? AND mail = ? AND due = 0"
	eventSQL  = "INSERT INTO event (row, run, data, steps) VALUES (?, ?, ?, ?)"
)

// save is a Save in the writer. Its first statement, the guarded update, changes nothing
// if it fails, so a save without mail and consumed signals needs no savepoint.
type save struct {
	runs.Encoded
	d      *dialect
	r      *runtype.Run // the writer reads only its scalars, while the caller waits
	handle *runs.Handle
	save   *runstore.Save
	plain  bool // only the body changes

	mail      int64
	lastEvent int64
	lastSteps int64
	toWake    []string
	written   bool // the row of the run is written
}

// Save implements runs.Dialect.
func (d *dialect) Save(ctx context.Context, s *runstore.Save) error {
	if err := d.db.NotOwner(); err != nil {
		return err
	}
	r := s.Run
	h, err := d.runs.Hold(ctx, r)
	if err != nil {
		return err
	}
	op := &save{Encoded: h.Encode(r, s.Events), d: d, r: r, handle: h, save: s, mail: r.Mail}
	op.plain = r.Owner != "" && h.IsSame(r) && len(s.Consumed) == 0 && len(s.Mail) == 0
	if err := d.db.Do(op, false); err != nil {
		return err
	}
	r.Revision++
	r.Mail = op.mail
	r.Clean()
	h.LastEvent, h.LastSteps = op.lastEvent, op.lastSteps
	h.Saved(r, op.Open)
	return nil
}

// putPointers completes a body with the numbers of the newest rows, as they are after the
// write of e.
func putPointers(w *sqlite.Writer, h *runs.Handle, e runs.Encoded) []byte {
	if e.Events != nil {
		h.LastEvent = w.Counters[lastEvent] + 1
	}
	if e.Steps != nil {
		h.LastSteps = w.Counters[lastEvent] + 1
	}
	return runs.PutPointers(e.Body, h.LastEvent, h.LastSteps)
}

// addEvent appends a row of events and settled records, if there are any.
func (d *dialect) addEvent(w *sqlite.Writer, run int64, e runs.Encoded) error {
	if e.Events == nil && e.Steps == nil {
		return nil
	}
	w.Counters[lastEvent]++
	d.event.BindInt64(1, w.Counters[lastEvent])
	d.event.BindInt64(2, run)
	bindBlob(d.event, 3, e.Events)
	bindBlob(d.event, 4, e.Steps)
	w.Count(16 + len(e.Events) + len(e.Steps))
	return w.Step(d.event)
}

func bindBlob(stmt *driver.Stmt, i int, data []byte) {
	if data == nil {
		stmt.BindNull(i)
		return
	}
	stmt.BindBytes(i, data)
}

// Execute implements sqlite.Write.
func (op *save) Execute(w *sqlite.Writer) error {
	r, h := op.r, op.handle
	if op.d.claims.isFenced(h.Key, r.Epoch) {
		return runstore.ErrFenced
	}
	newest := *h // the handle changes when the write is durable
	body := putPointers(w, &newest, op.Encoded)
	op.lastEvent, op.lastSteps = newest.LastEvent, newest.LastSteps
	if !op.plain {
		return op.saveTransition(w, body)
	}
	stmt := op.d.update
	stmt.BindBytes(1, body)
	stmt.BindInt64(2, h.Key)
	stmt.BindInt64(3, r.Revision)
	stmt.BindInt64(4, r.Epoch)
	stmt.BindInt64(5, r.Mail)
	w.Count(len(body) + 32)
	if err := w.Step(stmt); err != nil {
		return err
	}
	if w.Conn.Changes() == 0 {
		return op.saveTransition(w, body)
	}
	return sqlite.Partial(op.d.addEvent(w, h.Key, op.Encoded))
}

// saveTransition saves a change of more than the body. If it sends mail or consumes
// signals, it may have written something before it fails, so it needs a savepoint.
func (op *save) saveTransition(w *sqlite.Writer, body []byte) error {
	if len(op.save.Mail)+len(op.save.Consumed) > 0 {
		return w.Guarded(func() error { return op.saveSlowly(w, body) })
	}
	op.written = false
	err := op.saveSlowly(w, body)
	if op.written {
		return sqlite.Partial(err)
	}
	return err
}

func (op *save) saveSlowly(w *sqlite.Writer, body []byte) error {
	r := op.r
	op.toWake = op.toWake[:0]
	now := time.Now()
	old, err := byRow(w, op.handle.Key)
	switch {
	case err != nil:
		return err
	case old.epoch > r.Epoch:
		return runstore.ErrFenced
	case old.revision != r.Revision:
		return runstore.ErrConflict
	case old.phase == runtype.Queued && r.Phase != runtype.Queued && !r.Phase.Final():
		return fmt.Errorf("%w: %s is queued behind another run of %s and may only end", runstore.ErrConflict, r.ID, r.Subject)
	}
	for _, post := range op.save.Mail {
		known, err := find(w, post.To)
		if errors.Is(err, runstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := accept(w, known, post.To, post.Signal, now, false, &op.toWake); err != nil && !errors.Is(err, runstore.ErrFinal) {
			return err
		}
	}
	if len(op.save.Mail) > 0 { // some of the mail may be for this run itself
		if old, err = byRow(w, old.row); err != nil {
			return err
		}
	}
	for _, id := range op.save.Consumed {
		if err := w.Exec("UPDATE signal SET data = NULL WHERE run = ? AND id = ? AND data IS NOT NULL", old.row, id); err != nil {
			return err
		}
	}

	var owner, due, ended, slot, fault any
	queue := r.Queue
	if old.slot {
		slot = 1
	}
	if code := runs.FaultOf(r); code != "" {
		fault = code
	}
	switch {
	case r.Phase.Final():
		slot, queue = nil, 0
		ended = db.Nanos(r.EndedAt)
		if r.EndedAt.IsZero() {
			ended = now.UnixNano()
		}
	case r.Owner != "":
		owner, due = r.Owner, 0
	case r.Mail < old.mail:
		due = now.UnixNano()
		op.toWake = append(op.toWake, r.ID)
	case !r.NextAt.IsZero():
		due = dueAt(r.NextAt)
	}
	err = w.Exec(`UPDATE run SET revision = revision + 1, epoch = ?, owner = ?, phase = ?, slot = ?, queue_no = ?,
		version = ?, hash = ?, due = ?, ended = ?, body = ?, fault = ? WHERE row = ?`,
		r.Epoch, owner, codec.PhaseNumber(r.Phase), slot, queue, r.Version, r.Hash, due, ended, body, fault, old.row)
	if err != nil {
		return err
	}
	op.written = true
	if err := op.d.addEvent(w, old.row, op.Encoded); err != nil {
		return err
	}
	if r.Phase.Final() && len(r.Limits) > 0 {
		if err := releaseLimits(w, old.row, now, &op.toWake); err != nil {
			return err
		}
	}
	if old.slot && r.Phase.Final() {
		if err := promote(w, r.Subject, now, &op.toWake); err != nil {
			return err
		}
	}
	op.mail = old.mail
	return nil
}

// dueAt returns the due time as a column value. 0 and less are for owned runs.
func dueAt(t time.Time) int64 { return max(t.UnixNano(), 1) }

// Durable updates the claim table, then wakes the waiting runs.
func (op *save) Durable() {
	r, d := op.r, op.d
	if r.Owner == "" || r.Phase.Final() {
		d.claims.forget(op.handle.Key)
	} else if !op.plain {
		d.claims.setOwner(op.handle.Key, r.ID, r.Owner, r.Epoch)
	}
	for _, id := range op.toWake {
		d.db.Waker.Notify(id)
	}
}

// storedRun is the part of a run's row that a slow write needs.
type storedRun struct {
	row, revision, epoch, mail int64
	phase                      runtype.Phase
	slot, owned                bool
}

const storedRunSQL = "SELECT row, revision, epoch, mail, phase, slot IS NOT NULL, owner IS NOT NULL FROM run "

func byRow(w *sqlite.Writer, row int64) (storedRun, error) {
	return one(w, storedRunSQL+"WHERE row = ?", row)
}
func find(w *sqlite.Writer, id string) (storedRun, error) {
	return one(w, storedRunSQL+"WHERE id = ?", id)
}

func one(w *sqlite.Writer, sql string, key any) (storedRun, error) {
	var found storedRun
	err := sqlite.Query(w.Conn, sql, func(row *driver.Stmt) error {
		found = storedRun{row: row.ColumnInt64(0), revision: row.ColumnInt64(1), epoch: row.ColumnInt64(2), mail: row.ColumnInt64(3),
			phase: codec.PhaseOf(row.ColumnInt64(4)), slot: row.ColumnBool(5), owned: row.ColumnBool(6)}
		return nil
	}, key)
	if err == nil && found.row == 0 {
		err = runstore.ErrNotFound
	}
	return found, err
}

// nextSQL finds the next run of a subject: the first of its queue, or, if that one is limited, the first child run that
// passes it (runtype.Run.PassesLimited), if there is one. Of two runs with one number the older one is before.
const nextSQL = `
SELECT q.row, q.id FROM run AS q WHERE q.subject = ? AND q.queue_no > 0
ORDER BY q.parent IS NULL OR EXISTS (SELECT 1 FROM run_limit AS l WHERE l.run = q.row) OR NOT EXISTS (
	SELECT 1 FROM run_limit AS l WHERE l.run = (SELECT f.row FROM run AS f WHERE f.subject = q.subject AND f.queue_no > 0 ORDER BY f.queue_no, f.row LIMIT 1)),
	q.queue_no, q.row LIMIT 1`

// promote gives the slot of an ended run to the next run in the queue.
func promote(w *sqlite.Writer, subject string, now time.Time, toWake *[]string) error {
	var next int64
	var id string
	err := sqlite.Query(w.Conn, nextSQL, func(row *driver.Stmt) error {
		next, id = row.ColumnInt64(0), row.ColumnText(1)
		return nil
	}, subject)
	if err != nil || next == 0 {
		return err
	}
	keys, err := limitKeys(w, "SELECT key FROM run_limit WHERE run = ?", next)
	if err != nil {
		return err
	}
	if len(keys) > 0 { // it waits for its limits now
		if err := w.Exec("UPDATE run SET slot = 1, queue_no = 0, revision = revision + 1 WHERE row = ?", next); err != nil {
			return err
		}
		if err := w.Exec("UPDATE run_limit SET state = 1 WHERE run = ?", next); err != nil {
			return err
		}
		return startWaiting(w, keys, now, toWake)
	}
	*toWake = append(*toWake, id)
	return w.Exec(`UPDATE run SET phase = ?, slot = 1, queue_no = 0, revision = revision + 1,
		due = CASE WHEN owner IS NULL THEN ? ELSE due END WHERE row = ?`, codec.PhaseNumber(runtype.Running), now.UnixNano(), next)
}
