package sql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow"
)

var noContext = context.Background()

// The two statements of a step. The update matches its row only if nothing but the body
// of the run changes: then no index is touched.
const (
	sqlUpdate = "UPDATE run SET revision = revision + 1, body = ? WHERE row = ? AND revision = ? AND epoch = ? AND mail = ? AND due = 0"
	sqlEvent  = "INSERT INTO event (row, run, data, steps) VALUES (?, ?, ?, ?)"
)

// sqHandle is the store's knowledge about a run that a caller holds. It is valid while
// the revision is unchanged.
type sqHandle struct {
	store     *SQLite
	row       int64
	revision  int64
	lastEvent int64 // newest rows of the run in event
	lastSteps int64
	open      []string // records in the body
	phase     workflow.Phase
	owner     string
	epoch     int64
	hash      string
	version   int
}

// pointerSpace is left free before a body for two row numbers that only the writer
// knows.
const pointerSpace = 2 * binary.MaxVarintLen64

// sqSave is a save, encoded by its caller.
type sqSave struct {
	r      *workflow.Run // the writer reads only its scalars, while the caller waits
	handle *sqHandle
	plain  bool // only the body changes
	body   []byte
	events []byte
	steps  []byte
	save   *workflow.Save

	mail      int64
	lastEvent int64
	lastSteps int64
	toWake    []string
	written   bool // the row of the run is written
}

// Save writes the changes of a run. See workflow.Store.
func (s *SQLite) Save(ctx context.Context, save *workflow.Save) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.owner {
		return s.notOwner()
	}
	r := save.Run
	handle, err := s.handle(ctx, r)
	if err != nil {
		return err
	}
	op := &sqSave{r: r, handle: handle, save: save, mail: r.Mail}
	open := op.encode()
	if err := s.writer.do(&sqWrite{save: op}); err != nil {
		return err
	}
	r.Revision++
	r.Mail = op.mail
	r.Clean()
	h := handle
	h.revision, h.lastEvent, h.lastSteps = r.Revision, op.lastEvent, op.lastSteps
	h.phase, h.owner, h.epoch, h.hash, h.version = r.Phase, r.Owner, r.Epoch, r.Hash, r.Version
	h.open = h.open[:0]
	for _, s := range open {
		h.open = append(h.open, s.Name)
	}
	return nil
}

// handle returns the handle of a run. If the run has none, it reads the row.
func (s *SQLite) handle(ctx context.Context, r *workflow.Run) (*sqHandle, error) {
	if h, ok := r.Handle.(*sqHandle); ok && h.store == s && h.revision == r.Revision {
		return h, nil
	}
	stored, _, err := s.Load(ctx, r.ID)
	switch {
	case err != nil:
		return nil, err
	case stored.Epoch > r.Epoch:
		return nil, workflow.ErrFenced
	case stored.Revision != r.Revision:
		return nil, workflow.ErrConflict
	}
	r.Handle = stored.Handle
	return stored.Handle.(*sqHandle), nil
}

// encode writes the blobs and returns the records that stay in the body.
func (op *sqSave) encode() (open []*workflow.StepRecord) {
	r, h := op.r, op.handle
	var settled []*workflow.StepRecord
	for _, name := range h.open {
		if s := r.Step(name); s != nil && inBody(s) {
			open = append(open, s)
		}
	}
	for _, s := range r.Changed() {
		if r.Step(s.Name) != s {
			continue // a later Put replaced it
		}
		if !inBody(s) {
			settled = append(settled, s)
		} else if !slices.Contains(open, s) {
			open = append(open, s)
		}
	}
	op.body = codec.AppendBody(make([]byte, pointerSpace, pointerSpace+96), r, open)
	if len(settled) > 0 {
		op.steps = codec.AppendRecords(nil, settled, h.lastSteps)
	}
	if len(op.save.Events) > 0 {
		op.events = codec.AppendEvents(make([]byte, 0, 96), op.save.Events, h.lastEvent)
	}
	op.plain = r.Owner != "" && r.Owner == h.owner && r.Phase == h.phase && r.Epoch == h.epoch && r.Hash == h.hash &&
		r.Version == h.version && len(op.save.Consumed) == 0 && len(op.save.Mail) == 0
	return open
}

