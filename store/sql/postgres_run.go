package sql

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/workflow"
)

// pgHandle is what a Run carries for the store: its row, and the names of the records in
// the row's body.
type pgHandle struct {
	k       int64
	open    []string
	version int // of the definition that the row is pinned to
	hash    string
}

// maxOpen is the size above which the record of a structure (a list of items) is
// appended once instead of being written with each save.
const maxOpen = 512

// firstLease is the lease of a worker that owns a run before its first claim.
const firstLease = 15 * time.Second

// Create implements workflow.Store.
func (p *Postgres) Create(ctx context.Context, r *workflow.Run, events []workflow.Event) (*workflow.Run, error) {
	op, handle := encodeCreate(r, events)
	var err error
	if r.Owner != "" {
		if op.owner, err = p.lease(ctx, r.Owner, firstLease); err != nil {
			return nil, err
		}
	}
	result, err := p.writer.do(ctx, op)
	if err != nil {
		return nil, err
	}
	if !result.applied {
		return p.createOrQueue(ctx, op, handle)
	}
	if op.owner != 0 && !result.owned {
		p.leases.Delete(r.Owner)
	}
	if !result.owned {
		p.Waker.Notify(r.ID)
	}
	return created(r, handle, result)
}

// created returns a copy of the run as it was stored. It shares no memory with the
// caller's run.
func created(r *workflow.Run, handle *pgHandle, result pgResult) (*workflow.Run, error) {
	stored := *r
	stored.Input, stored.Labels = bytes.Clone(r.Input), maps.Clone(r.Labels)
	stored.Phase, stored.Revision, stored.Queue, stored.Mail = workflow.Running, 1, 0, 0
	stored.NextAt = db.Instant(result.next)
	if !result.owned {
		stored.Owner = ""
	}
	handle.k, handle.version, handle.hash = result.k, r.Version, r.Hash
	stored.Handle = handle
	var steps []*workflow.StepRecord
	if r.Len() > 0 {
		var err error
		if steps, err = codec.ReadRecords(codec.AppendRecords(nil, slices.Collect(r.Steps()))); err != nil {
			return nil, err
		}
	}
	stored.Restore(steps)
	return &stored, nil
}

func encodeCreate(r *workflow.Run, events []workflow.Event) (*pgWrite, *pgHandle) {
	op := &pgWrite{create: &pgCreate{run: r, birth: codec.AppendBirth(nil, r)}, epoch: r.Epoch, next: db.Nanos(r.NextAt)}
	if len(r.Input) > 0 {
		op.create.input = r.Input
	}
	handle := &pgHandle{}
	op.encode(r, handle, events)
	return op, handle
}

// encode writes the changing part of a run. Open records go into the body and their
// names into handle; settled records are appended.
func (op *pgWrite) encode(r *workflow.Run, handle *pgHandle, events []workflow.Event) {
	var open, settled []*workflow.StepRecord
	for _, name := range handle.open {
		if s := r.Step(name); s != nil && !slices.Contains(r.Changed(), s) {
			open = append(open, s)
		}
	}
	for _, s := range r.Changed() {
		switch {
		case r.Step(s.Name) != s: // another value has replaced it since
		case staysInBody(s):
			open = append(open, s)
		default:
			settled = append(settled, s)
		}
	}
	handle.open = make([]string, len(open))
	for i, s := range open {
		handle.open[i] = s.Name
	}
	op.body = codec.AppendBody(make([]byte, 0, 128), r, open)
	if len(settled) > 0 {
		op.steps = codec.AppendRecords(make([]byte, 0, 96), settled)
	}
	op.seq = r.Seq
	if len(events) > 0 {
		op.seq = events[len(events)-1].Seq
		op.events = codec.AppendEvents(make([]byte, 0, 96), events)
	}
}

// staysInBody reports a record that belongs in the body: a small record that will soon
// change again, or one of the step where the run is now.
func staysInBody(s *workflow.StepRecord) bool {
	switch s.Phase {
	case workflow.StepRunning, workflow.StepRetrying, workflow.StepWaiting, workflow.StepFailed:
		return true
	case workflow.StepEntered:
		size := len(s.Output)
		for _, item := range s.Items {
			size += len(item.Key) + len(item.Value)
		}
		return size <= maxOpen
	default:
		return false
	}
}

