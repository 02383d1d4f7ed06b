package flowfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one finding in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"` // the file loads all the same
}

// String is `file:line:column: message`.
func (p Problem) String() string {
	word := ""
	if p.Warning {
		word = "warning: "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, word, p.Message)
}

// Problems lists the findings of a load, ordered by position. As an error it contains at least one
// that is not a warning.
type Problems []Problem

// Error returns one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the findings that are not warnings.
func (p Problems) Errors() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(p Problem) bool { return p.Warning })
}

// Warnings returns the findings that do not prevent a load.
func (p Problems) Warnings() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(p Problem) bool { return !p.Warning })
}

// position is a position in a file.
type position struct {
	file         string
	line, column int
}

// report collects problems. It keeps the same finding at the same position only once, because a
// group may be used many times.
type report struct {
	problems Problems
	seen     map[Problem]bool
}

func (r *report) add(at position, warning bool, format string, args ...any) {
	p := Problem{File: at.file, Line: max(at.line, 1), Column: max(at.column, 1), Message: fmt.Sprintf(format, args...), Warning: warning}
	p.Message = strings.ReplaceAll(p.Message, "\n", " ")
	if r.seen == nil {
		r.seen = map[Problem]bool{}
	}
	if !r.seen[p] {
		r.seen[p] = true
		r.problems = append(r.problems, p)
	}
}

func (r *report) errorf(at position, format string, args ...any) { r.add(at, false, format, args...) }

func (r *report) warnf(at position, format string, args ...any) { r.add(at, true, format, args...) }

// sorted returns the problems by file, line and column.
func (r *report) sorted() Problems {
	r.problems.Sort()
	return r.problems
}

// err returns nil if there are only warnings.
func (r *report) err() error {
	if errors := r.sorted().Errors(); len(errors) > 0 {
		return errors
	}
	return nil
}

// hint returns ` (did you mean x?)` for the candidate that is most similar to a name; "" if none is
// similar.
func hint(name string, candidates []string) string {
	best, distance := "", len(name)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if c == name {
			continue
		}
		if strings.EqualFold(c, name) {
			return " (did you mean " + c + "?)"
		}
		if d := edits(strings.ToLower(name), strings.ToLower(c), distance); d <= distance && (best == "" || d < distance) {
			best, distance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// edits returns the Levenshtein distance, or a number above limit as soon as the distance exceeds
// it.
func edits(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
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
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Sort sorts the findings by file, line, column and message.
func (p Problems) Sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
}
