package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Row is a run while it is read.
type Row struct {
	Run     *runtype.Run
	Handle  *Handle
	Settled []*runtype.StepRecord // the oldest first; a later one of the same name replaces it
	Signals []runtype.Signal
	Damage  error // why the run cannot be read

	open []*runtype.StepRecord
}

// readRow reads one row of Texts.Columns, and of Texts.Full if full is set.
func (s *Store) readRow(x db.Row, full bool) *Row {
	r := &runtype.Run{ID: x.Text(1), Flow: x.Text(2), Version: int(x.Int(3)), Hash: x.Text(4), Subject: x.Text(5), Parent: x.Text(6),
		Inline: x.Int(7) != 0, Phase: codec.PhaseOf(x.Int(8)), Queue: x.Int(9), Revision: x.Int(10), Epoch: x.Int(11), Owner: x.Text(12),
		Mail: x.Int(13), CreatedAt: db.Instant(x.Int(15)), EndedAt: db.Instant(x.Int(16))}
	h := &Handle{store: s, Key: x.Int(0)}
	h.read(r)
	r.Handle = h
	row := &Row{Run: r, Handle: h}
	row.Damage = row.decode(x)
	h.fault = FaultOf(r)
	if full && s.texts.Full != "" && row.Damage == nil {
		row.Damage = row.decodeFull(x)
	}
	return row
}

func (row *Row) decode(x db.Row) (err error) {
	r, h := row.Run, row.Handle
	body, birth := x.Bytes(17), x.Bytes(18)
	if birth == nil {
		return errors.New("what it was started with is missing")
	}
	if r.Phase == "" {
		return fmt.Errorf("unknown phase %d", x.Int(8))
	}
	if r.Input = x.Bytes(19); len(r.Input) == 0 {
		r.Input = nil
	}
	if h.store.texts.Chained {
		if h.LastEvent, h.LastSteps, body, err = ReadPointers(body); err != nil {
			return err
		}
	}
	if row.open, err = codec.ReadBody(body, r); err != nil {
		return err
	}
	if next := x.Int(14); next != 0 { // 0: as in the body
		r.NextAt = db.Instant(max(next, 0))
	}
	for _, s := range row.open {
		h.open = append(h.open, s.Name)
	}
	return codec.ReadBirth(birth, r)
}

func (row *Row) decodeFull(x db.Row) error {
	for _, data := range x.List(20) {
		settled, err := codec.ReadRecords(data)
		if err != nil {
			return err
		}
		row.Settled = append(row.Settled, settled...)
	}
	ids, signals := x.List(21), x.List(22)
	for i, id := range ids {
		signal, err := codec.ReadSignal(string(id), signals[i])
		if err != nil {
			return err
		}
		row.Signals = append(row.Signals, signal)
	}
	return nil
}

// loaded returns the run with its records. A record in the body is the newest.
func (row *Row) loaded() (runstore.Loaded, error) {
	l := runstore.Loaded{Run: row.Run, Signals: row.Signals}
	if row.Damage != nil {
		return l, runstore.StoreCorrupt.Errorf("run %s cannot be read: %w", row.Run.ID, row.Damage).With("run", row.Run.ID)
	}
	records := row.open
	if len(row.Settled) > 0 {
		records = make([]*runtype.StepRecord, 0, len(row.open)+len(row.Settled))
		at := make(map[string]int, cap(records))
		for _, list := range [][]*runtype.StepRecord{row.Settled, row.open} {
			for _, s := range list {
				if i, known := at[s.Name]; known {
					records[i] = s
					continue
				}
				at[s.Name] = len(records)
				records = append(records, s)
			}
		}
	}
	row.Run.Restore(records)
	return l, nil
}

// ReadFull reads a run with its signals from a row of Columns and Full. STORE_CORRUPT for
// a damaged run.
func (s *Store) ReadFull(x db.Row) (runstore.Loaded, error) { return s.readRow(x, true).loaded() }

// load reads a run with its signals. STORE_CORRUPT for a damaged run; other runs are not
// affected.
func (s *Store) load(x db.Session, sql string, key any) (runstore.Loaded, error) {
	var row *Row
	if err := x.Query(sql, []any{key}, func(r db.Row) error { row = s.readRow(r, true); return nil }); err != nil {
		return runstore.Loaded{}, err
	}
	if row == nil {
		return runstore.Loaded{}, runstore.ErrNotFound
	}
	if row.Damage == nil {
		if err := s.dialect.Complete(x, row); err != nil {
			return runstore.Loaded{Run: row.Run}, err
		}
	}
	return row.loaded()
}

// LoadID reads a run by its id. STORE_CORRUPT for a damaged run.
func (s *Store) LoadID(x db.Session, id string) (runstore.Loaded, error) {
	return s.load(x, s.byID, id)
}

// LoadKey reads a run by its key. STORE_CORRUPT for a damaged run.
func (s *Store) LoadKey(x db.Session, key int64) (runstore.Loaded, error) {
	return s.load(x, s.byKey, key)
}

// Load implements runstore.Store.
func (s *Store) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	var l runstore.Loaded
	err := s.db.Read(ctx, func(x db.Session) (err error) {
		l, err = s.LoadID(x, id)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.dialect.Claimed(l.Run)
	return l.Run, l.Signals, nil
}