// createOrQueue stores a run whose id exists or whose subject is busy.
func (p *Postgres) createOrQueue(ctx context.Context, op *pgWrite, handle *pgHandle) (*workflow.Run, error) {
	r := op.create.run
	for {
		if known, _, err := p.Load(ctx, r.ID); err == nil || !errors.Is(err, workflow.ErrNotFound) {
			return known, err
		}
		var code int
		keys, values := []string{}, []string{}
		for _, l := range labelRows(r.ID, r.Labels) {
			keys, values = append(keys, l.key), append(values, l.value)
		}
		p.Count(1, int(op.size()))
		err := p.Pool.QueryRow(ctx, `SELECT pawl_queue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
			r.ID, r.Flow, r.Version, r.Hash, r.Subject, r.Parent, r.Inline, op.create.birth, db.Nanos(r.CreatedAt),
			op.body, workflow.MaxQueued, op.seq, op.events, op.steps, op.create.input, keys, values).Scan(&code)
		switch {
		case err != nil:
			return nil, postgres.Fault(err)
		case code == 0:
			stored, _, err := p.Load(ctx, r.ID)
			return stored, err
		case code == 2:
			return nil, workflow.QueueFull.Errorf("%d runs of %s wait already", workflow.MaxQueued, r.Subject)
		case code == 1: // the active run has ended, and no other run took its place
			again := *op
			result, err := p.writer.do(ctx, &again)
			if err != nil {
				return nil, err
			}
			if result.applied {
				return created(r, handle, result)
			}
		}
	}
}

// Save implements workflow.Store.
func (p *Postgres) Save(ctx context.Context, s *workflow.Save) error {
	r := s.Run
	handle, err := p.handle(ctx, r)
	if err != nil {
		return err
	}
	op := &pgWrite{k: handle.k, rev: r.Revision, epoch: r.Epoch, next: db.Nanos(r.NextAt), ended: db.Nanos(r.EndedAt), mail: r.Mail,
		phase: codec.PhaseNumber(r.Phase), consumed: s.Consumed, outgoing: s.Mail}
	if r.Phase.Final() {
		op.freesSubject, op.subject, op.next = !r.Inline, r.Subject, 0
	} else if r.Owner != "" {
		if op.owner, err = p.lease(ctx, r.Owner, firstLease); err != nil {
			return err
		}
	}
	next := &pgHandle{k: handle.k, open: handle.open, version: r.Version, hash: r.Hash}
	if handle.version != r.Version || handle.hash != r.Hash {
		op.pin = &pgPin{version: int64(r.Version), hash: r.Hash}
	}
	op.encode(r, next, s.Events)
	result, err := p.writer.do(ctx, op)
	if err != nil {
		return err
	}
	if !result.applied {
		return p.lost(ctx, r)
	}
	if op.owner == 0 && !r.Phase.Final() && result.mail > r.Mail {
		p.Waker.Notify(r.ID)
	}
	r.Revision, r.Mail, r.Handle = r.Revision+1, result.mail, next
	r.Clean()
	return nil
}

// handle returns the handle of a run. For a run without a handle of this store it makes
// a query.
func (p *Postgres) handle(ctx context.Context, r *workflow.Run) (*pgHandle, error) {
	if h, ok := r.Handle.(*pgHandle); ok {
		return h, nil
	}
	stored, _, err := p.Load(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return stored.Handle.(*pgHandle), nil
}

// lost returns the reason why a save did not replace its revision.
func (p *Postgres) lost(ctx context.Context, r *workflow.Run) error {
	var epoch int64
	err := p.Pool.QueryRow(ctx, `SELECT epoch FROM run WHERE id = $1`, r.ID).Scan(&epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return workflow.ErrNotFound
	case err != nil:
		return postgres.Fault(err)
	case epoch > r.Epoch:
		return workflow.ErrFenced
	default:
		return workflow.ErrConflict
	}
}

// Send implements workflow.Store.
func (p *Postgres) Send(ctx context.Context, id string, s workflow.Signal) error {
	var code int
	data := codec.AppendSignal(nil, &s)
	p.Count(1, len(id)+len(s.ID)+len(data)+16)
	err := p.Pool.QueryRow(ctx, `SELECT pawl_send($1, $2, $3, $4, $5)`, id, s.ID, data, workflow.MaxUnread, workflow.MaxSignalIDs).Scan(&code)
	if err != nil {
		return postgres.Fault(err)
	}
	switch code {
	case 0:
		p.Waker.Notify(id)
		return nil
	case 1:
		return nil
	case 2:
		return workflow.ErrFinal
	case 3:
		return workflow.QueueFull.Errorf("run %s has %d unread signals", id, workflow.MaxUnread)
	default:
		return workflow.ErrNotFound
	}
}
