package pawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The functions that docs/walks.md names exist.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile("docs/walks.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	walk(t, func(file string) {
		file = filepath.ToSlash(file)
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[path.Dir(file)+"."+receiver(f)+f.Name.Name] = true
			}
		}
	})
	named := regexp.MustCompile("(?m)^\\| `([a-z/]+\\.[A-Za-z.]+)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Fatalf("docs/walks.md names %d functions: it was not read", len(named))
	}
	for _, m := range named {
		if !declared[m[1]] {
			t.Errorf("docs/walks.md: there is no function %s", m[1])
		}
	}
}

// receiver is the type of a method with a dot behind it; empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}
