package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/workflow"
)

// pgHandle is what a Run carries for its store: its row, and the names of the
// records that live in the row's body.
type pgHandle struct {
	k       int64
	open    []string
	version int // of the definition the row is pinned to
	hash    string
}

// maxOpen is the size beyond which the record of a structure (a list of items)
// is appended instead of being written with each save.
const maxOpen = 512

// firstLease is what a worker gets that owns a run before it ever claimed one.
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
	if !result.won {
		return p.createSlowly(ctx, op, handle)
	}
	if op.owner != 0 && !result.own {
		p.leases.Delete(r.Owner)
	}
	if !result.own {
		p.wake.hint(r.ID)
	}
	return created(r, handle, result)
}

// created is the run as it was stored, sharing nothing with the caller's.
func created(r *workflow.Run, handle *pgHandle, result pgResult) (*workflow.Run, error) {
	stored := *r
	stored.Input, stored.Labels = bytes.Clone(r.Input), maps.Clone(r.Labels)
	stored.Phase, stored.Revision, stored.Queue, stored.Mail = workflow.Running, 1, 0, 0
	stored.NextAt = instant(result.next)
	if !result.own {
		stored.Owner = ""
	}
	handle.k, handle.version, handle.hash = result.k, r.Version, r.Hash
	stored.Handle = handle
	var steps []*workflow.StepRecord
	if r.Len() > 0 {
		var err error
		if steps, err = readRecords(appendRecords(nil, slices.Collect(r.Steps()))); err != nil {
			return nil, err
		}
	}
	stored.Restore(steps)
	return &stored, nil
}

func encodeCreate(r *workflow.Run, events []workflow.Event) (*pgWrite, *pgHandle) {
	op := &pgWrite{create: &pgCreate{run: r, birth: appendBirth(nil, r)}, epoch: r.Epoch, next: nanos(r.NextAt)}
	if len(r.Input) > 0 {
		op.create.input = r.Input
	}
	handle := &pgHandle{}
	op.encode(r, handle, events)
	return op, handle
}

// encode writes the moving part of a run. The records that live in the body
// are named in the handle given; settled ones are appended.
func (op *pgWrite) encode(r *workflow.Run, handle *pgHandle, events []workflow.Event) {
	var open, settled []*workflow.StepRecord
	for _, name := range handle.open {
		if s := r.Step(name); s != nil && !slices.Contains(r.Changed(), s) {
			open = append(open, s)
		}
	}
	for _, s := range r.Changed() {
		switch {
		case r.Step(s.Name) != s: // replaced since by another value
		case stays(s):
			open = append(open, s)
		default:
			settled = append(settled, s)
		}
	}
	handle.open = make([]string, len(open))
	for i, s := range open {
		handle.open[i] = s.Name
	}
	op.body = appendBody(make([]byte, 0, 128), r, open)
	if len(settled) > 0 {
		op.steps = appendRecords(make([]byte, 0, 96), settled)
	}
	op.seq = r.Seq
	if len(events) > 0 {
		op.seq = events[len(events)-1].Seq
		op.events = appendEvents(make([]byte, 0, 96), events)
	}
}

