package db

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Parameters returns n parameters, joined with commas, numbered from from.
func Parameters(from, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("$%d", from+i))
	}
	return strings.Join(list, ", ")
}

// Plain makes a text valid for both databases: valid UTF-8 without NUL.
func Plain(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// Flag returns a bool as a column value: 1 or 0.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// OrNull returns a time as a column value, NULL for the zero time.
func OrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

// Excluded returns the SET of an upsert that replaces these columns.
func Excluded(columns []string) string {
	var set []string
	for _, c := range columns {
		set = append(set, c+" = excluded."+c)
	}
	return strings.Join(set, ", ")
}

// FirstInt returns the number in the first row of a result, 0 without rows.
func FirstInt(s Session, sql string, args []any) (n int64, err error) {
	err = s.Query(sql, args, func(r Row) error { n = r.Int(0); return nil })
	return n, err
}

// Nanos and instant convert times to and from columns: nanoseconds since 1970, 0 for the
// zero time. Times that a column cannot hold, before 1678 and after 2261, become its ends.
func Nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() < 1678:
		return math.MinInt64
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Instant returns the time of a column value in nanoseconds, in UTC; 0 is the zero time.
func Instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// NonNil returns data as it is stored where a column must not be NULL.
func NonNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
