package pawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A retired word is a row of the table "Retired words" in docs/glossary.md:
//
//	| ledger | store | everywhere |
//	| medium | backend | lock, store/sql |
type retiredWord struct {
	word, use string
	packages  []string // folders, with what is below them; none: everywhere
}

// TestRetiredWords holds identifiers, file names and the headings of the guide to the glossary.
func TestRetiredWords(t *testing.T) {
	page, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	retired := retiredWords(string(page))
	if len(retired) < 40 {
		t.Fatalf("docs/glossary.md has %d retired words: the table was not read", len(retired))
	}
	walk(t, func(file string) {
		file = filepath.ToSlash(file)
		report := func(at, name string) {
			for _, r := range retiredIn(retired, path.Dir(file), name) {
				t.Errorf("%s: %s: %q is retired, use %s (docs/glossary.md)", at, name, r.word, r.use)
			}
		}
		switch {
		case path.Ext(file) == ".go":
			report(file, strings.TrimSuffix(path.Base(file), ".go"))
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files := token.NewFileSet()
			syntax, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range declaredNames(syntax) {
				report(files.Position(name.Pos()).String(), name.Name)
			}
		case strings.HasPrefix(file, "docs/guide/") && path.Ext(file) == ".md":
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
				report(file, code.ReplaceAllString(h[1], ""))
			}
		}
	})
}

var retiredRow = regexp.MustCompile(`(?m)^\| ([a-z0-9, ]+) \| ([^|]+) \| ([^|]+) \|$`)

// retiredWords reads the table.
func retiredWords(page string) []retiredWord {
	_, table, _ := strings.Cut(page, "\n## Retired words\n")
	var out []retiredWord
	for _, row := range retiredRow.FindAllStringSubmatch(table, -1) {
		if row[1] == "word" {
			continue
		}
		var packages []string
		if row[3] != "everywhere" {
			packages = strings.Split(row[3], ", ")
		}
		for word := range strings.SplitSeq(row[1], ", ") {
			out = append(out, retiredWord{word: word, use: row[2], packages: packages})
		}
	}
	return out
}

// retiredIn returns the retired words among the words of a name.
func retiredIn(retired []retiredWord, dir, name string) []retiredWord {
	words := wordsOf(name)
	return slices.DeleteFunc(slices.Clone(retired), func(r retiredWord) bool {
		here := r.packages == nil || slices.ContainsFunc(r.packages, func(p string) bool {
			return dir == p || strings.HasPrefix(dir, p+"/")
		})
		return !here || !slices.Contains(words, r.word)
	})
}

// wordsOf splits camel case, snake case and sentences into words in lower case.
func wordsOf(name string) []string {
	runes := []rune(name)
	separate := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	var words []string
	start := 0
	for i := 1; i <= len(runes); i++ {
		end := i == len(runes) || separate(runes[i]) || separate(runes[i-1]) ||
			unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if end {
			if word := string(runes[start:i]); !separate([]rune(word)[0]) {
				words = append(words, strings.ToLower(word))
			}
			start = i
		}
	}
	return words
}

// declaredNames returns the identifiers that a file declares, locals and parameters included.
func declaredNames(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	add := func(of ...*ast.Ident) { names = append(names, of...) }
	defined := func(tok token.Token, exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok && tok == token.DEFINE {
				add(id)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			defined(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			defined(n.Tok, n.Key, n.Value)
		case *ast.LabeledStmt:
			add(n.Label)
		}
		return true
	})
	return names
}

func TestRetiredWordIsFound(t *testing.T) {
	retired := retiredWords("# Words\n| ledger | book | everywhere |\n\n## Retired words\n\n| word | use | where |\n|---|---|---|\n" +
		"| hello, hellos | heartbeat | everywhere |\n| medium | backend | store/sql |\n")
	for _, tt := range []struct {
		dir, name string
		want      []string
	}{
		{"cluster", "flushHellos", []string{"hellos"}},
		{"cluster", "HelloAt", []string{"hello"}},
		{"cluster", "othello", nil},
		{"cluster", "openMedium", nil},
		{"store/sql", "pgMedium", []string{"medium"}},
		{"store/sql/pgtest", "medium_test", []string{"medium"}},
		{"docs/guide", "Say hello to a node", []string{"hello"}},
		{"cluster", "URLMedium2", nil},
		{"cluster", "ledger", nil},
	} {
		var got []string
		for _, r := range retiredIn(retired, tt.dir, tt.name) {
			got = append(got, r.word)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s in %s: %q, want %q", tt.name, tt.dir, got, tt.want)
		}
	}
}
