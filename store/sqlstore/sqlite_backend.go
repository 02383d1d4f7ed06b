package sqlstore

import (
	"context"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

type sqBackend struct{ s *SQLite }

// sqSession is a session on SQLite.
type sqSession struct {
	conn *sqlite.Conn
}

func (x sqSession) query(sql string, args []any, each func(row) error) error {
	if each == nil {
		return execute(x.conn, sql, args...)
	}
	return query(x.conn, sql, func(stmt *sqlite.Stmt) error { return each(sqValues{stmt}) }, args...)
}

// run executes one statement of a change.
func (x sqSession) run(st statement) error {
	if st.must == nil {
		return x.query(st.sql, st.args, st.each)
	}
	found := false
	err := x.query(st.sql, st.args, func(r row) error {
		found = true
		if st.each == nil {
			return nil
		}
		return st.each(r)
	})
	if err == nil && !found {
		err = st.must
	}
	return err
}

// sqValues is the current row of a statement.
type sqValues struct{ stmt *sqlite.Stmt }

func (v sqValues) int(i int) int64   { return v.stmt.ColumnInt64(i) }
func (v sqValues) text(i int) string { return v.stmt.ColumnText(i) }

func (v sqValues) appendText(to []byte, i int) []byte {
	free := to[len(to):cap(to)]
	n := v.stmt.ColumnBytes(i, free)
	if n == len(free) { // the text may be longer
		to = slices.Grow(to, v.stmt.ColumnLen(i)+1)
		n = v.stmt.ColumnBytes(i, to[len(to):cap(to)])
	}
	return to[:len(to)+n]
}

func (v sqValues) bytes(i int) []byte { return column(v.stmt, i) }

func (m sqBackend) read(ctx context.Context, do func(session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.s.read(ctx, func(conn *sqlite.Conn) error { return do(sqSession{conn}) })
}

// snapshot is read: a reader's session is one transaction.
func (m sqBackend) snapshot(ctx context.Context, do func(session) error) error {
	return m.read(ctx, do)
}

// apply ignores c.lock: the database has one writer at a time.
func (m sqBackend) apply(ctx context.Context, c change) error {
	err := m.s.write(ctx, func(conn *sqlite.Conn) error {
		if c.begin != nil {
			c.begin()
		}
		for _, st := range c.list {
			if err := (sqSession{conn}).run(st); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && c.feedGrows { // the change is visible now
		m.s.changed.notify()
		m.s.wakeOwner([]string{changeChannel})
	}
	return err
}

func (m sqBackend) clock(session) (time.Time, error) { return time.Now().UTC(), nil }

func (m sqBackend) joined(before, number, after string) string {
	return "CAST(CAST(" + before + " AS text) || " + number + " || CAST(" + after + " AS text) AS blob)"
}

func (m sqBackend) changes() *notifier { return &m.s.changed }
