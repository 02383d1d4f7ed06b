package sqlite

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"
)

// Execute runs one statement that returns no rows. The connection caches the statement.
func Execute(conn *sqlite.Conn, sql string, params ...any) error {
	return Query(conn, sql, nil, params...)
}

// Query runs one statement and calls fn for each row.
func Query(conn *sqlite.Conn, sql string, fn func(*sqlite.Stmt) error, params ...any) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	defer stmt.Reset() //nolint:errcheck // Reset repeats the error of Step
	bind(stmt, params)
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		if fn != nil {
			if err := fn(stmt); err != nil {
				return err
			}
		}
	}
}

// bind sets parameters and returns their size in bytes; a number counts 8.
func bind(stmt *sqlite.Stmt, params []any) (size int) {
	for i, p := range params {
		switch p := p.(type) {
		case nil:
			stmt.BindNull(i + 1)
		case int:
			stmt.BindInt64(i+1, int64(p))
			size += 8
		case int64:
			stmt.BindInt64(i+1, p)
			size += 8
		case bool:
			stmt.BindBool(i+1, p)
			size++
		case string:
			stmt.BindText(i+1, p)
			size += len(p)
		case []byte:
			if p == nil {
				stmt.BindNull(i + 1)
			} else {
				stmt.BindBytes(i+1, p)
			}
			size += len(p)
		default:
			panic(fmt.Sprintf("store/sql: cannot bind %T", p))
		}
	}
	return size
}

// Text returns the first column of the first row, "" without rows.
func Text(conn *sqlite.Conn, sql string, params ...any) (value string, err error) {
	err = Query(conn, sql, func(row *sqlite.Stmt) error {
		if value == "" {
			value = row.ColumnText(0)
		}
		return nil
	}, params...)
	return value, err
}

// Script runs statements one after the other.
func Script(conn *sqlite.Conn, sql string) error {
	for {
		sql = strings.TrimSpace(sql)
		if sql == "" {
			return nil
		}
		stmt, rest, err := conn.PrepareTransient(sql)
		if err != nil {
			return err
		}
		sql = sql[len(sql)-rest:]
		if stmt == nil || stmt.ColumnCount() < 0 {
			continue
		}
		_, err = stmt.Step()
		if e := stmt.Finalize(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
}

// Column returns a copy of a blob; nil for NULL.
func Column(row *sqlite.Stmt, i int) []byte {
	if row.ColumnIsNull(i) {
		return nil
	}
	data := make([]byte, row.ColumnLen(i))
	row.ColumnBytes(i, data)
	return data
}
