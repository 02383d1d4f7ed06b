package pawl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	rule     = regexp.MustCompile(`(?m)^\*\*([A-Z]+)-(\d+)\*\* `)
	ruleCite = regexp.MustCompile(`\b(RUN|STORE|FILE|MACHINE|CONTROL|CHAIN|OPERATOR|LOCK|CLUSTER|PROVIDER|HTTP|QUERY|STORAGE|CLI)-(\d+)\b`)
	holds    = regexp.MustCompile("`((?:[a-z]+\\.)?(?:Test|Fuzz|Run)[A-Za-z0-9]*)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Run)[A-Za-z0-9]*)\(`)
)

// The rules of docs/reference are numbered without gaps, each is held by a test that
// exists, and every citation of a rule finds it.
func TestReference(t *testing.T) {
	tests := testsOfRepository(t)
	pages, err := filepath.Glob("docs/reference/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	last := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		at := rule.FindAllStringSubmatchIndex(string(text), -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			family, body := string(text[m[2]:m[3]]), string(text[m[1]:end])
			number, _ := strconv.Atoi(string(text[m[4]:m[5]]))
			if last[family]++; number != last[family] {
				t.Errorf("%s: %s-%d stands where %s-%d is due", page, family, number, family, last[family])
			}
			_, named, _ := strings.Cut(body, "Tests:")
			held := holds.FindAllStringSubmatch(named, -1)
			if len(held) == 0 {
				t.Errorf("%s: %s-%d names no test", page, family, number)
			}
			for _, one := range held {
				if !tests[one[1]] {
					t.Errorf("%s: %s-%d: there is no test %s", page, family, number, one[1])
				}
			}
		}
	}
	walk(t, func(file string) {
		switch filepath.Ext(file) {
		case ".go", ".md":
		default:
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ruleCite.FindAllStringSubmatch(string(text), -1) {
			if number, _ := strconv.Atoi(m[2]); number < 1 || number > last[m[1]] {
				t.Errorf("%s: there is no rule %s", file, m[0])
			}
		}
	})
}

// testsOfRepository returns the names of all tests and fuzz tests, and of the Run of
// each conformance suite as package.Run.
func testsOfRepository(t *testing.T) map[string]bool {
	tests := map[string]bool{}
	walk(t, func(file string) {
		if filepath.Ext(file) != ".go" {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "Run" {
				m[1] = filepath.Base(filepath.Dir(file)) + ".Run"
			}
			tests[m[1]] = true
		}
	})
	return tests
}
