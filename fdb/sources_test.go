package fdb

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb/internal/texts"
)

const sources = "sim/testdata/SOURCES.md"

const textsMark = "<!-- From here on: go test ./fdb -run TestSources -update -->\n"

// TestSources: the list of sources names every text and where it stands.
func TestSources(t *testing.T) {
	var list strings.Builder
	list.WriteString(textsMark + "\n## Texts of the tools\n\nRead at:")
	for _, l := range texts.Lines {
		fmt.Fprintf(&list, " %s (%s)", l.Line, strings.Join(l.Tags, ", "))
	}
	list.WriteString(". A text of no version named is the same in all.\n\n| file | text | stream | versions | says |\n|---|---|---|---|---|\n")
	var rows []string
	for _, known := range texts.All() {
		stream := "stdout"
		if known.Stderr {
			stream = "stderr"
		}
		format := known.Format
		if len(known.Args) > 0 {
			format += "` with `" + strings.Join(known.Args, "`, `")
			if known.ArgFile != "" && known.ArgFile != known.Source {
				format += "` of `" + known.ArgFile
			}
		}
		says := [...]string{"nothing", "ok", "refused", "unknown"}[known.Effect]
		if known.Reason != "" {
			says += " " + known.Reason
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | %s | %s | %s |\n", known.Source, strings.ReplaceAll(format, "|", `\|`), stream, strings.Join(known.Lines, ", "), says))
	}
	slices.Sort(rows)
	for _, row := range slices.Compact(rows) {
		list.WriteString(row)
	}
	file, err := os.ReadFile(sources)
	if err != nil {
		t.Fatal(err)
	}
	claims, _, ok := strings.Cut(string(file), textsMark)
	if !ok {
		t.Fatalf("%s has no line %q", sources, textsMark)
	}
	golden(t, sources, claims+list.String())
}

// TestTextsStandInTheSource reads the published source, where a person has it:
//
//	FDB_SOURCE=<git directory of apple/foundationdb> go test ./fdb -run TextsStand
func TestTextsStandInTheSource(t *testing.T) {
	repository := os.Getenv("FDB_SOURCE")
	if repository == "" {
		t.Skip("FDB_SOURCE names no git directory of apple/foundationdb")
	}
	files := map[string]string{}
	read := func(tag, path string) string {
		if path == "flow/error_definitions.h" || path == "flow/genericactors.actor.h" {
			if !strings.HasPrefix(tag, "7.1.") {
				path = strings.Replace(path, "flow/", "flow/include/flow/", 1)
			}
		}
		key := tag + ":" + path
		if _, ok := files[key]; !ok {
			content, err := exec.Command("git", "-C", repository, "show", key).Output()
			if err != nil {
				t.Fatalf("git show %s: %v", key, err)
			}
			files[key] = literals(string(content))
		}
		return files[key]
	}
	for _, known := range texts.All() {
		for _, l := range texts.Lines {
			if len(known.Lines) > 0 && !slices.Contains(known.Lines, l.Line) {
				continue
			}
			argFile := known.ArgFile
			if argFile == "" {
				argFile = known.Source
			}
			stands := slices.ContainsFunc(l.Tags, func(tag string) bool {
				return strings.Contains(read(tag, known.Source), known.Format) &&
					(len(known.Args) == 0 || strings.Contains(read(tag, argFile), known.Args[0]))
			})
			if !stands {
				t.Errorf("%s: %s does not have %q %q", l.Line, known.Source, known.Format, known.Args)
			}
		}
	}
}

var (
	literal  = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
	adjacent = regexp.MustCompile(`"[ \t\r\n]*"`)
	escape   = regexp.MustCompile(`\\(?:x[0-9a-f]{2}|.)`)
)

// literals are the string literals of a C++ source, adjacent ones joined, one a line.
func literals(source string) string {
	var found []string
	for _, text := range literal.FindAllString(adjacent.ReplaceAllString(source, ""), -1) {
		found = append(found, escape.ReplaceAllStringFunc(text[1:len(text)-1], func(e string) string {
			switch e[1] {
			case 'n':
				return "\n"
			case 'x':
				return e // as fdbcli prints a byte
			default:
				return e[1:]
			}
		}))
	}
	return strings.Join(found, "\n")
}
