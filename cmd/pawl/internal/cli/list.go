package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/view"
)

// ParseCount reads a number that is not negative.
func ParseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err == nil && n < 0 {
		err = errors.New("it is negative")
	}
	return n, err
}

// Listed are the kinds of `pawl get` that are no objects.
var Listed = []string{"runs", "flows", "machines", "faults", "workers", "locks"}

// WatchEnded is the end of a watch: --timeout is an end as good as any.
func WatchEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	return err
}

// Drawing draws a result for people.
type Drawing = func(view.Style) string

// Fixed is a drawing of a text that is the same in all styles.
func Fixed(text string) Drawing { return func(view.Style) string { return text } }

// Printed is what a watch has printed last.
type Printed struct {
	rows  string
	begun bool
}

// Next returns the lines of a drawing that were not printed before; false: nothing has changed.
func (p *Printed) Next(draw Drawing, style view.Style) (string, bool) {
	text := draw(style)
	style.Color = false
	rows := withoutAge(draw(style))
	if p.begun && rows == p.rows {
		return "", false
	}
	p.begun = true
	text = newLines(p.rows, rows, text)
	p.rows = rows
	return text, true
}

// EmitList prints a list, for people as a table. empty stands in place of a table without rows; with "" its
// head is printed. Without name, -o name prints nothing.
func EmitList[T any](a *App, all []T, name func(T) string, empty string, columns []view.Column[T]) error {
	var names []string
	if name != nil {
		names = NamesOf(all, name)
	}
	return a.Emit(ListOf(all), names, func() string {
		if len(all) == 0 && empty != "" {
			return empty + "\n"
		}
		return view.TableOf(all, columns).Text(a.Style(a.Out))
	})
}

// withoutAge is a table without its times, which change by themselves.
func withoutAge(text string) string {
	lines := strings.Split(text, "\n")
	at := strings.Index(lines[0], "AGE")
	if at < 0 {
		return text
	}
	for i, line := range lines {
		runes := []rune(line)
		if len(runes) > at {
			end := at
			for end < len(runes) && runes[end] != ' ' {
				end++
			}
			lines[i] = string(runes[:at]) + string(runes[end:])
		}
	}
	return strings.Join(lines, "\n")
}

// newLines leaves out the lines of a text whose rows were printed before. Text and rows have the same lines.
func newLines(before, rows, text string) string {
	if before == "" {
		return text
	}
	known, fresh := strings.Split(before, "\n"), strings.Split(rows, "\n")
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if line != "" && !slices.Contains(known, fresh[i]) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Pages reads one page of a list, or the whole of it.
func Pages[T any](cursor string, whole bool, read func(cursor string) ([]T, string, error)) (all []T, next string, err error) {
	all = []T{}
	for next = cursor; ; {
		var page []T
		if page, next, err = read(next); err != nil {
			return nil, "", err
		}
		all = append(all, page...)
		if !whole || next == "" {
			return all, next, nil
		}
	}
}

// list is a list in the answer of a verb.
type list[T any] struct {
	Items []T `json:"items"`
}

// ListOf returns a list that is [] if it is empty.
func ListOf[T any](items []T) list[T] {
	if items == nil {
		items = []T{}
	}
	return list[T]{items}
}

// NamesOf are what -o name prints.
func NamesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	return names
}

// CountText is a number with its noun.
func CountText(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Suggest ends a message about an unknown word with the nearest known one.
func Suggest(word string, known []string) string { return machine.DidYouMean(word, known) }
