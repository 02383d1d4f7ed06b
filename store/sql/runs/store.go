// Package runs stores runs in SQLite or PostgreSQL. Its text is the same for both databases, but for what a Dialect
// holds: the writes of a step, claims, and statements that depend on the schema.
package runs

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Store is the run store of a database. It embeds the claims, which each dialect makes in its own way.
type Store struct {
	runstore.Claimer
	dialect Dialect
	db      db.Backend
	texts   Texts

	columns, byID, byKey string // statements that read runs
}

var (
	_ runstore.Store       = (*Store)(nil)
	_ runstore.Claimer     = (*Store)(nil)
	_ runstore.Lister      = (*Store)(nil)
	_ runstore.Definitions = (*Store)(nil)
	_ runstore.Retainer    = (*Store)(nil)
	_ runstore.Logs        = (*Store)(nil)
	_ runstore.RunLimiter  = (*Store)(nil)
	_ runstore.Workers     = (*Store)(nil)
)

// Dialect is the part of a run store that differs between the databases.
type Dialect interface {
	runstore.Claimer
	runstore.Workers
	// Create stores a new run, or queues it behind the active run of its subject.
	Create(ctx context.Context, n *NewRun) (Created, error)
	// Save implements runstore.Store.
	Save(ctx context.Context, s *runstore.Save) error
	// Send implements runstore.Store.
	Send(ctx context.Context, id string, s runtype.Signal) error
	// ChangeLimit executes a statement that changes the number of a key, and starts the runs that may start then.
	ChangeLimit(ctx context.Context, key string, change db.Statement) error
	// Remove implements runstore.Retainer.
	Remove(ctx context.Context, ids []string) error
	// Close ends the writers after the writes under way. Later writes fail with STORE_UNAVAILABLE.
	Close()
	// ProbeWriter writes as Save does, but changes nothing.
	ProbeWriter(ctx context.Context) error
	// Claimed adds what only the claims know to a run that was read.
	Claimed(r *runtype.Run)
	// Complete reads the settled records and the unread signals of a row, if Texts.Full has not.
	Complete(x db.Session, row *Row) error
	// History returns at most limit rows of events with numbers above after, the oldest first. damage is the
	// error of a row that cannot be decoded.
	History(x db.Session, id string, h *Handle, after int64, limit int) (rows [][]runtype.Event, damage, err error)
	// Restorer returns a function that makes the statements which store a run of an export.
	Restorer(x db.Session) (func(Dump) []db.Statement, error)
}

// Texts are the statements, and parts of them, that depend on the schema. A run is r in
// them, its key is a number in the order of creation.
type Texts struct {
	Key      string // of a run
	Columns  string // of a run, in the order of readRow
	Full     string // further columns: settled records, ids and data of unread signals
	From     string // where a run is read from
	Labelled string // From behind run_label c, whose order is that of the result
	Active   string // condition of a run that has not ended, without r
	Ended    string // condition of a run that has ended
	Newest   string // the position behind the newest event of all runs: transaction, row
	// Events reads events of all runs from a position: transaction, row, run, data. Its parameters are
	// the position and a limit.
	Events string
	// Rows is Events with the key of a run instead of the run, which ID reads then. Empty: Events is as cheap.
	Rows, ID string
	Seen     string // ids of the consumed signals of a run

	Chained bool // rows of event name the row before of the same run, and the body names the newest
}

// New returns the run store of a database.
func New(on db.Backend, d Dialect, t Texts) *Store {
	s := &Store{Claimer: d, dialect: d, db: on, texts: t}
	s.columns = "SELECT " + t.Columns + " FROM "
	full := "SELECT " + t.Columns + t.Full + " FROM " + t.From
	s.byID, s.byKey = full+" WHERE r.id = $1", full+" WHERE "+t.Key+" = $1"
	return s
}

// NewRun is a run that Create stores.
type NewRun struct {
	Run    *runtype.Run // read only
	Birth  []byte
	Handle *Handle
	Encoded
}