// stays reports a record that belongs in the body: one that will change again
// soon and is small, or that tells where the run stands.
func stays(s *workflow.StepRecord) bool {
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

// createSlowly stores a run whose id is known or whose subject is taken: the
// slot's holder is locked, so that it cannot end between the look and the queueing.
func (p *Postgres) createSlowly(ctx context.Context, op *pgWrite, handle *pgHandle) (*workflow.Run, error) {
	r := op.create.run
	for {
		if known, _, err := p.Load(ctx, r.ID); err == nil || !errors.Is(err, workflow.ErrNotFound) {
			return known, err
		}
		var queued, taken bool
		p.count(3, int(op.size()))
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			var k int64
			err := tx.QueryRow(ctx, `SELECT k FROM run WHERE subject = $1 AND phase BETWEEN 2 AND 5 AND NOT inline FOR NO KEY UPDATE`, r.Subject).Scan(&k)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			taken = true
			var waiting, last int64
			err = tx.QueryRow(ctx, `SELECT count(*), coalesce(max(queue_no), 0) FROM run WHERE subject = $1 AND phase = 1`, r.Subject).Scan(&waiting, &last)
			if err != nil {
				return err
			}
			if waiting >= workflow.MaxQueued {
				return workflow.QueueFull.Errorf("%d runs of %s wait already", workflow.MaxQueued, r.Subject)
			}
			err = tx.QueryRow(ctx, `INSERT INTO run (id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, ended, body)
				VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), $7, $8, $9, 1, $10, 1, 0, 0, 0, 0, $11) ON CONFLICT (id) DO NOTHING RETURNING k`,
				r.ID, r.Flow, r.Version, r.Hash, r.Subject, r.Parent, r.Inline, op.create.birth, nanos(r.CreatedAt), last+1, op.body).Scan(&k)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil // known by now
			}
			if err != nil {
				return err
			}
			queued = true
			if op.events != nil || op.steps != nil {
				if _, err := tx.Exec(ctx, `INSERT INTO event (run, seq, data, steps) VALUES ($1, $2, $3, $4)`, k, op.seq, op.events, op.steps); err != nil {
					return err
				}
			}
			for _, l := range labelRows(r.ID, r.Labels) {
				if _, err := tx.Exec(ctx, putLabelSQL, l.run, l.key, l.value); err != nil {
					return err
				}
			}
			if op.create.input != nil {
				_, err = tx.Exec(ctx, `INSERT INTO input (run, data) VALUES ($1, $2)`, k, op.create.input)
			}
			return err
		})
		switch {
		case err != nil:
			return nil, pgError(err)
		case queued:
			stored, _, err := p.Load(ctx, r.ID)
			return stored, err
		case !taken: // the holder has ended, and nobody took its place
			again := *op
			result, err := p.writer.do(ctx, &again)
			if err != nil {
				return nil, err
			}
			if result.won {
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
	op := &pgWrite{k: handle.k, rev: r.Revision, epoch: r.Epoch, next: nanos(r.NextAt), ended: nanos(r.EndedAt), mail: r.Mail,
		phase: phaseNumber(r.Phase), consumed: s.Consumed, letters: s.Mail}
	if r.Phase.Final() {
		op.frees, op.subject, op.next = !r.Inline, r.Subject, 0
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
	if !result.won {
		return p.lost(ctx, r)
	}
	if op.owner == 0 && !r.Phase.Final() && result.mail > r.Mail {
		p.wake.hint(r.ID)
	}
	r.Revision, r.Mail, r.Handle = r.Revision+1, result.mail, next
	r.Clean()
	return nil
}

// handle finds the row of a run and what its body holds. A run that did not
// come from this store, or lost its handle, costs a query.
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

// lost tells why a save did not replace its revision.
func (p *Postgres) lost(ctx context.Context, r *workflow.Run) error {
	var epoch int64
	err := p.pool.QueryRow(ctx, `SELECT epoch FROM run WHERE id = $1`, r.ID).Scan(&epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return workflow.ErrNotFound
	case err != nil:
		return pgError(err)
	case epoch > r.Epoch:
		return workflow.ErrFenced
	default:
		return workflow.ErrConflict
	}
}

// Send implements workflow.Store.
func (p *Postgres) Send(ctx context.Context, id string, s workflow.Signal) error {
	var verdict int
	data := appendSignal(nil, &s)
	p.count(1, len(id)+len(s.ID)+len(data)+16)
	err := p.pool.QueryRow(ctx, `SELECT pawl_send($1, $2, $3, $4, $5)`, id, s.ID, data, workflow.MaxUnread, workflow.MaxSignalIDs).Scan(&verdict)
	if err != nil {
		return pgError(err)
	}
	switch verdict {
	case 0:
		p.wake.hint(id)
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
