package sqlstore

import (
	"fmt"
	"strings"
	"time"
)

// parameters returns n parameters, joined with commas, numbered from from.
func parameters(from, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("$%d", from+i))
	}
	return strings.Join(list, ", ")
}

// plain makes a text valid for both databases: valid UTF-8 without NUL.
func plain(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// orNull returns a time as a column value, NULL for the zero time.
func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

func excluded(columns []string) string {
	var set []string
	for _, c := range columns {
		set = append(set, c+" = excluded."+c)
	}
	return strings.Join(set, ", ")
}

// firstInt returns the number in the first row of a result, 0 without rows.
func firstInt(s session, sql string, args []any) (n int64, err error) {
	err = s.query(sql, args, func(r row) error { n = r.int(0); return nil })
	return n, err
}

// nanos and instant convert times to and from columns: nanoseconds since 1970, 0 for the
// zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func nonNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