// Created is the stored part of a new run.
type Created struct {
	Known bool // another Create has stored it, or it must be read again: the fields below are not set

	Key, Queue, Epoch, NextAt int64
	Phase                     runtype.Phase
	Owner                     string
}

// Workers implements runstore.Workers.
func (s *Store) Workers(ctx context.Context) ([]runstore.Worker, error) {
	return s.dialect.Workers(ctx)
}

// Create implements runstore.Store.
func (s *Store) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := &NewRun{Run: r, Birth: codec.AppendBirth(nil, r), Handle: &Handle{store: s}}
	n.Encoded = n.Handle.encode(nil, slices.Collect(r.Steps()), r, events)
	made, err := s.dialect.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	if made.Known {
		stored, _, err := s.Load(ctx, r.ID)
		return stored, err
	}
	return n.stored(made)
}

// stored returns a copy of the run as it was stored. It shares no memory with the
// caller's run.
func (n *NewRun) stored(made Created) (*runtype.Run, error) {
	out := *n.Run
	out.Input, out.Labels, out.Limits = bytes.Clone(out.Input), maps.Clone(out.Labels), slices.Clone(out.Limits)
	out.Revision, out.Mail = 1, 0
	out.Phase, out.Queue, out.Owner, out.Epoch, out.NextAt = made.Phase, made.Queue, made.Owner, made.Epoch, db.Instant(made.NextAt)
	var steps []*runtype.StepRecord
	if n.Run.Len() > 0 {
		var err error
		if steps, err = codec.ReadRecords(codec.AppendRecords(nil, slices.Collect(n.Run.Steps()))); err != nil {
			return nil, err
		}
	}
	out.Restore(steps)
	n.Handle.Key = made.Key
	n.Handle.Saved(&out, n.Open)
	out.Handle = n.Handle
	return &out, nil
}

// Save implements runstore.Store.
func (s *Store) Save(ctx context.Context, save *runstore.Save) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.dialect.Save(ctx, save)
}

// Send implements runstore.Store.
func (s *Store) Send(ctx context.Context, id string, signal runtype.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.dialect.Send(ctx, id, signal)
}

// ProbeWriter writes as Save does, but changes nothing. Its error says why the store cannot write.
func (s *Store) ProbeWriter(ctx context.Context) error { return s.dialect.ProbeWriter(ctx) }

// Close ends the writers after the writes under way. The database stays open.
func (s *Store) Close() { s.dialect.Close() }

// PutDefinition implements runstore.Definitions.
func (s *Store) PutDefinition(ctx context.Context, d runstore.Definition) error {
	if _, err := s.Definition(ctx, d.Hash); !errors.Is(err, runstore.ErrNotFound) {
		return err
	}
	return s.db.Apply(ctx, db.Change{List: []db.Statement{putDefinition(d)}})
}

func putDefinition(d runstore.Definition) db.Statement {
	return db.Statement{SQL: `INSERT INTO definition (hash, flow, version, data, source) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		Args: []any{d.Hash, d.Flow, int64(d.Version), db.NonNil(d.Data), db.NonNil(d.Source)}}
}

// Definition implements runstore.Definitions.
func (s *Store) Definition(ctx context.Context, hash string) (d runstore.Definition, err error) {
	err = s.db.Read(ctx, func(x db.Session) error {
		return x.Query(`SELECT hash, flow, version, data, source FROM definition WHERE hash = $1`, []any{hash}, func(r db.Row) error {
			d = readDefinition(r)
			return nil
		})
	})
	if err == nil && d.Hash == "" {
		err = runstore.ErrNotFound
	}
	return d, err
}

func readDefinition(r db.Row) runstore.Definition {
	d := runstore.Definition{Hash: r.Text(0), Flow: r.Text(1), Version: int(r.Int(2)), Data: r.Bytes(3)}
	if source := r.Bytes(4); len(source) > 0 {
		d.Source = source
	}
	return d
}