// inBody reports a record that belongs in the body: it will change again, or it belongs
// to the step where the run is now, and it is small enough to be written with each save
// until then.
func inBody(s *workflow.StepRecord) bool {
	switch s.Phase {
	case workflow.StepRunning, workflow.StepRetrying, workflow.StepWaiting, workflow.StepFailed, workflow.StepEntered:
		return len(s.Output) <= 256 && s.Items == nil
	}
	return false
}

// putRowPointers writes the numbers of the newest rows before a body.
func putRowPointers(body []byte, lastEvent, lastSteps int64) []byte {
	var head [pointerSpace]byte
	n := binary.PutVarint(head[:], lastEvent)
	n += binary.PutVarint(head[n:], lastSteps)
	copy(body[pointerSpace-n:], head[:n])
	return body[pointerSpace-n:]
}

// readRowPointers reads the numbers that putRowPointers wrote.
func readRowPointers(data []byte) (lastEvent, lastSteps int64, body []byte, err error) {
	lastEvent, n := binary.Varint(data)
	if n > 0 {
		var m int
		if lastSteps, m = binary.Varint(data[n:]); m > 0 {
			return lastEvent, lastSteps, data[n+m:], nil
		}
	}
	return 0, 0, nil, fmt.Errorf("damaged record: its row numbers are cut off")
}

// execute is the part of a save that the writer executes.
func (op *sqSave) execute(w *sqWriter) error {
	r, h := op.r, op.handle
	if w.store.claims.isFenced(h.row, r.Epoch) {
		return workflow.ErrFenced
	}
	op.lastEvent, op.lastSteps = h.lastEvent, h.lastSteps
	if op.events != nil {
		op.lastEvent = w.lastRow + 1
	}
	if op.steps != nil {
		op.lastSteps = w.lastRow + 1
	}
	body := putRowPointers(op.body, op.lastEvent, op.lastSteps)
	if !op.plain {
		return op.saveTransition(w, body)
	}
	stmt := w.update
	stmt.BindBytes(1, body)
	stmt.BindInt64(2, h.row)
	stmt.BindInt64(3, r.Revision)
	stmt.BindInt64(4, r.Epoch)
	stmt.BindInt64(5, r.Mail)
	w.size += int64(len(body) + 32)
	if err := w.step(stmt); err != nil {
		return err
	}
	if w.conn.Changes() == 0 {
		return op.saveTransition(w, body)
	}
	if op.events == nil && op.steps == nil {
		return nil
	}
	return partialWrite(w.addEvent(h.row, op.events, op.steps))
}

// saveTransition saves a change of more than the body. If it sends mail or consumes
// signals, it may have written something before it fails, so it needs a savepoint.
func (op *sqSave) saveTransition(w *sqWriter, body []byte) error {
	if len(op.save.Mail)+len(op.save.Consumed) > 0 {
		return w.guarded(func() error { return op.saveSlowly(w, body) })
	}
	op.written = false
	err := op.saveSlowly(w, body)
	if op.written {
		return partialWrite(err)
	}
	return err
}

