package pawl_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	page     = regexp.MustCompile("(?:^|[\\s(\"'`])([A-Za-z0-9_./-]+\\.md)\\b")
	record   = regexp.MustCompile(`\bADR (\d{4})\b`)
	numbered = regexp.MustCompile(`\.md,? (?:section )?\d|\bspec(?:ification)? \d+\.\d|\b(?:the order of|vectors of section|table of section) \d`)
)

// TestReferences: comments and documents cite pages and records that are in this repository.
func TestReferences(t *testing.T) {
	read := 0
	walk(t, func(file string) {
		file = filepath.ToSlash(file)
		if !slices.Contains([]string{".go", ".md", ".sh", ".sql", ".js", ".yml"}, path.Ext(file)) && path.Base(file) != "Makefile" {
			return
		}
		if file == "references_test.go" || file == "links_test.go" {
			return
		}
		read++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, dead := range deadReferences(path.Dir(file), line) {
				t.Errorf("%s:%d: %s", file, n+1, dead)
			}
		}
	})
	if read == 0 {
		t.Fatal("no file was read: the test looked in the wrong place")
	}
}

// deadReferences returns what is wrong with the citations of a line of a file in dir.
func deadReferences(dir, line string) []string {
	var dead []string
	for _, m := range page.FindAllStringSubmatch(line, -1) {
		if !slices.ContainsFunc([]string{dir, ".", "docs", "docs/guide", "docs/adr"}, func(from string) bool {
			_, err := os.Stat(filepath.FromSlash(path.Join(from, m[1])))
			return err == nil
		}) {
			dead = append(dead, fmt.Sprintf("%s is not in the repository: state the rule itself", m[1]))
		}
	}
	if m := numbered.FindString(line); m != "" {
		dead = append(dead, fmt.Sprintf("%q cites a section of a page that is not here: state the rule itself", m))
	}
	for _, m := range record.FindAllStringSubmatch(line, -1) {
		if found, _ := filepath.Glob("docs/adr/" + m[1] + "-*.md"); len(found) != 1 {
			dead = append(dead, fmt.Sprintf("there is no record %s in docs/adr", m[1]))
		}
	}
	return dead
}

func TestDeadReferences(t *testing.T) {
	for _, tt := range []struct {
		line string
		want int
	}{
		{"// The lease is renewed at a third (ADR 0081).", 0},
		{"// The lease is renewed at a third (ADR 9981).", 1},
		{"// A step is saved first (work" + "flow.md 2.8).", 2},
		{"// as docs/promises.md says", 0},
		{"// see operating.md", 0},
		{"// It stops at its limit (spec " + "9.8).", 1},
		{"// https://example.com/api-conventions.md#types", 0},
	} {
		if got := deadReferences("workflow", tt.line); len(got) != tt.want {
			t.Errorf("%s: %q, want %d", tt.line, got, tt.want)
		}
	}
}
