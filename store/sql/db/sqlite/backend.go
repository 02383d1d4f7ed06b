package sqlite

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var _ db.Maintained = (*DB)(nil)

// NewSession returns a session on a connection.
func NewSession(conn *sqlite.Conn) db.Session { return session{conn} }

type session struct{ conn *sqlite.Conn }

func (x session) Query(sql string, args []any, each func(db.Row) error) error {
	if each == nil {
		return Execute(x.conn, sql, args...)
	}
	return Query(x.conn, sql, func(stmt *sqlite.Stmt) error { return each(row{stmt}) }, args...)
}

func (x session) Columns(sql string, each func(names []string, values []any) error) error {
	var names []string
	var values []any
	return Query(x.conn, sql, func(row *sqlite.Stmt) error {
		names, values = names[:0], values[:0]
		for i := range row.ColumnCount() {
			var v any
			switch row.ColumnType(i) {
			case sqlite.TypeInteger:
				v = row.ColumnInt64(i)
			case sqlite.TypeText:
				v = row.ColumnText(i)
			case sqlite.TypeBlob:
				v = db.NonNil(Column(row, i))
			case sqlite.TypeNull:
			default:
				return runstore.StoreCorrupt.Errorf("column %s holds a %v", row.ColumnName(i), row.ColumnType(i))
			}
			names, values = append(names, row.ColumnName(i)), append(values, v)
		}
		return each(names, values)
	})
}

func (x session) HasTable(name string) (bool, error) {
	known, err := Text(x.conn, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", name)
	return known == "1", err
}

// run executes one statement of a change.
func (x session) run(st db.Statement) error {
	if st.Must == nil {
		return x.Query(st.SQL, st.Args, st.Each)
	}
	found := false
	err := x.Query(st.SQL, st.Args, func(r db.Row) error {
		found = true
		if st.Each == nil {
			return nil
		}
		return st.Each(r)
	})
	if err == nil && !found {
		err = st.Must
	}
	return err
}

// Execute implements db.Rewriter.
func (x session) Execute(list []db.Statement) error {
	for _, st := range list {
		if err := x.run(st); err != nil {
			return err
		}
	}
	return nil
}

// Restored does nothing: SQLite continues its numbers by itself.
func (x session) Restored(_, _ string) error { return nil }

// row is the current row of a statement.
type row struct{ stmt *sqlite.Stmt }

func (r row) Int(i int) int64   { return r.stmt.ColumnInt64(i) }
func (r row) Text(i int) string { return r.stmt.ColumnText(i) }

func (r row) AppendText(to []byte, i int) []byte {
	free := to[len(to):cap(to)]
	n := r.stmt.ColumnBytes(i, free)
	if n == len(free) { // the text may be longer
		to = slices.Grow(to, r.stmt.ColumnLen(i)+1)
		n = r.stmt.ColumnBytes(i, to[len(to):cap(to)])
	}
	return to[:len(to)+n]
}

func (r row) Bytes(i int) []byte { return Column(r.stmt, i) }

func (r row) List(int) [][]byte { panic("store/sql: SQLite has no arrays") }

// Read implements db.Backend.
func (d *DB) Read(ctx context.Context, do func(db.Session) error) error {
	return d.Select(ctx, func(conn *sqlite.Conn) error { return do(session{conn}) })
}

// Snapshot is Read: a reader's session is one transaction.
func (d *DB) Snapshot(ctx context.Context, do func(db.Session) error) error { return d.Read(ctx, do) }

// Inspect is Read: no other reader or writer waits for it.
func (d *DB) Inspect(ctx context.Context, do func(db.Session) error) error { return d.Read(ctx, do) }

// Apply implements db.Backend. It ignores c.Lock: the database has one writer at a time.
func (d *DB) Apply(ctx context.Context, c db.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.Do(Func{Run: func(w *Writer) error {
		if c.Begin != nil {
			c.Begin()
		}
		return session{w.Conn}.Execute(c.List)
	}}, true)
	if err == nil && c.FeedGrows { // the change is visible now
		d.changed.Notify()
		d.WakeOwner(db.ChangeChannel)
	}
	return err
}

// Rewrite implements db.Maintained. Only the owner of the file may do it.
func (d *DB) Rewrite(ctx context.Context, do func(db.Rewriter) error) error {
	if err := d.NotOwner(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Do(Func{Run: func(w *Writer) error {
		w.dataVersion = -1 // do may use numbers that the writer counts
		return do(session{w.Conn})
	}}, true)
}

// Clock implements db.Backend: the processes on a file share the clock of their machine.
func (d *DB) Clock(db.Session) (time.Time, error) { return time.Now().UTC(), nil }

// Joined implements db.Backend.
func (d *DB) Joined(before, number, after string) string {
	return "CAST(CAST(" + before + " AS text) || " + number + " || CAST(" + after + " AS text) AS blob)"
}

// Changes implements db.Backend.
func (d *DB) Changes() *control.Notifier { return &d.changed }

// Integrity implements db.Maintained.
func (d *DB) Integrity(s db.Session, damaged func(what string)) error {
	return s.Query("PRAGMA integrity_check(100)", nil, func(r db.Row) error {
		if line := r.Text(0); line != "ok" {
			damaged(line)
		}
		return nil
	})
}

// Backup implements db.Maintained.
func (d *DB) Backup(ctx context.Context, path string) error {
	err := createFile(path) // SQLite accepts an empty file
	if errors.Is(err, os.ErrExist) {
		return runtype.InputInvalid.Errorf("%s exists: name a new file", path)
	}
	if err != nil {
		return Fault(err, path)
	}
	if err = d.backup(ctx, path); err != nil {
		_ = os.Remove(path)
	}
	return err
}

func (d *DB) backup(ctx context.Context, path string) error {
	conn, err := openConn(d.path, sqlite.OpenReadWrite, -2048)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	if err := Execute(conn, "VACUUM INTO ?", path); err != nil {
		return d.fault(ctx, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Fault(err, path)
	}
	defer f.Close()
	return f.Sync()
}
