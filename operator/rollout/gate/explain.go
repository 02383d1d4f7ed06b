package gate

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"cel.dev/cel-go/parser"
)

const longest = 300 // bytes of an explanation

var comparisons = map[string]string{
	operators.Equals: "==", operators.NotEquals: "!=", operators.Less: "<", operators.LessEquals: "<=",
	operators.Greater: ">", operators.GreaterEquals: ">=",
}

// explain shows what an expression has seen: the values of both sides of the comparisons that made it
// what it is, such as `pods.filter(...).size() is 1`.
func explain(checked *cel.Ast, state interpreter.EvalState, result bool) string {
	e := explainer{ast: checked.NativeRep(), state: state}
	e.walk(e.ast.Expr(), result)
	text := strings.Join(e.seen, "; ")
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

type explainer struct {
	ast   *ast.AST
	state interpreter.EvalState
	seen  []string
}

func (e *explainer) walk(x ast.Expr, result bool) {
	if x.Kind() != ast.CallKind {
		return
	}
	call := x.AsCall()
	switch name := call.FunctionName(); name {
	case operators.LogicalNot:
		e.walk(call.Args()[0], !result)
	case operators.LogicalAnd, operators.LogicalOr:
		for _, side := range call.Args() { // those that decided
			if v, ok := e.state.Value(side.ID()); ok && v == types.Bool(result) {
				e.walk(side, result)
			}
		}
	default:
		if comparisons[name] == "" {
			return
		}
		for _, side := range call.Args() {
			if v, ok := e.state.Value(side.ID()); ok && side.Kind() != ast.LiteralKind {
				e.seen = append(e.seen, e.text(side)+" is "+show(v))
			}
		}
	}
}

func (e *explainer) text(x ast.Expr) string {
	text, err := parser.Unparse(x, e.ast.SourceInfo())
	if err != nil {
		return "it"
	}
	return text
}

func show(v ref.Val) string {
	if s, ok := v.Value().(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v.Value())
}
