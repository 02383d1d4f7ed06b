package sql

import (
	"context"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
)

type sqBackend struct{ s *SQLite }

// sqSession is a session on SQLite.
type sqSession struct {
	conn *sqlite.Conn
}

func (x sqSession) Query(sql string, args []any, each func(db.Row) error) error {
	if each == nil {
		return execute(x.conn, sql, args...)
	}
	return query(x.conn, sql, func(stmt *sqlite.Stmt) error { return each(sqValues{stmt}) }, args...)
}

// run executes one statement of a change.
func (x sqSession) run(st db.Statement) error {
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

// sqValues is the current row of a statement.
type sqValues struct{ stmt *sqlite.Stmt }

func (v sqValues) Int(i int) int64   { return v.stmt.ColumnInt64(i) }
func (v sqValues) Text(i int) string { return v.stmt.ColumnText(i) }

func (v sqValues) AppendText(to []byte, i int) []byte {
	free := to[len(to):cap(to)]
	n := v.stmt.ColumnBytes(i, free)
	if n == len(free) { // the text may be longer
		to = slices.Grow(to, v.stmt.ColumnLen(i)+1)
		n = v.stmt.ColumnBytes(i, to[len(to):cap(to)])
	}
	return to[:len(to)+n]
}

func (v sqValues) Bytes(i int) []byte { return column(v.stmt, i) }

func (m sqBackend) Read(ctx context.Context, do func(db.Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.s.read(ctx, func(conn *sqlite.Conn) error { return do(sqSession{conn}) })
}

// Snapshot is read: a reader's session is one transaction.
func (m sqBackend) Snapshot(ctx context.Context, do func(db.Session) error) error {
	return m.Read(ctx, do)
}

// Apply ignores c.lock: the database has one writer at a time.
func (m sqBackend) Apply(ctx context.Context, c db.Change) error {
	err := m.s.write(ctx, func(conn *sqlite.Conn) error {
		if c.Begin != nil {
			c.Begin()
		}
		for _, st := range c.List {
			if err := (sqSession{conn}).run(st); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && c.FeedGrows { // the change is visible now
		m.s.changed.Notify()
		m.s.wakeOwner([]string{db.ChangeChannel})
	}
	return err
}

func (m sqBackend) Clock(db.Session) (time.Time, error) { return time.Now().UTC(), nil }

func (m sqBackend) Joined(before, number, after string) string {
	return "CAST(CAST(" + before + " AS text) || " + number + " || CAST(" + after + " AS text) AS blob)"
}

func (m sqBackend) Changes() *db.Notifier { return &m.s.changed }
