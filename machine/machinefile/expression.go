package machinefile

import (
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/celenv"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return celenv.New(
		cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("old", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("now", cel.TimestampType),
	)
})

// expression is a checked CEL program.
type expression struct {
	source  string
	program cel.Program
	reads   paths // of object and old
}

// expression compiles the CEL of a scalar node; nil after an error.
func (c *compiler) expression(n *yaml.Node, what string, wants *cel.Type) *expression {
	if n.Kind != yaml.ScalarNode || plain.IsNull(n) {
		c.d.add(c.d.mark(n), "%s must be an expression, not %s", what, plain.Kind(n))
		return nil
	}
	env, err := environment()
	if err != nil {
		panic(err) // the options above are constant
	}
	if len(n.Value) > celenv.MaxLength {
		c.d.add(c.d.mark(n), "%s: the expression is longer than %d bytes", what, celenv.MaxLength)
		return nil
	}
	checked, issues := env.Compile(n.Value)
	if issues.Err() != nil {
		for _, one := range issues.Errors() {
			c.d.add(inside(c.d.mark(n), n, one.Location.Line(), one.Location.Column()), "%s: %s", what, celenv.Message(one.Message))
		}
		return nil
	}
	if kind := checked.OutputType(); wants != nil && !kind.IsExactType(wants) && !kind.IsExactType(cel.DynType) {
		c.d.add(c.d.mark(n), "%s: it returns %s, not %s", what, kind, wants)
		return nil
	}
	program, err := celenv.Program(env, checked)
	if err != nil {
		c.d.add(c.d.mark(n), "%s: %s", what, celenv.Message(err.Error()))
		return nil
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			c.out.Old = c.out.Old || e.AsIdent() == "old"
			c.out.Clock = c.out.Clock || e.AsIdent() == "now"
		}
	}))
	return &expression{n.Value, program, readsOf(checked.NativeRep().Expr())}
}

// inside is a place within an expression, as far as it can be told.
func inside(at mark, n *yaml.Node, line, column int) mark {
	switch style := n.Style &^ yaml.TaggedStyle; {
	case strings.Contains(n.Value, "\n"), line != 1:
	case style == 0:
		at.column += column
	case style == yaml.SingleQuotedStyle, style == yaml.DoubleQuotedStyle:
		at.column += column + 1
	}
	return at
}

func (x *expression) eval(s *machine.Subject) (ref.Val, error) {
	object, old, err := s.Values()
	if err != nil {
		return nil, err
	}
	value, _, err := x.program.Eval(map[string]any{"object": object, "old": old, "now": s.Now})
	if err != nil {
		return nil, workflow.ExpressionFailed.Errorf("%s: %s", x.source, celenv.Message(err.Error()))
	}
	return value, nil
}

func (x *expression) holds(s *machine.Subject) (bool, error) {
	value, err := x.eval(s)
	if err != nil {
		return false, err
	}
	yes, ok := value.Value().(bool)
	if !ok {
		return false, workflow.ExpressionFailed.Errorf("%s: it returns %s, not true or false", x.source, value.Type().TypeName())
	}
	return yes, nil
}

func (x *expression) value(s *machine.Subject) (any, error) {
	value, err := x.eval(s)
	if err != nil {
		return nil, err
	}
	stored, err := plain.Of(value)
	if err != nil {
		return nil, workflow.ExpressionFailed.Errorf("%s: %w", x.source, err)
	}
	return stored, nil
}
