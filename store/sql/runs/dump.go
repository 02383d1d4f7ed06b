package runs

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Dump is a run with all that belongs to it.
type Dump struct {
	Run     *runtype.Run          `json:"run,omitempty"`
	Steps   []*runtype.StepRecord `json:"steps,omitempty"`
	Signals []runtype.Signal      `json:"signals,omitempty"`
	Seen    []string              `json:"seen,omitempty"` // ids of consumed signals
	Events  []runtype.Event       `json:"events,omitempty"`
	Logs    *runstore.LogPage     `json:"logs,omitempty"`
}

// EachDefinition calls fn for every definition.
func (s *Store) EachDefinition(x db.Session, fn func(runstore.Definition) error) error {
	return x.Query(`SELECT hash, flow, version, data, source FROM definition ORDER BY flow, hash`, nil, func(r db.Row) error { return fn(readDefinition(r)) })
}

const dumpPage = 10_000 // runs that EachRun finds at once

// EachRun calls fn for every run in the order of creation. A damaged run does not end it.
// isDamage reports damage after which the other runs can be read.
func (s *Store) EachRun(x db.Session, isDamage func(error) bool, fn func(id string, d Dump, damage error) error) error {
	type run struct {
		key int64
		id  string
	}
	sql := fmt.Sprintf("SELECT %s, r.id FROM run AS r WHERE %[1]s > $1 ORDER BY %[1]s LIMIT %d", s.texts.Key, dumpPage)
	for last := int64(-1); ; {
		var page []run
		err := x.Query(sql, []any{last}, func(r db.Row) error {
			page = append(page, run{r.Int(0), r.Text(1)})
			return nil
		})
		if err != nil && (!isDamage(err) || last < 0 && len(page) == 0) {
			return err
		}
		for _, r := range page {
			last = r.key
			d, damage := s.dump(x, r.key, r.id)
			if damage != nil && !isDamage(damage) {
				return damage
			}
			if err := fn(r.id, d, damage); err != nil {
				return err
			}
		}
		if err != nil || len(page) < dumpPage {
			return nil //nolint:nilerr // runs behind damage cannot be found
		}
	}
}

func (s *Store) dump(x db.Session, key int64, id string) (d Dump, err error) {
	l, err := s.LoadKey(x, key)
	if err != nil {
		return d, err
	}
	d = Dump{Run: l.Run, Signals: l.Signals, Steps: slices.Collect(l.Run.Steps())}
	h := l.Run.Handle.(*Handle)
	l.Run.Handle = nil
	rows, damage, err := s.dialect.History(x, id, h, -1, math.MaxInt32)
	for _, row := range rows {
		d.Events = append(d.Events, row...)
	}
	if err != nil {
		return d, err
	}
	if err := x.Query(s.texts.Seen, []any{key}, func(r db.Row) error { d.Seen = append(d.Seen, r.Text(0)); return nil }); err != nil {
		return d, err
	}
	if d.Logs, err = dumpLogs(x, key); err != nil {
		return d, err
	}
	if damage != nil {
		return d, runstore.StoreCorrupt.Errorf("the history of run %s cannot be read: %w", id, damage)
	}
	return d, nil
}

// RestoreDefinition returns the statement that restores a definition.
func (s *Store) RestoreDefinition(d runstore.Definition) db.Statement { return putDefinition(d) }

// Restorer returns a function that makes the statements which store a run of an export. It
// makes runs with an owner due at once.
func (s *Store) Restorer(x db.Session) (func(Dump) []db.Statement, error) {
	return s.dialect.Restorer(x)
}

// Restored returns what Restore writes of a run: its open records in the body, the settled
// ones and the events beside it.
func (s *Store) Restored(d Dump) *NewRun {
	n := &NewRun{Run: d.Run, Birth: codec.AppendBirth(nil, d.Run), Handle: &Handle{store: s}}
	d.Run.Restore(d.Steps)
	n.Encoded = n.Handle.encode(nil, d.Steps, d.Run, d.Events)
	return n
}

// LabelStatements index the labels of a new run.
func LabelStatements(key int64, labels map[string]string) (list []db.Statement) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, db.Statement{SQL: PutLabelSQL, Args: []any{name, labels[name], key}})
	}
	return list
}

// PutLabelSQL indexes one label of a run.
const PutLabelSQL = `INSERT INTO run_label (key, value, run) VALUES ($1, $2, $3)`
