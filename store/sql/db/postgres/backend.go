package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// Backend returns the database for the stores over both databases.
func (p *DB) Backend() db.Backend { return backend{p} }

type backend struct{ p *DB }

// Session is a session on PostgreSQL.
type Session struct {
	ctx context.Context
	on  interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

// Query implements db.Session.
func (s Session) Query(sql string, args []any, each func(db.Row) error) error {
	rows, err := s.on.Query(s.ctx, sql, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, each)
}

func eachRow(rows pgx.Rows, each func(db.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if each == nil {
			continue
		}
		values, err := rows.Values()
		if err != nil {
			return err
		}
		if err := each(rowValues(values)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Columns calls each for every row of a query, with the names of its columns.
func (s Session) Columns(sql string, each func(names []string, values []any) error) error {
	rows, err := s.on.Query(s.ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		names = names[:0]
		for _, field := range rows.FieldDescriptions() {
			names = append(names, field.Name)
		}
		if err := each(names, values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// NewSession returns the session of a transaction.
func NewSession(ctx context.Context, tx pgx.Tx) Session { return Session{ctx, tx} }

// rowValues is one decoded row.
type rowValues []any

func (v rowValues) Int(i int) int64 {
	switch n := v[i].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	}
	return 0
}

func (v rowValues) Text(i int) string {
	s, _ := v[i].(string)
	return s
}

func (v rowValues) AppendText(to []byte, i int) []byte { return append(to, v.Text(i)...) }

func (v rowValues) Bytes(i int) []byte {
	b, _ := v[i].([]byte)
	return b
}

func (m backend) Read(ctx context.Context, do func(db.Session) error) error {
	return Fault(do(Session{ctx, m.p.Pool}))
}

func (m backend) Snapshot(ctx context.Context, do func(db.Session) error) error {
	return m.p.snapshot(ctx, func(tx pgx.Tx) error { return do(Session{ctx, tx}) })
}

// Apply sends a change in one message. Its advisory lock ends with the transaction. Two
// names with the same hash wait for each other, which is harmless.
func (m backend) Apply(ctx context.Context, c db.Change) error {
	select {
	case m.p.lockSlots <- struct{}{}:
		defer func() { <-m.p.lockSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.p.Count(len(c.List), 0)
	for try := 1; ; try++ {
		err := m.once(ctx, c)
		if !deadlocked(err) || try == maxTries {
			return Fault(err)
		}
	}
}

// once executes a change as one pipelined transaction.
func (m backend) once(ctx context.Context, c db.Change) error {
	if c.Begin != nil {
		c.Begin()
	}
	var b pgx.Batch
	if c.Lock != "" {
		b.Queue(`SELECT pg_advisory_xact_lock(hashtextextended($1, 7295))`, c.Lock)
	}
	for _, st := range c.List {
		sql := st.SQL
		if st.Must != nil {
			sql = "WITH must (n) AS (" + sql + ") SELECT pawl_must((SELECT n FROM must))"
		}
		b.Queue(sql, st.Args...)
	}
	if c.FeedGrows {
		b.Queue(`SELECT pg_notify($1, '')`, db.ChangeChannel)
	}
	sent := m.p.Pool.SendBatch(ctx, &b)
	defer sent.Close()
	if c.Lock != "" {
		if _, err := sent.Exec(); err != nil {
			return err
		}
	}
	for _, st := range c.List {
		rows, err := sent.Query()
		if err == nil {
			err = eachRow(rows, st.Each)
		}
		var pg *pgconn.PgError
		switch {
		case err == nil:
		case st.Must != nil && errors.As(err, &pg) && pg.Code == missingRow:
			return st.Must
		default:
			return err
		}
	}
	return sent.Close()
}

// missingRow is the SQLSTATE that pawl_must raises.
const missingRow = "PW001"

const maxTries = 3 // tries of a transaction that the server ended because of a deadlock

// deadlocked reports that the server ended the transaction because of a deadlock. It has
// rolled back the whole transaction.
func deadlocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40P01"
}

func (m backend) Clock(s db.Session) (now time.Time, err error) {
	err = s.Query(`SELECT clock_timestamp()`, nil, func(r db.Row) error {
		t, ok := r.(rowValues)[0].(time.Time)
		if !ok {
			return fmt.Errorf("clock_timestamp gave %T", r.(rowValues)[0])
		}
		now = t.UTC()
		return nil
	})
	return now, err
}

func (m backend) Joined(before, number, after string) string {
	return "(CAST(" + before + " AS bytea) || convert_to(CAST(" + number + " AS text), 'UTF8') || CAST(" + after + " AS bytea))"
}

func (m backend) Changes() *db.Notifier { return &m.p.changed }
