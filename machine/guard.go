package machine

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// when evaluates a predicate. A nil predicate holds.
func when[T any](predicate func(T) (bool, error), obj T) (holds bool, err error) {
	if predicate == nil {
		return true, nil
	}
	defer panicError(&err)
	return predicate(obj)
}

// params evaluates parameters to JSON; nil without a function.
func params[T any](source func(T) (any, error), obj T) (_ json.RawMessage, err error) {
	if source == nil {
		return nil, nil
	}
	defer panicError(&err)
	value, err := source(obj)
	if err != nil || value == nil {
		return nil, err
	}
	return json.Marshal(value)
}

// panicError turns a panic into the fault PANIC.
func panicError(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		*err = fault.Panic.Errorf("%v", r).With("stack", string(stack[:min(len(stack), 16<<10)]))
	}
}

// camel turns the name of an event into a reason: switch-writer is SwitchWriter.
func camel(event string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(event, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// DidYouMean ends a message about an unknown word with the nearest known one.
func DidYouMean(word string, known []string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := edits(strings.ToLower(word), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// edits is the Levenshtein distance of two short words.
func edits(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return 100
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
