// Package postgres is the part of the run store that is PostgreSQL's own: the writers send all writes of a moment in
// one pipelined transaction, and workers claim runs with leases in a table.
package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// dialect implements runs.Dialect.
//
//	Create, Save ─▶ pending ─▶ writer 1 ─▶ one pipelined transaction for all pending writes
//	                      └──▶ writer 2 ─▶ while a transaction of writer 1 takes long
//	Load, Claim, Send, … ────▶ pool
//
// It has as many connections as writers, beside those of its DB.
type dialect struct {
	runs   *runs.Store
	db     *postgres.DB
	writer *writer
	leases sync.Map // worker name → int64, its lease in the table worker
}

const (
	columns = `r.k, r.id, r.flow, r.version, r.hash, r.subject, r.parent, r.inline, r.phase, r.queue_no, r.revision, r.epoch,
	(SELECT w.name FROM worker w WHERE w.k = r.owner), r.mail, CASE WHEN r.next_at = 0 THEN -1 ELSE r.next_at END, r.created, r.ended, r.body, r.birth,
	(SELECT i.data FROM input i WHERE i.run = r.k)`
	full = `,
	(SELECT array_agg(e.steps ORDER BY e.seq, e.n) FROM event e WHERE e.run = r.k AND e.steps IS NOT NULL),
	(SELECT array_agg(g.id ORDER BY g.n) FROM signal g WHERE g.run = r.k AND NOT g.taken),
	(SELECT array_agg(g.data ORDER BY g.n) FROM signal g WHERE g.run = r.k AND NOT g.taken)`
	fullColumns = columns + full
)

var texts = runs.Texts{
	Key: "r.k", Columns: columns, Full: full,
	From:     "run AS r",
	Labelled: "run_label AS c JOIN run AS r ON r.k = c.run",
	Active:   "phase < 6",
	Ended:    "r.phase > 5",
	Newest:   "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint, 0",
	// Rows of transactions that are younger than the oldest open one are left out, so that a reader never skips the
	// events of a slow writer. So the history of all runs lags behind while any transaction of the server is open, in
	// another database too. The history of one run never lags.
	Events: `
		SELECT e.x::text::bigint, e.n, r.id, e.data FROM event e JOIN run r ON r.k = e.run
		WHERE (e.x, e.n) >= ($1::bigint::text::xid8, $2::bigint) AND e.x < pg_snapshot_xmin(pg_current_snapshot()) AND e.data IS NOT NULL
		ORDER BY e.x, e.n LIMIT $3`,
	Seen: "SELECT id FROM signal WHERE run = $1 AND taken ORDER BY n",
}

// New returns the run store of a database, and starts its writers.
func New(on *postgres.DB) *runs.Store {
	d := &dialect{db: on, writer: newWriter(on)}
	d.runs = runs.New(on, d, texts)
	for range writers {
		on.Run(d.writer.serve)
	}
	on.Start(d.writer.runsLongerThan)
	return d.runs
}

// Close implements runs.Dialect.
func (d *dialect) Close() { d.writer.close() }

// ProbeWriter implements runs.Dialect.
func (d *dialect) ProbeWriter(ctx context.Context) error {
	_, err := d.writer.do(ctx, &write{k: -1})
	return err
}

// Claimed does nothing: every claim is in the row.
func (d *dialect) Claimed(*runtype.Run) {}

// Complete does nothing: see full.
func (d *dialect) Complete(db.Session, *runs.Row) error { return nil }

// History implements runs.Dialect.
func (d *dialect) History(x db.Session, id string, h *runs.Handle, after int64, limit int) (rows [][]runtype.Event, damage, err error) {
	const sql = `SELECT data FROM event WHERE run = $1 AND seq > $2 AND data IS NOT NULL ORDER BY seq, n LIMIT $3`
	err = x.Query(sql, []any{h.Key, after, limit}, func(r db.Row) error {
		events, bad := codec.ReadEvents(id, r.Bytes(0))
		if damage = errors.Join(damage, bad); bad == nil {
			rows = append(rows, events)
		}
		return nil
	})
	return rows, damage, err
}

// firstLease is the lease of a worker that owns a run before its first claim.
const firstLease = 15 * time.Second

// Create implements runs.Dialect.
func (d *dialect) Create(ctx context.Context, n *runs.NewRun) (runs.Created, error) {
	op := &write{Encoded: n.Encoded, create: n, epoch: n.Run.Epoch, next: db.Nanos(n.Run.NextAt)}
	limited := len(n.Run.Limits) > 0
	if limited {
		op.epoch = 0 // a claim lets it start
	} else if n.Run.Owner != "" {
		var err error
		if op.owner, err = d.lease(ctx, n.Run.Owner, firstLease); err != nil {
			return runs.Created{}, err
		}
	}
	done, err := d.writer.do(ctx, op)
	switch {
	case err != nil:
		return runs.Created{}, err
	case !done.applied:
		return d.createOrQueue(ctx, op)
	case op.owner != 0 && !done.owned:
		d.leases.Delete(n.Run.Owner)
	}
	if !done.owned {
		d.db.Waker.Notify(n.Run.ID)
	}
	return created(n.Run, done), nil
}

