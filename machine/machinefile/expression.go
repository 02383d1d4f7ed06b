package machinefile

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of expressions, those of flow files.
const (
	costLimit  = 100_000
	longestCEL = 8 << 10
)

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.Strings(), ext.Math(), ext.Lists(), ext.Sets(), ext.Encoders(), ext.TwoVarComprehensions(),
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.EnableIdentifierEscapeSyntax(), cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(64), cel.ParserExpressionSizeLimit(longestCEL),
		cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("old", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("now", cel.TimestampType),
	)
})

// expression is a checked CEL program.
type expression struct {
	source  string
	program cel.Program
}

// expression compiles the CEL of a scalar node; nil after an error.
func (c *compiler) expression(n *yaml.Node, what string, wants *cel.Type) *expression {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		c.d.add(c.d.mark(n), "%s must be an expression, not %s", what, kindOf(n))
		return nil
	}
	env, err := environment()
	if err != nil {
		panic(err) // the options above are constant
	}
	if len(n.Value) > longestCEL {
		c.d.add(c.d.mark(n), "%s: the expression is longer than %d bytes", what, longestCEL)
		return nil
	}
	checked, issues := env.Compile(n.Value)
	if issues.Err() != nil {
		for _, one := range issues.Errors() {
			c.d.add(inside(c.d.mark(n), n, one.Location.Line(), one.Location.Column()), "%s: %s", what, tidy(one.Message))
		}
		return nil
	}
	if kind := checked.OutputType(); wants != nil && !kind.IsExactType(wants) && !kind.IsExactType(cel.DynType) {
		c.d.add(c.d.mark(n), "%s: it gives %s, not %s", what, kind, wants)
		return nil
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit))
	if err != nil {
		c.d.add(c.d.mark(n), "%s: %s", what, tidy(err.Error()))
		return nil
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			c.out.Old = c.out.Old || e.AsIdent() == "old"
			c.out.Clock = c.out.Clock || e.AsIdent() == "now"
		}
	}))
	return &expression{n.Value, program}
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

var noise = regexp.MustCompile(` expecting \{.*\}| \(in container '[^']*'\)`)

func tidy(message string) string {
	message = noise.ReplaceAllString(message, "")
	message = strings.ReplaceAll(message, "mismatched input '<EOF>'", "the expression ends too early")
	message = strings.TrimPrefix(message, "Syntax error: ")
	if len(message) > 300 {
		message = message[:300] + "…"
	}
	return strings.ToValidUTF8(message, "?")
}

func (x *expression) eval(s *machine.Subject) (ref.Val, error) {
	object, old, err := s.Values()
	if err != nil {
		return nil, err
	}
	value, _, err := x.program.Eval(map[string]any{"object": object, "old": old, "now": s.Now})
	if err != nil {
		return nil, workflow.ExpressionFailed.Errorf("%s: %s", x.source, tidy(err.Error()))
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
		return false, workflow.ExpressionFailed.Errorf("%s: it gives %s, not true or false", x.source, value.Type().TypeName())
	}
	return yes, nil
}

func (x *expression) value(s *machine.Subject) (any, error) {
	value, err := x.eval(s)
	if err != nil {
		return nil, err
	}
	plain, err := plainOf(value, 0)
	if err != nil {
		return nil, workflow.ExpressionFailed.Errorf("%s: %w", x.source, err)
	}
	return plain, nil
}

// plainOf turns a result into what JSON can hold: whole numbers stay 64-bit
// integers, bytes are base64, times RFC 3339 UTC.
func plainOf(value ref.Val, depth int) (any, error) {
	if depth > 100 {
		return nil, fmt.Errorf("the value is nested more than 100 deep")
	}
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.String:
		return v.Value(), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d does not fit into 64 bits", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, fmt.Errorf("the result is no number JSON can hold")
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return plainOf(v.GetValue(), depth+1)
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			element, err := plainOf(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			object[fmt.Sprint(key.Value())] = element
		}
		return object, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := plainOf(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be stored", value.Type().TypeName())
}
