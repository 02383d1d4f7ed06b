package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	sqlRunColumns = `SELECT run.row, id, flow, version, hash, subject, parent, inline, phase, queue_no, revision, epoch, owner, mail, due,
	created, ended, body, birth.data, birth.input FROM `
	sqlRun = sqlRunColumns + `run LEFT JOIN birth ON birth.run = run.row `
	// sqlLabelled reads the index of labels first and then the runs by row; a cross join keeps this order.
	sqlLabelled = sqlRunColumns + `run_label AS chosen CROSS JOIN run ON run.row = chosen.run LEFT JOIN birth ON birth.run = run.row `
)

// decodeRun reads one row of sqlRun. It returns the records in the body.
func (s *SQLite) decodeRun(row *sqlite.Stmt) (*workflow.Run, []*workflow.StepRecord, error) {
	r := &workflow.Run{ID: row.ColumnText(1), Flow: row.ColumnText(2), Version: row.ColumnInt(3), Hash: row.ColumnText(4),
		Subject: row.ColumnText(5), Parent: row.ColumnText(6), Inline: row.ColumnBool(7), Phase: codec.PhaseOf(row.ColumnInt64(8)),
		Queue: row.ColumnInt64(9), Revision: row.ColumnInt64(10), Epoch: row.ColumnInt64(11), Owner: row.ColumnText(12),
		Mail: row.ColumnInt64(13), CreatedAt: db.Instant(row.ColumnInt64(15)), EndedAt: db.Instant(row.ColumnInt64(16))}
	h := &sqHandle{store: s, row: row.ColumnInt64(0), revision: r.Revision, phase: r.Phase, owner: r.Owner, epoch: r.Epoch,
		hash: r.Hash, version: r.Version}
	r.Handle = h
	birth := column(row, 18)
	if birth == nil {
		return r, nil, errors.New("what it was started with is missing")
	}
	if r.Input = column(row, 19); len(r.Input) == 0 {
		r.Input = nil
	}
	var body []byte
	var err error
	if h.lastEvent, h.lastSteps, body, err = readRowPointers(column(row, 17)); err != nil {
		return r, nil, err
	}
	open, err := codec.ReadBody(body, r)
	if err != nil {
		return r, nil, err
	}
	if r.Phase == "" {
		return r, nil, fmt.Errorf("unknown phase %d", row.ColumnInt64(8))
	}
	switch due := row.ColumnInt64(14); {
	case row.ColumnIsNull(14):
		r.NextAt = db.Instant(0)
	case due != 0:
		r.NextAt = db.Instant(due)
	}
	for _, s := range open {
		h.open = append(h.open, s.Name)
	}
	return r, open, codec.ReadBirth(birth, r)
}

// loadBy reads a complete run with its signals. STORE_CORRUPT for a damaged run; other
// runs are not affected.
func (s *SQLite) loadBy(conn *sqlite.Conn, where string, key any) (workflow.Loaded, error) {
	var l workflow.Loaded
	var open []*workflow.StepRecord
	var damage error
	err := query(conn, sqlRun+where, func(row *sqlite.Stmt) error {
		l.Run, open, damage = s.decodeRun(row)
		return nil
	}, key)
	switch {
	case err != nil:
		return l, err
	case l.Run == nil:
		return l, workflow.ErrNotFound
	case damage == nil:
		var records []*workflow.StepRecord
		if records, damage = chained(conn, l.Run.Handle.(*sqHandle).lastSteps, open); damage == nil {
			l.Run.Restore(records)
		}
	}
	if damage == nil && l.Run.Mail > 0 {
		l.Signals, damage = signals(conn, l.Run.Handle.(*sqHandle).row)
	}
	if damage != nil && !fatal(damage) {
		damage = workflow.StoreCorrupt.Errorf("run %s cannot be read: %w", l.Run.ID, damage)
	}
	return l, damage
}