func created(r *runtype.Run, done result) runs.Created {
	c := runs.Created{Key: done.k, Epoch: r.Epoch, NextAt: done.next, Phase: runtype.Running, Owner: r.Owner}
	if len(r.Limits) > 0 {
		c.Phase, c.Epoch = runtype.Queued, 0
	}
	if !done.owned {
		c.Owner = ""
	}
	return c
}

// createOrQueue stores a run whose id exists or whose subject is busy.
func (d *dialect) createOrQueue(ctx context.Context, op *write) (runs.Created, error) {
	r := op.create.Run
	known := runs.Created{Known: true}
	for {
		if _, _, err := d.runs.Load(ctx, r.ID); err == nil || !errors.Is(err, runstore.ErrNotFound) {
			return known, err
		}
		var code int
		keys, values := []string{}, []string{}
		for key, value := range r.Labels {
			keys, values = append(keys, key), append(values, value)
		}
		limits, atOnce := []string{}, []int64{}
		for _, l := range r.Limits {
			limits, atOnce = append(limits, l.Key), append(atOnce, int64(l.AtOnce))
		}
		d.db.Count(1, int(op.size()))
		err := d.db.Pool.QueryRow(ctx, `SELECT pawl_queue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
			r.ID, r.Flow, r.Version, r.Hash, r.Subject, r.Parent, r.Inline, op.create.Birth, db.Nanos(r.CreatedAt),
			op.Body, runstore.MaxQueued, op.Seq, op.Events, op.Steps, input(op), keys, values,
			limits, atOnce, r.Rank()).Scan(&code)
		switch {
		case err != nil:
			return known, postgres.Fault(err)
		case code == 0, code == 3:
			return known, nil
		case code == 4:
			d.db.Waker.Notify(r.ID)
			return known, nil
		case code == 2:
			return known, runstore.QueueFull.Errorf("%d runs of %s wait already", runstore.MaxQueued, r.Subject)
		case code == 1: // the active run has ended, and no other run took its place
			again := *op
			done, err := d.writer.do(ctx, &again)
			if err != nil {
				return known, err
			}
			if done.applied {
				return created(r, done), nil
			}
		}
	}
}

// Save implements runs.Dialect.
func (d *dialect) Save(ctx context.Context, s *runstore.Save) error {
	r := s.Run
	h, err := d.runs.Hold(ctx, r)
	if err != nil {
		return err
	}
	op := &write{Encoded: h.Encode(r, s.Events), k: h.Key, rev: r.Revision, epoch: r.Epoch, next: db.Nanos(r.NextAt), ended: db.Nanos(r.EndedAt), mail: r.Mail,
		phase: codec.PhaseNumber(r.Phase), consumed: s.Consumed, outgoing: s.Mail}
	if r.Phase.Final() {
		op.freesSubject, op.subject, op.next = !r.Inline, r.Subject, 0
		if len(r.Limits) > 0 {
			op.freesLimits = r.ID
		}
	} else if r.Owner != "" {
		if op.owner, err = d.lease(ctx, r.Owner, firstLease); err != nil {
			return err
		}
	}
	if !h.IsPinned(r) {
		op.pin = &pin{version: int64(r.Version), hash: r.Hash}
	}
	if !h.IsFault(r) {
		op.fault = new(runs.FaultOf(r))
	}
	done, err := d.writer.do(ctx, op)
	if err != nil {
		return err
	}
	if !done.applied {
		return d.lost(ctx, r)
	}
	if op.owner == 0 && !r.Phase.Final() && done.mail > r.Mail {
		d.db.Waker.Notify(r.ID)
	}
	r.Revision, r.Mail = r.Revision+1, done.mail
	r.Clean()
	h.Saved(r, op.Open)
	return nil
}

// lost returns the reason why a save did not replace its revision.
func (d *dialect) lost(ctx context.Context, r *runtype.Run) error {
	var epoch int64
	err := d.db.Pool.QueryRow(ctx, `SELECT epoch FROM run WHERE id = $1`, r.ID).Scan(&epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return runstore.ErrNotFound
	case err != nil:
		return postgres.Fault(err)
	case epoch > r.Epoch:
		return runstore.ErrFenced
	default:
		return runstore.ErrConflict
	}
}

// Send implements runs.Dialect.
func (d *dialect) Send(ctx context.Context, id string, s runtype.Signal) error {
	var code int
	data := codec.AppendSignal(nil, &s)
	d.db.Count(1, len(id)+len(s.ID)+len(data)+16)
	err := d.db.Pool.QueryRow(ctx, `SELECT pawl_send($1, $2, $3, $4, $5)`, id, s.ID, data, runstore.MaxUnread, runstore.MaxSignalIDs).Scan(&code)
	if err != nil {
		return postgres.Fault(err)
	}
	switch code {
	case 0:
		d.db.Waker.Notify(id)
		return nil
	case 1:
		return nil
	case 2:
		return runstore.ErrFinal
	case 3:
		return runstore.QueueFull.Errorf("run %s has %d unread signals", id, runstore.MaxUnread)
	default:
		return runstore.ErrNotFound
	}
}

// Remove implements runs.Dialect.
func (d *dialect) Remove(ctx context.Context, ids []string) error {
	d.db.Count(1, 0)
	_, err := d.db.Pool.Exec(ctx, `
		WITH gone AS (DELETE FROM run WHERE id = ANY($1) AND phase > 5 RETURNING k),
			e AS (DELETE FROM event WHERE run IN (SELECT k FROM gone)),
			i AS (DELETE FROM input WHERE run IN (SELECT k FROM gone)),
			l AS (DELETE FROM run_label WHERE run IN (SELECT k FROM gone)),
			p AS (DELETE FROM run_limit WHERE run IN (SELECT k FROM gone)),
			g AS (DELETE FROM run_log WHERE run IN (SELECT k FROM gone)),
			z AS (DELETE FROM run_log_size WHERE run IN (SELECT k FROM gone))
		DELETE FROM signal WHERE run IN (SELECT k FROM gone)`, ids)
	return postgres.Fault(err)
}

// restoreBatch is how many events one restored row holds.
const restoreBatch = 500

// Restorer implements runs.Dialect.
func (d *dialect) Restorer(x db.Session) (func(runs.Dump) []db.Statement, error) {
	last, err := db.FirstInt(x, `SELECT nextval(pg_get_serial_sequence('run', 'k'))`, nil)
	if err != nil {
		return nil, err
	}
	return func(dump runs.Dump) []db.Statement {
		r := dump.Run
		n := d.runs.Restored(dump)
		last++
		k := last
		var due any
		switch {
		case r.Phase.Final():
		case r.Owner != "":
			due = int64(1)
		case !r.NextAt.IsZero():
			due = db.Nanos(r.NextAt)
		}
		list := []db.Statement{{SQL: `INSERT INTO run (k, id, flow, version, hash, subject, parent, inline, birth, created, phase, queue_no, revision, epoch, mail, next_at, due_at, ended, body, limited, fault)
			OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, nullif($21, ''))`,
			Args: []any{k, r.ID, r.Flow, r.Version, r.Hash, r.Subject, r.Parent, r.Inline, n.Birth, db.Nanos(r.CreatedAt), codec.PhaseNumber(r.Phase), r.Queue,
				r.Revision, r.Epoch, r.Mail, db.Nanos(r.NextAt), due, db.Nanos(r.EndedAt), n.Body, len(r.Limits) > 0, runs.FaultOf(r)}}}
		add := func(sql string, args ...any) {
			list = append(list, db.Statement{SQL: sql, Args: append([]any{k}, args...)})
		}
		list = append(list, runs.LabelStatements(k, r.Labels)...)
		list = append(list, runs.LimitStatements(k, r)...)
		for _, l := range r.Limits {
			list = append(list, db.Statement{SQL: `INSERT INTO run_limit_changed (key) VALUES ($1)`, Args: []any{l.Key}})
		}
		list = append(list, runs.LogStatements(k, dump)...)
		if len(r.Input) > 0 {
			add(`INSERT INTO input (run, data) VALUES ($1, $2)`, []byte(r.Input))
		}
		const signal = `INSERT INTO signal (run, n, id, taken, data) VALUES ($1, $2, $3, $4, $5)`
		number := r.Mail - int64(len(dump.Signals)+len(dump.Seen))
		for _, id := range dump.Seen {
			number++
			add(signal, number, id, true, []byte(nil))
		}
		for _, s := range dump.Signals {
			number++
			add(signal, number, s.ID, false, codec.AppendSignal(nil, &s))
		}
		const event = `INSERT INTO event (run, seq, data, steps) VALUES ($1, $2, $3, $4)`
		if n.Steps != nil {
			add(event, int64(0), []byte(nil), n.Steps)
		}
		for piece := range slices.Chunk(dump.Events, restoreBatch) {
			add(event, piece[len(piece)-1].Seq, codec.AppendEvents(nil, piece), []byte(nil))
		}
		return list
	}, nil
}
