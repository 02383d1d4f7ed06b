package sqlstore

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// where collects conditions and their arguments.
type where struct {
	conditions []string
	args       []any
}

// clone returns a copy to which conditions can be added.
func (w *where) clone() where { return where{slices.Clone(w.conditions), slices.Clone(w.args)} }

// and adds a condition; each ? in it is the next argument.
func (w *where) and(condition string, args ...any) {
	for _, arg := range args {
		condition = strings.Replace(condition, "?", w.arg(arg), 1)
	}
	w.conditions = append(w.conditions, condition)
}

func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

// String returns the WHERE clause.
func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// in returns a condition that matches any of several values. It repeats the last value
// up to the next power of two, so that there are few distinct statements.
func in[T ~string | int64](w *where, column string, values []T) string {
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
		list.WriteString(w.arg(plainOf(values[min(i, len(values)-1)])))
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

// page returns the ORDER BY and LIMIT clauses. A negative limit means none.
func (w *where) page(order string, offset, limit int) string {
	n := int64(limit)
	if limit < 0 {
		n = math.MaxInt64
	}
	// With a bare parameter, SQLite would read its value and prepare the statement again each time.
	return " ORDER BY " + order + " LIMIT CAST(" + w.arg(n) + " AS bigint) OFFSET CAST(" + w.arg(int64(max(0, offset))) + " AS bigint)"
}
