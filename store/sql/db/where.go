package db

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Where collects conditions and their arguments.
type Where struct {
	Conditions []string
	Args       []any
}

// Clone returns a copy to which conditions can be added.
func (w *Where) Clone() Where { return Where{slices.Clone(w.Conditions), slices.Clone(w.Args)} }

// And adds a condition; each ? in it is the next argument.
func (w *Where) And(condition string, args ...any) {
	for _, arg := range args {
		condition = strings.Replace(condition, "?", w.Arg(arg), 1)
	}
	w.Conditions = append(w.Conditions, condition)
}

// Arg adds an argument and returns its placeholder.
func (w *Where) Arg(v any) string {
	w.Args = append(w.Args, v)
	return "$" + strconv.Itoa(len(w.Args))
}

// String returns the WHERE clause.
func (w *Where) String() string {
	if len(w.Conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.Conditions, " AND ")
}

// In returns a condition that matches any of several values. It repeats the last value
// up to the next power of two, so that there are few distinct statements.
func In[T ~string | int64](w *Where, column string, values []T) string {
	size := 1
	for size < len(values) {
		size *= 2
	}
	var list strings.Builder
	list.WriteString(column)
	for i := range size {
		sign := ", "
		if i == 0 {
			sign = " IN ("
		}
		list.WriteString(sign)
		list.WriteString(w.Arg(plainOf(values[min(i, len(values)-1)])))
	}
	list.WriteByte(')')
	return list.String()
}

// plainOf converts a value into an argument of a type that both databases accept.
func plainOf[T ~string | int64](v T) any {
	if number, ok := any(v).(int64); ok {
		return number
	}
	return reflect.ValueOf(v).String()
}

// Page returns the ORDER BY and LIMIT clauses. A negative limit means none.
func (w *Where) Page(order string, offset, limit int) string {
	n := int64(limit)
	if limit < 0 {
		n = math.MaxInt64
	}
	// With a bare parameter, SQLite would read its value and prepare the statement again each time.
	return " ORDER BY " + order + " LIMIT CAST(" + w.Arg(n) + " AS bigint) OFFSET CAST(" + w.Arg(int64(max(0, offset))) + " AS bigint)"
}
