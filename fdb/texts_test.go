package fdb

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/pawl-dev/pawl/fdb/internal/texts"
)

// The texts name commands, tools and reasons by their values.
func TestTextsNameWhatIsDeclared(t *testing.T) {
	declared := map[string]map[string]bool{"Command": {}, "Tool": {}, "Reason": {"": true}}
	for _, file := range []string{"call.go", "result.go"} {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			kind, _ := v.Type.(*ast.Ident)
			value, _ := v.Values[0].(*ast.BasicLit)
			if kind != nil && value != nil && declared[kind.Name] != nil {
				text, _ := strconv.Unquote(value.Value)
				declared[kind.Name][text] = true
			}
			return true
		})
	}
	for _, known := range texts.All() {
		for _, c := range known.Commands {
			if !declared["Command"][c] {
				t.Errorf("%q: there is no command %q", known.Format, c)
			}
		}
		if known.Tool != "" && !declared["Tool"][known.Tool] {
			t.Errorf("%q: there is no tool %q", known.Format, known.Tool)
		}
		if !declared["Reason"][known.Reason] {
			t.Errorf("%q: there is no reason %q", known.Format, known.Reason)
		}
	}
}
