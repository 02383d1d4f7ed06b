// Package texts knows the lines that the tools of FoundationDB print, with what each says about the call and the
// source that it was read in.
//
//	known, match := texts.Find("exclude", "fdbcli", "7.3", printed)
//	if match == nil { … }                 // nobody has read this text
//	if known.Effect == texts.Denied { … } // for known.Reason
//
// Commands, tools and reasons are those of package fdb, by their values.
package texts

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Effect is what a line that a tool prints says about the call.
type Effect int

// The effects.
const (
	Beside  Effect = iota // nothing
	Done                  // it has happened
	Denied                // it has not happened
	Doubted               // it may have happened
)

// Text is one line that a tool prints. Texts are facts of the published source; where they differ by
// version, Lines says where they are printed.
type Text struct {
	Commands []string // empty: all commands of Tool
	Tool     string   // only where Commands is empty; empty: all tools
	Stderr   bool     // where it is printed; fdb.Judge reads it on either stream
	Format   string   // as the source has it, with its verbs, without line end
	Args     []string // what stands for the first verbs, where they are known
	Effect   Effect
	Reason   string
	Exit     int      // the exit code that goes with Done
	Open     bool     // the line may go on
	Source   string   // the file that has Format
	ArgFile  string   // the file that has Args[0]; empty: Source
	Lines    []string // major.minor; empty: all

	line *regexp.Regexp
}

// Lines are the versions whose texts are known, oldest first, and the releases at which they were
// read: some texts of 7.3 came or went between two of them.
var Lines = []struct {
	Line string
	Tags []string
}{
	{"7.1", []string{"7.1.67"}},
	{"7.3", []string{"7.3.27", "7.3.69", "7.3.79"}},
	{"7.4", []string{"7.4.6"}},
}

// All are all texts, those of single commands before those of any.
var All = sync.OnceValue(func() []Text {
	all := slices.Concat(excludeTexts, configureTexts, coordinatorTexts, cliTexts, backupTexts, restoreTexts, toolTexts)
	for i := range all {
		all[i].line = all[i].expression()
	}
	return all
})

// Find returns the text that a command of a tool has printed as a line, at major.minor, and what stands there for its
// verbs, behind the line itself; match is nil if there is none.
func Find(command, tool, line, printed string) (found Text, match []string) {
	for _, t := range All() {
		if t.prints(command, tool, line) {
			if match := t.line.FindStringSubmatch(printed); match != nil {
				return t, match
			}
		}
	}
	return Text{}, nil
}

// IsBeside reports whether fdbcli prints a line beside any command, and it says nothing about that.
func IsBeside(line string) bool {
	return slices.ContainsFunc(cliTexts, func(t Text) bool { return t.Effect == Beside && t.Tool == "fdbcli" && t.Format == line })
}

// verb is one of printf or of fmt, as FoundationDB uses them.
var verb = regexp.MustCompile(`%(?:zu|lld|[0-9.]*[sdf]|%)|\{[0-9]*\}`)

// expression matches a whole line of this format, without white space around it.
func (t Text) expression() *regexp.Regexp {
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
func (t Text) prints(command, tool, line string) bool {
	if len(t.Lines) > 0 && !slices.Contains(t.Lines, line) {
		return false
	}
	if len(t.Commands) > 0 {
		return slices.Contains(t.Commands, command)
	}
	return t.Tool == "" || t.Tool == tool
}