// chained reads the chain of settled records. The newest record of a name counts, and a
// record in the body comes before all.
func chained(conn *sqlite.Conn, last int64, open []*workflow.StepRecord) ([]*workflow.StepRecord, error) {
	records := open
	if last == 0 {
		return records, nil
	}
	seen := make(map[string]bool, len(open)+16)
	for _, s := range open {
		seen[s.Name] = true
	}
	err := chain(conn, "steps", last, func(data []byte) (prev int64, err error) {
		settled, err := codec.ReadRecords(data, &prev)
		for _, s := range slices.Backward(settled) {
			if !seen[s.Name] {
				seen[s.Name] = true
				records = append(records, s)
			}
		}
		return prev, err
	})
	return records, err
}

// chain reads rows of event from the newest back. fn returns the number of the row
// before; 0 ends.
func chain(conn *sqlite.Conn, col string, last int64, fn func(data []byte) (int64, error)) error {
	for last > 0 {
		at, found := last, false
		err := query(conn, "SELECT "+col+" FROM event WHERE row = ?", func(row *sqlite.Stmt) (err error) {
			found = true
			last, err = fn(column(row, 0))
			return err
		}, at)
		if err != nil {
			return err
		}
		if !found || last >= at {
			return fmt.Errorf("row %d of its history is missing or damaged", at)
		}
	}
	return nil
}

func signals(conn *sqlite.Conn, run int64) (list []workflow.Signal, err error) {
	err = query(conn, "SELECT id, data FROM signal WHERE run = ? AND data IS NOT NULL ORDER BY row", func(row *sqlite.Stmt) error {
		signal, err := codec.ReadSignal(row.ColumnText(0), column(row, 1))
		list = append(list, signal)
		return err
	}, run)
	return list, err
}

// Load returns a run and its unread signals. See workflow.Store.
func (s *SQLite) Load(ctx context.Context, id string) (*workflow.Run, []workflow.Signal, error) {
	var l workflow.Loaded
	err := s.read(ctx, func(conn *sqlite.Conn) (err error) {
		l, err = s.loadBy(conn, "WHERE id = ?", id)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.claims.applyTo(l.Run)
	return l.Run, l.Signals, nil
}

// List returns runs without their records. See workflow.Lister.
func (s *SQLite) List(ctx context.Context, q workflow.Query) ([]*workflow.Run, string, error) {
	var where []string
	var params []any
	add := func(condition string, values ...any) {
		where = append(where, condition)
		params = append(params, values...)
	}
	for _, equal := range []struct{ column, value string }{{"flow", q.Flow}, {"subject", q.Subject}, {"hash", q.Hash}, {"parent", q.Parent}} {
		if equal.value != "" {
			add(equal.column+" = ?", equal.value)
		}
	}
	if len(q.Phases) > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?,", len(q.Phases)), ",")
		var numbers []any
		for _, p := range q.Phases {
			numbers = append(numbers, codec.PhaseNumber(p))
		}
		add("phase IN ("+marks+")", numbers...)
	}
	if q.Active {
		add("ended IS NULL")
	}
	if q.Prefix != "" {
		add("id >= ? AND substr(id, 1, ?) = ?", q.Prefix, len([]rune(q.Prefix)), q.Prefix)
	}
	if len(q.IDs) > 0 {
		marks, ids := oneOf(q.IDs)
		add("id IN ("+marks+")", ids...)
	}
	sql, row := sqlRun, "run.row"
	first, others := firstLabel(q.Labels)
	if first != nil {
		sql, row = sqlLabelled, "chosen.run"
		add("chosen.key = ? AND chosen.value = ?", first.Key, first.Value)
	}
	for _, t := range others {
		condition, values := labelCondition(t, "run.row", "?", "?")
		add(condition, values...)
	}
	order := " ORDER BY " + row + " DESC"
	if q.OldestFirst {
		order = " ORDER BY " + row
	}
	if q.Cursor != "" {
		at, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return nil, "", workflow.InputInvalid.Errorf("cursor %q is not from an earlier answer", q.Cursor)
		}
		if q.OldestFirst {
			add(row+" > ?", at)
		} else {
			add(row+" < ?", at)
		}
	}
	if len(where) > 0 {
		sql += "WHERE " + strings.Join(where, " AND ")
	}
	limit := q.PageSize()
	params = append(params, limit+1)

	var runs []*workflow.Run
	more := false
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, sql+order+" LIMIT CAST(? AS INTEGER)", func(row *sqlite.Stmt) error {
			if len(runs) == limit {
				more = true
				return nil
			}
			r, open, damage := s.decodeRun(row)
			if damage != nil {
				r = unreadableRun(r, damage)
			} else {
				whole := &workflow.Run{}
				whole.Restore(open)
				if current := whole.Current(); current != nil {
					r.Restore([]*workflow.StepRecord{current})
				}
			}
			runs = append(runs, r)
			return nil
		}, params...)
	})
	if err != nil || !more {
		return runs, "", err
	}
	return runs, strconv.FormatInt(runs[len(runs)-1].Handle.(*sqHandle).row, 10), nil
}

