package sql

import (
	"context"
	"errors"
	"io"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/workflow"
)

// Check reads the whole store and reports damage. It writes nothing.
func (s *SQLite) Check(ctx context.Context) (Report, error) {
	var report Report
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		err := query(conn, "PRAGMA integrity_check(100)", func(row *sqlite.Stmt) error {
			if line := row.ColumnText(0); line != "ok" {
				report.Damage = append(report.Damage, Damage{What: line})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if report.Keys, err = sqEncryptedWith(conn); err != nil {
			return err
		}
		if known, err := text(conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'container_cluster'"); err != nil {
			return err
		} else if known != "0" { // a file with an older schema has no such table
			err := sqFault(checkRecords(sqSession{conn: conn}, &report), s.path)
			if err != nil && !errors.Is(err, workflow.StoreCorrupt) {
				return err
			} else if err != nil {
				report.Damage = append(report.Damage, Damage{What: "clusters: " + fault.Message(err)})
			}
		}
		return s.eachRun(conn, func(id string, line dump, damage error) error {
			report.Runs++
			report.Events += len(line.Events)
			if damage != nil {
				report.Damage = append(report.Damage, Damage{Run: id, What: fault.Message(damage)})
			}
			return ctx.Err()
		})
	})
	if errors.Is(err, workflow.StoreCorrupt) {
		report.Damage = append(report.Damage, Damage{What: fault.Message(err)})
		err = nil
	}
	report.Healthy = len(report.Damage) == 0
	return report, err
}

// CheckFile checks a file that cannot be opened as a store. It writes nothing.
// STORE_EMPTY, STORE_FOREIGN, STORE_NO_FILE.
func CheckFile(ctx context.Context, path string) (Report, error) {
	switch err := identify(path); {
	case errors.Is(err, workflow.StoreCorrupt) && isShort(path):
		return Report{Damage: []Damage{{What: fault.Message(err)}}}, nil
	case err != nil && !errors.Is(err, workflow.StoreCorrupt): // a damaged file is read as far as possible
		return Report{}, err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return Report{}, sqFault(err, path)
	}
	s := &SQLite{path: path, readers: make(chan *sqReader, 1)}
	s.claims.init()
	s.readers <- newSQReader(conn)
	defer s.closeReaders(1)
	return s.Check(ctx)
}

// ExportFile exports the readable part of a file that cannot be opened as a store.
func ExportFile(ctx context.Context, path string, w io.Writer) error {
	if err := identify(path); err != nil && (!errors.Is(err, workflow.StoreCorrupt) || isShort(path)) {
		return err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return sqFault(err, path)
	}
	s := &SQLite{path: path, readers: make(chan *sqReader, 1)}
	s.claims.init()
	s.readers <- newSQReader(conn)
	defer s.closeReaders(1)
	return s.Export(ctx, w)
}

// eachRun reads all runs in the order of creation. A damaged run does not end it.
func (s *SQLite) eachRun(conn *sqlite.Conn, fn func(id string, line dump, damage error) error) error {
	type rowRef struct {
		row int64
		id  string
	}
	var all []rowRef
	err := query(conn, "SELECT row, id FROM run ORDER BY row", func(row *sqlite.Stmt) error {
		all = append(all, rowRef{row.ColumnInt64(0), row.ColumnText(1)})
		return nil
	})
	if err != nil && len(all) == 0 {
		return err
	}
	for _, at := range all {
		line, damage := s.dumpRun(conn, at.row, at.id)
		if err := fn(at.id, line, damage); err != nil {
			return err
		}
	}
	return nil
}

func (s *SQLite) dumpRun(conn *sqlite.Conn, row int64, id string) (line dump, err error) {
	l, err := s.loadBy(conn, "WHERE run.row = ?", row)
	if err != nil {
		return line, err
	}
	h := l.Run.Handle.(*sqHandle)
	line = dump{Run: l.Run, Signals: l.Signals}
	for record := range l.Run.Steps() {
		line.Steps = append(line.Steps, record)
	}
	var blocks [][]workflow.Event
	err = chain(conn, "data", h.lastEvent, func(data []byte) (prev int64, err error) {
		events, err := codec.ReadEvents(id, data, &prev)
		blocks = append(blocks, events)
		return prev, err
	})
	for i := len(blocks) - 1; i >= 0; i-- {
		line.Events = append(line.Events, blocks[i]...)
	}
	if err != nil {
		return line, err
	}
	l.Run.Handle = nil
	return line, query(conn, "SELECT id FROM signal WHERE run = ? AND data IS NULL ORDER BY row", func(seen *sqlite.Stmt) error {
		line.Seen = append(line.Seen, seen.ColumnText(0))
		return nil
	}, row)
}

// Backup writes a copy to a new file. The store stays in use.
func (s *SQLite) Backup(ctx context.Context, path string) error {
	err := createFile(path) // SQLite accepts an empty file
	if errors.Is(err, os.ErrExist) {
		return workflow.InputInvalid.Errorf("%s exists: name a new file", path)
	}
	if err != nil {
		return sqFault(err, path)
	}
	if err = s.backup(ctx, path); err != nil {
		_ = os.Remove(path)
	}
	return err
}

func (s *SQLite) backup(ctx context.Context, path string) error {
	conn, err := openConn(s.path, sqlite.OpenReadWrite, -2048)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	if err := execute(conn, "VACUUM INTO ?", path); err != nil {
		return s.fault(ctx, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return sqFault(err, path)
	}
	defer f.Close()
	return f.Sync()
}

// RemoveFile removes a file that no process has open, and the files that SQLite and its
// owner keep beside it.
func RemoveFile(path string) {
	for _, beside := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		_ = os.Remove(path + beside)
	}
}

// Export writes the store as JSON lines, except for data that a restored store does not
// need: older changes of objects, and answers to repeated requests.
func (s *SQLite) Export(ctx context.Context, to io.Writer) error {
	out, err := newExporter(to)
	if err != nil {
		return err
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		err := query(conn, "SELECT hash, flow, version, data, source FROM definition ORDER BY flow, hash", func(row *sqlite.Stmt) error {
			d := definition(row)
			return out.write(dump{Definition: &d})
		})
		if err != nil && !errors.Is(sqFault(err, s.path), workflow.StoreCorrupt) {
			return err
		}
		if err := exportObjects(conn, out); err != nil && !errors.Is(sqFault(err, s.path), workflow.StoreCorrupt) {
			return err
		}
		if err := exportTables(out, func(t exportedTable, each func(map[string]cell) error) error { return sqRows(conn, t, each) }); err != nil {
			return err
		}
		return s.eachRun(conn, func(id string, line dump, damage error) error {
			if damage != nil {
				line = dump{Damaged: &Damage{Run: id, What: fault.Message(damage)}}
			}
			if err := out.write(line); err != nil {
				return err
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	return out.end()
}

// exportObjects writes the objects, the number of their newest change, and the locks.
func exportObjects(conn *sqlite.Conn, out *exporter) error {
	err := query(conn, "SELECT data, kind, namespace, name FROM object ORDER BY kind, namespace, name", func(row *sqlite.Stmt) error {
		line := dump{Object: column(row, 0)}
		if _, err := objects.DecodeObject(line.Object); err != nil {
			ref := control.Ref{Kind: row.ColumnText(1), Namespace: row.ColumnText(2), Name: row.ColumnText(3)}
			line = dump{Damaged: &Damage{What: "object " + ref.String() + ": " + fault.Message(err)}}
		}
		return out.write(line)
	})
	if err != nil {
		return err
	}
	err = query(conn, "SELECT newest FROM feed", func(row *sqlite.Stmt) error { return out.write(dump{Newest: row.ColumnInt64(0)}) })
	if err != nil {
		return err
	}
	return query(conn, "SELECT name, value FROM lock ORDER BY name", func(row *sqlite.Stmt) error {
		return out.write(dump{Lock: row.ColumnText(0), Value: column(row, 1)})
	})
}

// Restore reads an export into an empty store: all of it or nothing. Runs with an owner
// become due at once. It skips the lines of damaged runs.
func (s *SQLite) Restore(ctx context.Context, from io.Reader) error {
	if !s.owner {
		return s.notOwner()
	}
	known, _, err := s.List(ctx, workflow.Query{Limit: 1})
	if err != nil {
		return err
	}
	page, err := s.Objects().List(ctx, control.Query{Limit: 1})
	if err != nil {
		return err
	}
	var records int64
	if err := (sqBackend{s}).Read(ctx, func(x db.Session) (err error) {
		records, err = db.FirstInt(x, hasClustersSQL, nil)
		return err
	}); err != nil {
		return err
	}
	if len(known)+len(page.Items) > 0 || records != 0 {
		return workflow.InputInvalid.Errorf("%s holds runs, objects or clusters already: restore into a new file", s.path)
	}
	// One write: all of it or nothing.
	return s.writer.do(&sqWrite{run: func(w *sqWriter) error {
		return readExport(from, func(line dump) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			switch {
			case line.Definition != nil:
				return w.putDefinition(*line.Definition)
			case line.Run != nil:
				return w.restore(line)
			case line.Table != "":
				return restoreRow(sqSession{conn: w.conn}, line)
			case line.Object != nil, line.Newest > 0, line.Lock != "":
				return w.restoreObject(line)
			}
			return nil
		})
	}})
}

// restoreObject writes an object or a lock. Numbers of changes continue after the newest
// one, and readers of the feed must list again.
func (w *sqWriter) restoreObject(line dump) error {
	if line.Lock != "" {
		return w.exec("INSERT INTO lock (name, value) VALUES (?, ?)", line.Lock, db.NonNil(line.Value))
	}
	newest := line.Newest
	if line.Object != nil {
		o, err := objects.DecodeObject(line.Object)
		if err != nil {
			return err
		}
		newest = o.Revision
		if err := w.exec("INSERT INTO object (kind, namespace, name, revision, data) VALUES (?, ?, ?, ?, ?)",
			o.Kind, o.Namespace, o.Name, o.Revision, []byte(line.Object)); err != nil {
			return err
		}
	}
	return w.exec("UPDATE feed SET newest = max(newest, ?1), floor = max(floor, ?1)", newest)
}

func (w *sqWriter) restore(line dump) error {
	r := line.Run
	var open, settled []*workflow.StepRecord
	for _, record := range line.Steps {
		if inBody(record) {
			open = append(open, record)
		} else {
			settled = append(settled, record)
		}
	}
	row := w.lastRun + 1
	var lastEvent, lastSteps int64
	if len(line.Events) > 0 {
		lastEvent = w.lastRow + 1
	}
	if len(settled) > 0 {
		lastSteps = w.lastRow + 1
	}
	body := putRowPointers(codec.AppendBody(make([]byte, pointerSpace), r, open), lastEvent, lastSteps)
	var due, slot, ended, parent any
	switch {
	case r.Phase.Final():
		ended = db.Nanos(r.EndedAt)
	case r.Owner != "":
		due = int64(1)
	case !r.NextAt.IsZero():
		due = dueAt(r.NextAt)
	}
	if !r.Inline && !r.Phase.Final() && r.Phase != workflow.Queued {
		slot = 1
	}
	if r.Parent != "" {
		parent = r.Parent
	}
	err := w.exec(`INSERT INTO run (row, id, flow, version, hash, subject, parent, inline, phase, slot, queue_no, revision, epoch, mail, due, created, ended, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row, r.ID, r.Flow, r.Version, r.Hash, r.Subject, parent, r.Inline, codec.PhaseNumber(r.Phase), slot, r.Queue, r.Revision, r.Epoch,
		r.Mail, due, db.Nanos(r.CreatedAt), ended, body)
	if err != nil {
		return err
	}
	w.lastRun++
	if err := w.exec("INSERT INTO birth (run, data, input) VALUES (?, ?, ?)", row, codec.AppendBirth(nil, r), []byte(r.Input)); err != nil {
		return err
	}
	if err := w.addLabels(row, r.Labels); err != nil {
		return err
	}
	for _, id := range line.Seen {
		if err := w.exec("INSERT INTO signal (run, id) VALUES (?, ?)", row, id); err != nil {
			return err
		}
	}
	for _, signal := range line.Signals {
		if err := w.exec("INSERT INTO signal (run, id, data) VALUES (?, ?, ?)", row, signal.ID, codec.AppendSignal(nil, &signal)); err != nil {
			return err
		}
	}
	if lastEvent == 0 && lastSteps == 0 {
		return nil
	}
	var events, steps []byte
	if lastEvent > 0 {
		events = codec.AppendEvents(nil, line.Events, 0)
	}
	if lastSteps > 0 {
		steps = codec.AppendRecords(nil, settled, 0)
	}
	return w.addEvent(row, events, steps)
}
