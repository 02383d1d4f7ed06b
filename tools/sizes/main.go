// Command sizes prints how large packages and receivers are.
//
//	go -C tools run ./sizes            # from the root of the repository: make sizes
//
// It reads all Go files of all modules, without tests and generated files.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

const shown = 8 // rows of each table

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	sizes, err := measure(os.DirFS(root))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
	fmt.Print(sizes)
}

// sizes counts by package folder, or by folder and receiver.
type sizes struct {
	files, exported, methods map[string]int
	lines                    int // Go lines without tests and generated files
	contextValues            int // calls of context.WithValue
	untyped                  int // uses of map[string]any
}

func measure(tree fs.FS) (*sizes, error) {
	s := &sizes{files: map[string]int{}, exported: map[string]int{}, methods: map[string]int{}}
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		return s.add(file, text)
	})
	return s, err
}

func (s *sizes) add(file string, text []byte) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(syntax) {
		return nil
	}
	dir := filepath.ToSlash(filepath.Dir(file))
	s.files[dir]++
	s.lines += bytes.Count(text, []byte("\n"))
	s.contextValues += bytes.Count(text, []byte("context.WithValue("))
	s.untyped += bytes.Count(text, []byte("map[string]any"))
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				s.methods[dir+"."+receiver(d.Recv.List[0].Type)]++
			} else if d.Name.IsExported() {
				s.exported[dir]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s.exported[dir] += exported(spec)
			}
		}
	}
	return nil
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

func exported(spec ast.Spec) int {
	n := 0
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() {
			n++
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}

func (s *sizes) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	table := func(title string, counts map[string]int) {
		fmt.Fprintf(w, "%s\t\n", title)
		names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
			if counts[a] != counts[b] {
				return counts[b] - counts[a]
			}
			return strings.Compare(a, b)
		})
		for _, name := range names[:min(len(names), shown)] {
			fmt.Fprintf(w, "  %s\t%d\n", name, counts[name])
		}
	}
	table("methods on one receiver", s.methods)
	table("files in one package", s.files)
	table("exported names of one package", s.exported)
	fmt.Fprintf(w, "lines of Go\t%d\ncontext.WithValue\t%d\nmap[string]any\t%d\n", s.lines, s.contextValues, s.untyped)
	_ = w.Flush()
	return out.String()
}