// oneOf returns placeholders and parameters for a list of values. It repeats the last
// value up to the next power of two, so that there are few distinct statements.
func oneOf(values []string) (marks string, params []any) {
	size := 1
	for size < len(values) {
		size *= 2
	}
	for i := range size {
		params = append(params, values[min(i, len(values)-1)])
	}
	return strings.TrimSuffix(strings.Repeat("?,", size), ","), params
}

// unreadableRun is how List shows a run that cannot be read.
func unreadableRun(r *workflow.Run, damage error) *workflow.Run {
	r.Phase = workflow.Paused
	r.Fault = &workflow.Fault{Code: workflow.StoreCorrupt.Code, Message: damage.Error()}
	return r
}

// History returns the events of one run. See workflow.Lister.
func (s *SQLite) History(ctx context.Context, id string, after int64, limit int) ([]workflow.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	var blocks [][]workflow.Event
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		last := int64(-1)
		var damage error
		err := query(conn, "SELECT body FROM run WHERE id = ?", func(row *sqlite.Stmt) error {
			last, _, _, damage = readRowPointers(column(row, 0))
			return nil
		}, id)
		switch {
		case err != nil:
			return err
		case last < 0:
			return workflow.ErrNotFound
		case damage == nil:
			damage = chain(conn, "data", last, func(data []byte) (prev int64, err error) {
				events, err := codec.ReadEvents(id, data, &prev)
				if len(events) > 0 && events[len(events)-1].Seq <= after {
					return 0, err
				}
				blocks = append(blocks, events)
				return prev, err
			})
		}
		if damage != nil && !fatal(damage) {
			damage = workflow.StoreCorrupt.Errorf("the history of run %s cannot be read: %w", id, damage)
		}
		return damage
	})
	var events []workflow.Event
	for _, block := range slices.Backward(blocks) {
		for _, e := range block {
			if e.Seq > after && len(events) < limit {
				events = append(events, e)
			}
		}
	}
	return events, err
}

// Events returns the events of all runs. See workflow.Lister. A cursor is a row of event
// and the number of its events that were returned.
func (s *SQLite) Events(ctx context.Context, cursor string, limit int) (events []workflow.Event, next string, err error) {
	if limit <= 0 {
		limit = 1000
	}
	var at, given int64
	if cursor != "" && cursor != "now" {
		if n, err := fmt.Sscanf(cursor, "%d.%d", &at, &given); n != 2 || err != nil {
			return nil, "", workflow.InputInvalid.Errorf("cursor %q is not from an earlier answer", cursor)
		}
	}
	full := errors.New("full")
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		if cursor == "now" {
			return query(conn, "SELECT coalesce(max(row), 0) FROM event", func(row *sqlite.Stmt) error {
				at, given = row.ColumnInt64(0), 1<<30
				return nil
			})
		}
		err := query(conn, `SELECT event.row, run.id, event.data FROM event JOIN run ON run.row = event.run
			WHERE event.row >= ? AND event.data IS NOT NULL ORDER BY event.row`, func(row *sqlite.Stmt) error {
			var prev int64
			block, damage := codec.ReadEvents(row.ColumnText(1), column(row, 2), &prev)
			if damage != nil {
				return nil //nolint:nilerr // its run is unreadable
			}
			if row.ColumnInt64(0) != at {
				at, given = row.ColumnInt64(0), 0
			}
			for _, e := range block[min(int(given), len(block)):] {
				if len(events) == limit {
					return full
				}
				events = append(events, e)
				given++
			}
			return nil
		}, at)
		if errors.Is(err, full) {
			return nil
		}
		return err
	})
	return events, fmt.Sprintf("%d.%d", at, given), err
}
