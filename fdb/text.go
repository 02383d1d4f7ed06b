package fdb

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// effect is what a line that a tool prints says about the call.
type effect int

const (
	beside  effect = iota // nothing
	done                  // it has happened
	denied                // it has not happened
	doubted               // it may have happened
)

// text is one line that a tool prints. Texts are facts of the published source; where they differ by
// version, Lines says where they are printed.
type text struct {
	Commands []Command // empty: all commands of Tool
	Tool     Tool      // only where Commands is empty; empty: all tools
	Stderr   bool      // where it is printed; Judge reads it on either stream
	Format   string    // as the source has it, with its verbs, without line end
	Args     []string  // what stands for the first verbs, where they are known
	Effect   effect
	Reason   Reason
	Exit     int      // the exit code that goes with done
	Open     bool     // the line may go on
	Source   string   // the file that has Format
	ArgFile  string   // the file that has Args[0]; empty: Source
	Lines    []string // major.minor; empty: all
}

// textLines are the versions whose texts are known, oldest first, and the releases at which they were
// read: some texts of 7.3 came or went between two of them.
var textLines = []struct {
	Line string
	Tags []string
}{
	{"7.1", []string{"7.1.67"}},
	{"7.3", []string{"7.3.27", "7.3.69", "7.3.79"}},
	{"7.4", []string{"7.4.6"}},
}

// TextLine is the major.minor whose texts Judge uses for a version: its own, or the newest that is not
// newer, or else the oldest. known is false for a version whose texts nobody has read.
func TextLine(v Version) (line string, known bool) {
	line = textLines[0].Line
	for _, l := range textLines {
		if l.Line == v.Short() {
			return l.Line, true
		}
		if at, err := ParseVersion(l.Line + ".0"); err == nil && at.Compare(v) < 0 {
			line = l.Line
		}
	}
	return line, false
}

// compiled is a text with the expression of its line.
type compiled struct {
	text
	line *regexp.Regexp
}

// allTexts are all texts, those of single commands before those of any.
var allTexts = sync.OnceValue(func() []compiled {
	all := slices.Concat(excludeTexts, configureTexts, coordinatorTexts, cliTexts, backupTexts, restoreTexts, toolTexts)
	list := make([]compiled, len(all))
	for i, t := range all {
		list[i] = compiled{text: t, line: t.expression()}
	}
	return list
})

// verb is one of printf or of fmt, as FoundationDB uses them.
var verb = regexp.MustCompile(`%(?:zu|lld|[0-9.]*[sdf]|%)|\{[0-9]*\}`)

// expression matches a whole line of this format, without white space around it.
func (t text) expression() *regexp.Regexp {
	var b strings.Builder
	args := t.Args
	b.WriteString(`^`)
	rest := strings.TrimSpace(t.Format)
	for rest != "" {
		at := verb.FindStringIndex(rest)
		if at == nil {
			break
		}
		b.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		switch v := rest[at[0]:at[1]]; {
		case v == "%%":
			b.WriteString(`%`)
		case len(args) > 0:
			b.WriteString(regexp.QuoteMeta(args[0]))
			args = args[1:]
		case v == "%s" || v[0] == '{':
			b.WriteString(`(.+?)`)
		default:
			b.WriteString(`(-?[0-9.]+)`)
		}
		rest = rest[at[1]:]
	}
	b.WriteString(regexp.QuoteMeta(rest))
	if !t.Open {
		b.WriteString(`$`)
	}
	return regexp.MustCompile(b.String())
}

// prints reports whether a command prints the text at a version.
func (t text) prints(c Command, line string) bool {
	if len(t.Lines) > 0 && !slices.Contains(t.Lines, line) {
		return false
	}
	if len(t.Commands) > 0 {
		return slices.Contains(t.Commands, c)
	}
	return t.Tool == "" || t.Tool == c.tool()
}