func (op *sqSave) saveSlowly(w *sqWriter, body []byte) error {
	r := op.r
	op.toWake = op.toWake[:0]
	now := time.Now()
	old, err := w.run(op.handle.row)
	switch {
	case err != nil:
		return err
	case old.epoch > r.Epoch:
		return workflow.ErrFenced
	case old.revision != r.Revision:
		return workflow.ErrConflict
	case old.phase == workflow.Queued && r.Phase != workflow.Queued && !r.Phase.Final():
		return fmt.Errorf("%w: %s is queued behind another run of %s and may only end", workflow.ErrConflict, r.ID, r.Subject)
	}
	for _, post := range op.save.Mail {
		known, err := w.find(post.To)
		if errors.Is(err, workflow.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.accept(known, post.To, post.Signal, now, false, &op.toWake); err != nil && !errors.Is(err, workflow.ErrFinal) {
			return err
		}
	}
	if len(op.save.Mail) > 0 { // some of the mail may be for this run itself
		if old, err = w.run(old.row); err != nil {
			return err
		}
	}
	for _, id := range op.save.Consumed {
		if err := w.exec("UPDATE signal SET data = NULL WHERE run = ? AND id = ? AND data IS NOT NULL", old.row, id); err != nil {
			return err
		}
	}

	var owner, due, ended, slot any
	queue := r.Queue
	if old.slot {
		slot = 1
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
	err = w.exec(`UPDATE run SET revision = revision + 1, epoch = ?, owner = ?, phase = ?, slot = ?, queue_no = ?,
		version = ?, hash = ?, due = ?, ended = ?, body = ? WHERE row = ?`,
		r.Epoch, owner, codec.PhaseNumber(r.Phase), slot, queue, r.Version, r.Hash, due, ended, body, old.row)
	if err != nil {
		return err
	}
	op.written = true
	if op.events != nil || op.steps != nil {
		if err := w.addEvent(old.row, op.events, op.steps); err != nil {
			return err
		}
	}
	if old.slot && r.Phase.Final() {
		if err := w.promote(r.Subject, now, &op.toWake); err != nil {
			return err
		}
	}
	op.mail = old.mail
	return nil
}

// dueAt returns the due time as a column value. 0 and less are for owned runs.
func dueAt(t time.Time) int64 { return max(t.UnixNano(), 1) }

// durable updates the claim table, then wakes the waiting runs.
func (op *sqSave) durable(s *SQLite) {
	r := op.r
	if r.Owner == "" || r.Phase.Final() {
		s.claims.forget(op.handle.row)
	} else if !op.plain {
		s.claims.setOwner(op.handle.row, r.ID, r.Owner, r.Epoch)
	}
	for _, id := range op.toWake {
		s.wake.Notify(id)
	}
}

// sqRow is the part of a run's row that a slow write needs.
type sqRow struct {
	row, revision, epoch, mail int64
	phase                      workflow.Phase
	slot, owned                bool
}

const sqlRow = "SELECT row, revision, epoch, mail, phase, slot IS NOT NULL, owner IS NOT NULL FROM run "

func (w *sqWriter) run(row int64) (sqRow, error)  { return w.oneRow(sqlRow+"WHERE row = ?", row) }
func (w *sqWriter) find(id string) (sqRow, error) { return w.oneRow(sqlRow+"WHERE id = ?", id) }

func (w *sqWriter) oneRow(sql string, key any) (sqRow, error) {
	var found sqRow
	err := query(w.conn, sql, func(row *sqlite.Stmt) error {
		found = sqRow{row: row.ColumnInt64(0), revision: row.ColumnInt64(1), epoch: row.ColumnInt64(2), mail: row.ColumnInt64(3),
			phase: codec.PhaseOf(row.ColumnInt64(4)), slot: row.ColumnBool(5), owned: row.ColumnBool(6)}
		return nil
	}, key)
	if err == nil && found.row == 0 {
		err = workflow.ErrNotFound
	}
	return found, err
}

// promote gives the slot of an ended run to the next run in the queue.
func (w *sqWriter) promote(subject string, now time.Time, toWake *[]string) error {
	var next int64
	var id string
	err := query(w.conn, "SELECT row, id FROM run WHERE subject = ? AND queue_no > 0 ORDER BY queue_no LIMIT 1", func(row *sqlite.Stmt) error {
		next, id = row.ColumnInt64(0), row.ColumnText(1)
		return nil
	}, subject)
	if err != nil || next == 0 {
		return err
	}
	*toWake = append(*toWake, id)
	return w.exec(`UPDATE run SET phase = ?, slot = 1, queue_no = 0, revision = revision + 1,
		due = CASE WHEN owner IS NULL THEN ? ELSE due END WHERE row = ?`, codec.PhaseNumber(workflow.Running), now.UnixNano(), next)
}
