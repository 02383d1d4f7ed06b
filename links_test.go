package pawl_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6}[ \t]+(.+?)[ \t#]*$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// Every relative link in a Markdown file points to an existing file and heading.
func TestLinks(t *testing.T) {
	pages := 0
	walk(t, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		pages++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, dead := range deadLinks(os.DirFS("."), filepath.ToSlash(file), string(text)) {
			t.Errorf("%s: %s", file, dead)
		}
	})
	if pages == 0 {
		t.Fatal("no Markdown file was found: the test looked in the wrong place")
	}
}

// walk visits the files of the repository.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "testdata"}, d.Name()):
			return fs.SkipDir
		case !d.IsDir():
			visit(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deadLinks returns one sentence for each broken relative link of a page.
func deadLinks(root fs.FS, page, text string) []string {
	var dead []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
		target, err := url.Parse(m[1])
		if err != nil || target.Scheme != "" || target.Host != "" {
			continue
		}
		file, body := page, text
		if target.Path != "" {
			file = path.Join(path.Dir(page), target.Path)
			if _, err := fs.Stat(root, file); err != nil {
				dead = append(dead, "the link "+m[1]+" leads to no file")
				continue
			}
			read, _ := fs.ReadFile(root, file)
			body = string(read)
		}
		if target.Fragment != "" && path.Ext(file) == ".md" && !slices.Contains(slugs(body), target.Fragment) {
			dead = append(dead, "the link "+m[1]+" leads to no heading of "+file)
		}
	}
	return dead
}

// slugs returns the anchors of the headings of a Markdown page.
func slugs(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// TestRecordsAreListed: docs/adr/README.md leads to every record.
func TestRecordsAreListed(t *testing.T) {
	records, err := filepath.Glob("docs/adr/[0-9]*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	index, err := os.ReadFile("docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if !strings.Contains(string(index), "("+filepath.Base(record)+")") {
			t.Errorf("docs/adr/README.md does not list %s", record)
		}
	}
}

func TestDeadLinks(t *testing.T) {
	const page = "# Start here\n\n## Words, and `more`\n"
	for text, want := range map[string]int{
		"[a](README.md) [b](docs/a.md) [c](docs) [d](https://example.com/x.md)": 0,
		"[a](docs/absent.md)":                        1,
		"[a](README.md#start-here) [b](#own)\n# Own": 0,
		"[a](README.md#words-and-more)":              0,
		"[a](README.md#nowhere)":                     1,
		"`[a](absent.md)`\n```\n[a](absent.md)\n```": 0,
		"![a](absent.svg)":                           1,
	} {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"README.md", "docs/a.md"} {
				if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(page), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := deadLinks(os.DirFS(dir), "index.md", text); len(got) != want {
				t.Errorf("want %d dead links, got %q", want, got)
			}
		})
	}
}
