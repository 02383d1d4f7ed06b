package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/machine"
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
var Listed = []string{"runs", "flows", "machines", "faults"}

// WatchEnded is the end of a watch: --timeout is an end as good as any.
func WatchEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	return err
}

// WithoutAge is a table without its times, which change by themselves.
func WithoutAge(text string) string {
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

// NewLines leaves out the rows that were printed before.
func NewLines(before, text string) string {
	if before == "" {
		return text
	}
	known := strings.Split(before, "\n")
	rendered := strings.Split(WithoutAge(text), "\n")
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if line != "" && !slices.Contains(known, rendered[i]) {
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
