package pawl_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// counted holds the number of entries of each kind in docs/promises.md.
var counted = map[string]int{"promise": 12, "defect": 32, "finding": 29, "flaw": 21}

// untested holds the entries without a test: the migration guide is prose.
var untested = []string{"finding 27"}

// TestEveryPromiseHasATest: a test names each promise, each defect of the previous engine,
// each finding of the first attack and each flaw of FoundationDB operators in use in
// docs/promises.md: as TestPromise5…, TestDefect17…, or as "finding 5", "defects 9, 20" in a
// comment.
func TestEveryPromiseHasATest(t *testing.T) {
	named := regexp.MustCompile(`(?i)\b(?:test)?(promise|defect|finding|flaw)s?[ _]?((?:\d+(?:, | and )?)+)`)
	number := regexp.MustCompile(`\d+`)
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() != "." && strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") && !strings.HasSuffix(path, ".mjs") && !strings.Contains(path, "test/") || strings.HasSuffix(path, "promises_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			for _, n := range number.FindAllString(m[2], -1) {
				key := strings.ToLower(m[1]) + " " + n
				found[key] = append(found[key], path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, count := range counted {
		for n := range count {
			if key := fmt.Sprintf("%s %d", what, n+1); found[key] == nil && !slices.Contains(untested, key) {
				t.Errorf("no test names %s (see docs/promises.md)", key)
			}
		}
	}
	for key := range found {
		what, n, _ := strings.Cut(key, " ")
		if i, err := strconv.Atoi(n); err == nil && i > counted[what] {
			t.Errorf("%s is none of the list in docs/promises.md: %v", key, found[key])
		}
	}
}
