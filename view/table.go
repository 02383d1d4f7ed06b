package view

import (
	"strings"
	"unicode/utf8"
)

// Column is a column of a table of items.
type Column[T any] struct {
	Head   string
	Wide   bool // only with -o wide
	Cell   func(T) string
	Health func(T) Health // colors the cell on a terminal; nil: no color
}

// Table is a table of text.
type Table struct {
	heads []head
	rows  [][]cell
}

type head struct {
	text string
	wide bool
}

type cell struct {
	text   string
	health Health
}

// TableOf returns a table with a row for each item.
func TableOf[T any](items []T, columns []Column[T]) Table {
	t := Table{heads: make([]head, len(columns)), rows: make([][]cell, len(items))}
	for i, c := range columns {
		t.heads[i] = head{c.Head, c.Wide}
	}
	for i, item := range items {
		t.rows[i] = make([]cell, len(columns))
		for j, c := range columns {
			t.rows[i][j].text = c.Cell(item)
			if c.Health != nil {
				t.rows[i][j].health = c.Health(item)
			}
		}
	}
	return t
}

// Len is the number of rows.
func (t Table) Len() int { return len(t.rows) }

// Text returns the head and the rows, with two spaces between columns and none at the end of lines.
func (t Table) Text(style Style) string {
	all := make([][]cell, 0, len(t.rows)+1)
	heads := make([]cell, len(t.heads))
	for i, h := range t.heads {
		heads[i].text = h.text
	}
	for _, row := range append([][]cell{heads}, t.rows...) {
		var shown []cell
		for i, c := range row {
			if style.Wide || !t.heads[i].wide {
				shown = append(shown, c)
			}
		}
		all = append(all, shown)
	}
	return strings.Join(align(all, style), "\n") + "\n"
}

// lines are those of Text; none if there are no rows.
func (t Table) lines(style Style) []string {
	if t.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(t.Text(style), "\n"), "\n")
}

// section returns the table below a title, indented; "" if it has no rows.
func (t Table) section(title string, style Style) string {
	if t.Len() == 0 {
		return ""
	}
	return "\n" + style.Bold(title) + "\n" + Indent(t.Text(style), "  ")
}

// columns aligns rows of plain text.
func columns(rows [][]string) []string {
	all := make([][]cell, len(rows))
	for i, row := range rows {
		for _, text := range row {
			all[i] = append(all[i], cell{text: text})
		}
	}
	return align(all, Style{})
}

// align pads all cells but the last of a row to the width of their column, which colors do not count in.
func align(rows [][]cell, style Style) []string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	out := make([]string, len(rows))
	for r, row := range rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(style.Health(c.health, c.text))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		}
		out[r] = strings.TrimRight(b.String(), " ")
	}
	return out
}
