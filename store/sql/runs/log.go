package runs

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// WriteLogs implements runstore.Logs in one transaction, and one more for each run that has grown too large.
func (s *Store) WriteLogs(ctx context.Context, writes []*runstore.LogWrite) error {
	var change db.Change
	last, large := make([]int64, len(writes)), map[string]bool{}
	for i, w := range writes {
		list, err := s.logStatements(w, func(r db.Row) error {
			last[i] = r.Int(0)
			if r.Int(1) > runstore.MaxRunLog {
				large[w.Run] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		change.List = append(change.List, list...)
	}
	change.Begin = func() { clear(last); clear(large) }
	if err := s.db.Apply(ctx, change); err != nil {
		return err
	}
	for i, w := range writes {
		for j, c := range w.Chunks {
			c.Number = last[i] - int64(len(w.Chunks)-1-j)
		}
	}
	for run := range large {
		if err := s.trimLogs(ctx, run); err != nil {
			return nil //nolint:nilerr // the lines are stored; the next write tries again
		}
	}
	return nil
}

// logStatements make one write. The first one locks the logs of the run and returns its newest number and its size.
func (s *Store) logStatements(w *runstore.LogWrite, each func(db.Row) error) ([]db.Statement, error) {
	var stored int64
	texts := make([][]byte, len(w.Chunks))
	for i, c := range w.Chunks {
		text, err := json.Marshal(c.Lines)
		if err != nil {
			return nil, err
		}
		texts[i] = text
		stored += int64(len(text))
	}
	list := []db.Statement{{SQL: `INSERT INTO run_log_size AS z (run, last, bytes, left_out)
		SELECT ` + s.texts.Key + `, CAST($1 AS bigint), CAST($2 AS bigint), 0 FROM run AS r WHERE r.id = $3
		ON CONFLICT (run) DO UPDATE SET last = z.last + excluded.last, bytes = z.bytes + excluded.bytes
		RETURNING last, bytes`, Args: []any{int64(len(w.Chunks)), stored, w.Run}, Each: each}}
	for i, c := range w.Chunks {
		list = append(list, db.Statement{SQL: `INSERT INTO run_log (run, n, step, round, attempt, undo, left_out, bytes, lines)
			SELECT z.run, z.last - CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS bigint), CAST($4 AS bigint), CAST($5 AS bigint), CAST($6 AS bigint), CAST($7 AS bigint), $8
			FROM run AS r JOIN run_log_size AS z ON z.run = ` + s.texts.Key + ` WHERE r.id = $9`,
			Args: []any{int64(len(w.Chunks) - 1 - i), c.Step, int64(c.Round), int64(c.Attempt), db.Flag(c.Undo), c.LeftOut, c.Bytes, texts[i], w.Run}})
	}
	for page := range slices.Chunk(w.Remove, removePage) {
		list = append(list, s.removeStatements(w, page)...)
	}
	return list, nil
}

// removePage is how many chunks a statement removes: databases limit the parameters of a statement.
const removePage = 1024

// removeStatements remove chunks. What they had counts as left out before the chunk Into.
func (s *Store) removeStatements(w *runstore.LogWrite, page []int64) []db.Statement {
	args := &db.Where{}
	run := "(SELECT " + s.texts.Key + " FROM run AS r WHERE r.id = " + args.Arg(w.Run) + ")"
	removed := "o.run = " + run + " AND " + db.In(args, "o.n", page)
	counted := args.Clone()
	return []db.Statement{
		{SQL: "UPDATE run_log_size SET bytes = bytes - (SELECT coalesce(sum(length(o.lines)), 0) FROM run_log AS o WHERE " + removed + ") WHERE run = " + run, Args: args.Args},
		{SQL: "UPDATE run_log SET left_out = left_out + (SELECT coalesce(sum(o.bytes + o.left_out), 0) FROM run_log AS o WHERE " + removed + ") WHERE run = " + run +
			" AND n = " + counted.Arg(w.Into), Args: counted.Args},
		{SQL: "DELETE FROM run_log AS o WHERE " + removed, Args: args.Args},
	}
}

// trimLogs removes the oldest chunks of a run.
func (s *Store) trimLogs(ctx context.Context, id string) error {
	var key, cut int64
	err := s.db.Read(ctx, func(x db.Session) (err error) {
		if key, err = db.FirstInt(x, "SELECT "+s.texts.Key+" FROM run AS r WHERE r.id = $1", []any{id}); err != nil {
			return err
		}
		var kept int64
		return x.Query("SELECT n, length(lines) FROM run_log WHERE run = $1 ORDER BY n DESC", []any{key}, func(r db.Row) error {
			if kept += r.Int(1); kept > runstore.KeptRunLog {
				cut = max(cut, r.Int(0))
			}
			return nil
		})
	})
	if err != nil || cut == 0 {
		return err
	}
	const removed = "FROM run_log AS o WHERE o.run = $1 AND o.n <= $2"
	args := []any{key, cut}
	return s.db.Apply(ctx, db.Change{List: []db.Statement{
		{SQL: "UPDATE run_log_size SET last = last WHERE run = $1", Args: args[:1]}, // locks the logs, so that nobody else counts the same chunks
		{SQL: "UPDATE run_log_size SET bytes = bytes - (SELECT coalesce(sum(length(o.lines)), 0) " + removed + "), left_out = left_out + (SELECT coalesce(sum(o.bytes + o.left_out), 0) " + removed + ") WHERE run = $1", Args: args},
		{SQL: "DELETE " + removed, Args: args},
	}})
}

// ReadLogs implements runstore.Logs.
func (s *Store) ReadLogs(ctx context.Context, id string, q runstore.LogQuery) (page runstore.LogPage, err error) {
	err = s.db.Read(ctx, func(x db.Session) error {
		key, err := db.FirstInt(x, "SELECT "+s.texts.Key+" FROM run AS r WHERE r.id = $1", []any{id})
		if err == nil && key == 0 {
			err = runstore.ErrNotFound
		}
		if err != nil {
			return err
		}
		page, err = readLogs(x, key, q)
		return err
	})
	return page, err
}

func readLogs(x db.Session, key int64, q runstore.LogQuery) (page runstore.LogPage, err error) {
	if page.LeftOut, err = db.FirstInt(x, "SELECT left_out FROM run_log_size WHERE run = $1", []any{key}); err != nil {
		return page, err
	}
	w := &db.Where{}
	w.And("run = ?", key)
	w.And("n > ?", q.After)
	order := "n"
	if q.Newest {
		order = "n DESC"
	}
	if q.Before > 0 {
		w.And("n < ?", q.Before)
	}
	err = x.Query("SELECT n, step, round, attempt, undo, left_out, bytes, lines FROM run_log"+w.String()+w.Page(order, 0, q.PageSize()), w.Args, func(r db.Row) error {
		c := runstore.LogChunk{Number: r.Int(0), Step: r.Text(1), Round: int(r.Int(2)), Attempt: int(r.Int(3)), Undo: r.Int(4) == 1, LeftOut: r.Int(5), Bytes: r.Int(6)}
		if err := json.Unmarshal(r.Bytes(7), &c.Lines); err != nil {
			return runstore.StoreCorrupt.Errorf("logs cannot be read: %w", err)
		}
		page.Chunks = append(page.Chunks, c)
		return nil
	})
	if q.Newest {
		slices.Reverse(page.Chunks)
	}
	return page, err
}

// dumpLogs reads all logs of a run; nil: it has none. A file with an older schema has no table of them.
func dumpLogs(x db.Session, key int64) (*runstore.LogPage, error) {
	if known, err := x.HasTable("run_log"); err != nil || !known {
		return nil, err
	}
	page, err := readLogs(x, key, runstore.LogQuery{Limit: math.MaxInt32})
	if err != nil || page.LeftOut == 0 && len(page.Chunks) == 0 {
		return nil, err
	}
	return &page, nil
}

// LogStatements restore the logs of a run.
func LogStatements(key int64, d Dump) (list []db.Statement) {
	if d.Logs == nil {
		return nil
	}
	var last, stored int64
	for _, c := range d.Logs.Chunks {
		lines, err := json.Marshal(c.Lines)
		if err != nil {
			continue // lines were read from JSON
		}
		last, stored = c.Number, stored+int64(len(lines))
		list = append(list, db.Statement{SQL: `INSERT INTO run_log (run, n, step, round, attempt, undo, left_out, bytes, lines) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			Args: []any{key, c.Number, c.Step, int64(c.Round), int64(c.Attempt), db.Flag(c.Undo), c.LeftOut, c.Bytes, lines}})
	}
	return append(list, db.Statement{SQL: `INSERT INTO run_log_size (run, last, bytes, left_out) VALUES ($1, $2, $3, $4)`, Args: []any{key, last, stored, d.Logs.LeftOut}})
}
