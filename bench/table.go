package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is a Markdown table that reads well as text too.
type table struct {
	head []string
	rows [][]string
	left []int // text columns; the others hold numbers
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.left, i) {
				fmt.Fprintf(&b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
	}
	line(t.head)
	for i, width := range widths {
		if slices.Contains(t.left, i) {
			b.WriteString("|" + strings.Repeat("-", width+2))
		} else {
			b.WriteString("|" + strings.Repeat("-", width+1) + ":")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// number formats a figure, with a comma between thousands; "–" for none.
func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := fmt.Sprintf(format, v)
	if format == "%v" {
		text = strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", v), "0"), ".")
	}
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	whole, fraction, found := strings.Cut(text, ".")
	var b strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if found {
		b.WriteString("." + fraction)
	}
	return sign + b.String()
}
