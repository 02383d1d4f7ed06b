package postgres

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
)

var _ db.Maintained = (*DB)(nil)

// session is a session on PostgreSQL.
type session struct {
	ctx context.Context
	on  interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (s session) Query(sql string, args []any, each func(db.Row) error) error {
	rows, err := s.on.Query(s.ctx, sql, args...)
	if err != nil {
		return err
	}
	return Each(rows, each)
}

// Each calls each for every row of an answer, and closes it. Without each it only waits
// for the end.
func Each(rows pgx.Rows, each func(db.Row) error) error {
	defer rows.Close()
	r := &row{}
	for rows.Next() {
		if each == nil {
			continue
		}
		r.values, r.fields = rows.RawValues(), rows.FieldDescriptions()
		if err := each(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s session) Columns(sql string, each func(names []string, values []any) error) error {
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

// HasTable returns true: the schema of an open database is up to date.
func (s session) HasTable(string) (bool, error) { return true, nil }

// row is one row as the server sent it: numbers in binary format, texts as they are.
type row struct {
	values [][]byte
	fields []pgconn.FieldDescription
}

func (r *row) Int(i int) int64 {
	v := r.values[i]
	if r.fields[i].Format == pgx.TextFormatCode {
		if string(v) == "t" {
			return 1
		}
		n, _ := strconv.ParseInt(string(v), 10, 64)
		return n
	}
	switch len(v) {
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	case 1:
		return int64(v[0])
	}
	return 0
}

func (r *row) Text(i int) string { return string(r.values[i]) }

func (r *row) AppendText(to []byte, i int) []byte { return append(to, r.values[i]...) }

func (r *row) Bytes(i int) []byte {
	v := r.values[i]
	if v == nil {
		return nil
	}
	if f := r.fields[i]; f.Format == pgx.TextFormatCode && f.DataTypeOID == pgtype.ByteaOID {
		b, _ := hex.DecodeString(strings.TrimPrefix(string(v), `\x`))
		return b
	}
	return append([]byte{}, v...)
}

// List returns the values of an array of texts or bytes. In the text format, which only
// a DSN can demand, it is decoded by the driver.
func (r *row) List(i int) (list [][]byte) {
	v := r.values[i]
	if v == nil {
		return nil
	}
	if f := r.fields[i]; f.Format == pgx.TextFormatCode {
		_ = pgtype.NewMap().Scan(f.DataTypeOID, f.Format, v, &list)
		return list
	}
	if len(v) < 20 { // no elements
		return nil
	}
	for v = v[20:]; len(v) >= 4; {
		n := int32(binary.BigEndian.Uint32(v))
		v = v[4:]
		if n < 0 {
			list = append(list, nil)
			continue
		}
		list = append(list, append([]byte{}, v[:n]...))
		v = v[n:]
	}
	return list
}

// Read implements db.Backend.
func (p *DB) Read(ctx context.Context, do func(db.Session) error) error {
	return Fault(do(session{ctx, p.Pool}))
}

// Snapshot implements db.Backend.
func (p *DB) Snapshot(ctx context.Context, do func(db.Session) error) error {
	return p.snapshot(ctx, "10s", do)
}

// Apply sends a change in one message. Its advisory lock ends with the transaction. Two
// names with the same hash wait for each other, which is harmless.
func (p *DB) Apply(ctx context.Context, c db.Change) error {
	select {
	case p.lockSlots <- struct{}{}:
		defer func() { <-p.lockSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.Count(len(c.List), 0)
	for try := 1; ; try++ {
		err := p.once(ctx, c)
		if !deadlocked(err) || try == maxTries {
			return Fault(err)
		}
	}
}

// once executes a change as one pipelined transaction.
func (p *DB) once(ctx context.Context, c db.Change) error {
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
	sent := p.Pool.SendBatch(ctx, &b)
	defer sent.Close()
	if c.Lock != "" {
		if _, err := sent.Exec(); err != nil {
			return err
		}
	}
	for _, st := range c.List {
		rows, err := sent.Query()
		if err == nil {
			err = Each(rows, st.Each)
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

// Clock implements db.Backend: the clock is that of the server.
func (p *DB) Clock(s db.Session) (time.Time, error) {
	micros, err := db.FirstInt(s, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`, nil)
	return time.UnixMicro(micros).UTC(), err
}

// Joined implements db.Backend.
func (p *DB) Joined(before, number, after string) string {
	return "(CAST(" + before + " AS bytea) || convert_to(CAST(" + number + " AS text), 'UTF8') || CAST(" + after + " AS bytea))"
}

// Changes implements db.Backend.
func (p *DB) Changes() *control.Notifier { return &p.changed }
