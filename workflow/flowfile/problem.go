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
	Warning bool   `json:"warning,omitempty"` // worth a look; the file loads
}

// String is `file:line:column: message`.
func (p Problem) String() string {
	word := ""
	if p.Warning {
		word = "warning: "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, word, p.Message)
}

// Problems is every finding of a load, ordered by place. As an error it holds
// at least one that is no warning.
type Problems []Problem

// Error gives one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Errors gives the findings that are no warnings.
func (p Problems) Errors() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(p Problem) bool { return p.Warning })
}

// Warnings gives the findings that do not keep a file from loading.
func (p Problems) Warnings() Problems {
	return slices.DeleteFunc(slices.Clone(p), func(p Problem) bool { return !p.Warning })
}

// mark is a place in a file.
type position struct {
	file         string
	line, column int
}

// report collects problems. The same finding at the same place counts once:
// a group that is used ten times is wrong once.
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

// sorted gives the problems by file, line and column.
func (r *report) sorted() Problems {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return r.problems
}

// err is nil when there are only warnings.
func (r *report) err() error {
	if errors := r.sorted().Errors(); len(errors) > 0 {
		return errors
	}
	return nil
}

// hint is ` (did you mean x?)` for the candidate nearest to a name, if one is near.
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

// edits is the Levenshtein distance, or more than limit once that is certain.
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
