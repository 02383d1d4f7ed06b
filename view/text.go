package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Style configures the text. The zero Style is without color, in UTC.
type Style struct {
	Color  bool
	Zone   *time.Location // of times of day; nil: UTC
	Width  int            // lines are cut to it; 0: never
	Height int            // maximum lines of a tree; 0: no limit
	Wide   bool           // tables show their wide columns
}

// none is the text of an empty cell.
const none = "–"

type color string

const (
	plain  color = ""
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	dim    color = "2"
	bold   color = "1"
)

func (s Style) paint(c color, text string) string {
	if !s.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Bold returns a heading.
func (s Style) Bold(text string) string { return s.paint(bold, text) }

func (s Style) clock(t time.Time, layout string) string {
	if s.Zone == nil {
		return t.UTC().Format(layout)
	}
	return t.In(s.Zone).Format(layout)
}

// cut shortens a line to the style's width. It is called before painting.
func (s Style) cut(line string) string {
	if s.Width <= 0 || utf8.RuneCountInString(line) <= s.Width {
		return line
	}
	return string([]rune(line)[:max(s.Width-1, 0)]) + "…"
}

// noBreak is a space at which no line is broken.
const noBreak = "\u00a0"

// Wrap breaks a text into lines of the style's width, all of which begin with indent. Without a width it is one line.
// A command at its end (see Remedy) stays on one line if it fits.
func (s Style) Wrap(indent, text string) []string {
	text = oneLine(text)
	if before, command, ok := strings.Cut(text, "then: pawl "); ok {
		text = before + "then: " + strings.ReplaceAll("pawl "+command, " ", noBreak)
	}
	if width := s.Width - utf8.RuneCountInString(indent); s.Width > 0 {
		text = ansi.Wrap(text, max(width, 8), "")
	}
	lines := strings.Split(strings.ReplaceAll(text, noBreak, " "), "\n")
	for i, line := range lines {
		lines[i] = indent + line
	}
	return lines
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// Took formats a duration: 0.1s, 31s, 4m12s, 3h04m, 2d05h.
func Took(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", max(d, 0).Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Age formats a duration in its largest unit: 42s, 3m, 5h, 12d.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// span formats a configured duration without zero units: 24h, 10m, 1m30s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// until formats the time until an instant: "in 7m", or "now" if it has passed.
func until(at, now time.Time) string {
	d := at.Sub(now)
	if d <= 0 {
		return "now"
	}
	if d < time.Second {
		return fmt.Sprintf("in %.1fs", max(d, 100*time.Millisecond).Seconds())
	}
	return "in " + Age(d)
}

// minShort is the minimum number of characters of a short id.
const minShort = 4

// Short returns the shortest prefix of an id, of four characters or more, that differs
// from the prefixes of the other ids.
func Short(id string, others ...string) string {
	n := minShort
	for _, other := range others {
		if other == id {
			continue
		}
		same := 0
		for same < len(id) && same < len(other) && id[same] == other[same] {
			same++
		}
		n = max(n, same+1)
	}
	return id[:min(n, len(id))]
}

// oneLine replaces white space by single spaces, so that a message never breaks a table.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Indent puts a prefix before each line of a text.
func Indent(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		b.WriteString(strings.TrimRight(prefix+line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// join joins the parts that are not empty.
func join(sep string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}

// labeled puts a name before a value; "" without a value.
func labeled(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// versionText is the version of a flow; "" if its file states none.
func versionText(version int) string {
	if version == 0 {
		return ""
	}
	return strconv.Itoa(version)
}
