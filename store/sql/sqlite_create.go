package sql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow"
)

// Create stores a new run. See workflow.Store.
func (s *SQLite) Create(ctx context.Context, r *workflow.Run, events []workflow.Event) (*workflow.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	copied := *r
	out := &copied
	out.Restore(nil)
	out.Revision, out.Mail, out.Queue, out.Phase = 1, 0, 0, workflow.Running
	out.Input, out.Labels = bytes.Clone(r.Input), maps.Clone(r.Labels)
	if !s.owner {
		out.Owner, out.Epoch = "", 0
	}
	var open, settled []*workflow.StepRecord
	for record := range r.Steps() {
		if inBody(record) {
			open = append(open, record)
		} else {
			settled = append(settled, record)
		}
	}
	op := &sqCreate{r: out, created: db.Nanos(r.CreatedAt), birth: codec.AppendBirth(nil, r), body: codec.AppendBody(make([]byte, pointerSpace, pointerSpace+64), r, open)}
	op.handle = &sqHandle{store: s, revision: 1, hash: r.Hash, version: r.Version}
	for _, record := range open {
		op.handle.open = append(op.handle.open, record.Name)
	}
	if len(events) > 0 {
		op.events = codec.AppendEvents(nil, events, 0)
	}
	if len(settled) > 0 {
		op.steps = codec.AppendRecords(nil, settled, 0)
	}
	err := s.writer.do(&sqWrite{noSavepoint: true, run: op.execute, after: op.durable})
	if err != nil {
		return nil, err
	}
	if op.known || r.Len() > 0 {
		stored, _, err := s.Load(ctx, r.ID)
		return stored, err
	}
	if !s.owner && out.Phase == workflow.Running {
		s.wakeOwner([]string{r.ID})
	}
	h := op.handle
	h.phase, h.owner, h.epoch = out.Phase, out.Owner, out.Epoch
	out.Handle = h
	return out, nil
}

type sqCreate struct {
	r       *workflow.Run // the run that Create returns
	handle  *sqHandle
	created int64
	birth   []byte
	body    []byte
	events  []byte
	steps   []byte
	known   bool
}

func (op *sqCreate) execute(w *sqWriter) error {
	r, h := op.r, op.handle
	now := time.Now()
	h.row = w.lastRun + 1
	if op.events != nil {
		h.lastEvent = w.lastRow + 1
	}
	if op.steps != nil {
		h.lastSteps = w.lastRow + 1
	}
	body := putRowPointers(op.body, h.lastEvent, h.lastSteps)
	var owner, due, slot, parent any
	if r.Owner != "" {
		owner, due = r.Owner, 0
	} else {
		if r.NextAt.IsZero() {
			r.NextAt = now.UTC()
		}
		due = dueAt(r.NextAt)
	}
	if !r.Inline {
		slot = 1
	}
	if r.Parent != "" {
		parent = r.Parent
	}
	insert := func() (bool, error) {
		err := w.exec(`INSERT INTO run (row, id, flow, version, hash, subject, parent, inline, phase, slot, queue_no, revision, epoch, owner, mail, due, created, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, 0, ?, ?, ?) ON CONFLICT DO NOTHING`,
			h.row, r.ID, r.Flow, r.Version, r.Hash, r.Subject, parent, r.Inline, codec.PhaseNumber(r.Phase), slot, r.Queue, r.Epoch, owner, due, op.created, body)
		return w.conn.Changes() == 1, err
	}
	done, err := insert()
	if err != nil {
		return err
	}
	if !done {
		if _, err := w.find(r.ID); !errors.Is(err, workflow.ErrNotFound) {
			op.known = err == nil
			return err
		}
		waiting, newest := 0, int64(0)
		err := query(w.conn, "SELECT count(*), max(queue_no) FROM run WHERE subject = ? AND queue_no > 0", func(row *sqlite.Stmt) error {
			waiting, newest = row.ColumnInt(0), row.ColumnInt64(1)
			return nil
		}, r.Subject)
		if err != nil {
			return err
		}
		if waiting >= workflow.MaxQueued {
			return workflow.QueueFull.Errorf("%d runs of %s wait already", waiting, r.Subject)
		}
		r.Phase, r.Queue = workflow.Queued, newest+1
		r.Owner, r.Epoch, r.NextAt = "", 0, time.Time{}
		owner, due, slot = nil, nil, nil
		if done, err = insert(); err != nil || !done {
			return fmt.Errorf("run %s could neither be started nor queued: %w", r.ID, err)
		}
	}
	w.lastRun++
	return partialWrite(op.rest(w))
}

// rest writes the other rows of a new run.
func (op *sqCreate) rest(w *sqWriter) error {
	r, h := op.r, op.handle
	if err := w.exec("INSERT INTO birth (run, data, input) VALUES (?, ?, ?)", h.row, op.birth, []byte(r.Input)); err != nil {
		return err
	}
	if err := w.addLabels(h.row, r.Labels); err != nil {
		return err
	}
	if op.events == nil && op.steps == nil {
		return nil
	}
	return w.addEvent(h.row, op.events, op.steps)
}

func (op *sqCreate) durable() {
	s, r := op.handle.store, op.r
	switch {
	case op.known || r.Phase == workflow.Queued || !s.owner:
	case r.Owner != "":
		s.claims.setOwner(op.handle.row, r.ID, r.Owner, r.Epoch)
	default:
		s.wake.Notify(r.ID)
	}
}
