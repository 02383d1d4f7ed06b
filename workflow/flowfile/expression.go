package flowfile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types/ref"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/celenv"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// expression is a checked CEL program with a list of its reads. Steps share it.
type expression struct {
	source    string
	kind      *cel.Type
	program   cel.Program
	steps     []stepRead
	params    []string // names read from params
	allParams bool     // reads params as one value

	allSteps bool // reads steps as one value: refused
}

// stepRead is one `steps.<name>.<field>` of an expression.
type stepRead struct {
	name, field string // field is "" if the expression uses the entry as one value
	offset      int    // in bytes
}

// exprContext describes the variables of an expression.
type exprContext struct {
	input  *schema // nil: any
	params *groupDoc
	items  []loopItem
	object bool
}

type loopItem struct {
	name string
	kind *cel.Type
}

// expressions compiles each text once per context.
type expressions struct {
	base     *cel.Env
	envs     map[string]*cel.Env
	compiled map[string]compiled
	ids      map[any]int
}

type compiled struct {
	expression *expression
	issues     []issue
}

type issue struct {
	offset  int
	message string
}

var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
	return celenv.New(append(aggregates(),
		cel.Variable("run", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("steps", cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.DynType))),
	)...)
})

func newExpressions() *expressions {
	base, err := baseEnv()
	if err != nil {
		panic(err) // the options above are constant
	}
	return &expressions{base: base, envs: map[string]*cel.Env{}, compiled: map[string]compiled{}, ids: map[any]int{}}
}

func (e *expressions) id(v any) int {
	if _, ok := e.ids[v]; !ok {
		e.ids[v] = len(e.ids) + 1
	}
	return e.ids[v]
}

func (e *expressions) key(s exprContext, typed bool) string {
	var b strings.Builder
	if typed && s.input != nil {
		fmt.Fprintf(&b, "%d", e.id(s.input))
	}
	if s.params != nil {
		fmt.Fprintf(&b, "/%d", e.id(s.params))
	}
	for _, item := range s.items {
		fmt.Fprintf(&b, "/%s:%s", item.name, item.kind)
	}
	fmt.Fprintf(&b, "/%t", s.object)
	return b.String()
}

// compile compiles a text. The issues are nil if it is valid.
func (e *expressions) compile(source string, s exprContext) (*expression, []issue) {
	key := e.key(s, true) + "\x00" + source
	if known, ok := e.compiled[key]; ok {
		return known.expression, known.issues
	}
	x, issues := e.make(source, s, true)
	if issues != nil && s.input != nil && indexed.MatchString(source) {
		x, issues = e.make(source, s, false) // input["a-b"], "a" in input: use a map without types
	}
	e.compiled[key] = compiled{x, issues}
	return x, issues
}

var indexed = regexp.MustCompile(`\binput\b[A-Za-z0-9_.]*\s*\[|\bin\s+input\b|\binput\b[A-Za-z0-9_.]*\s*[),]|\binput\b[A-Za-z0-9_.]*\.(all|exists|exists_one|map|filter|size|transform\w*)\(`)

func (e *expressions) make(source string, s exprContext, typed bool) (*expression, []issue) {
	if len(source) > celenv.MaxLength {
		return nil, []issue{{0, fmt.Sprintf("the expression is longer than %d bytes", celenv.MaxLength)}}
	}
	env, err := e.env(s, typed)
	if err != nil {
		return nil, []issue{{0, err.Error()}}
	}
	checked, found := env.Compile(source)
	if found.Err() != nil {
		var issues []issue
		for _, one := range found.Errors() {
			issues = append(issues, issue{offsetOf(source, one.Location.Line(), one.Location.Column()), celenv.Message(one.Message)})
		}
		return nil, issues
	}
	program, err := celenv.Program(env, checked)
	if err != nil {
		return nil, []issue{{0, celenv.Message(err.Error())}}
	}
	x := &expression{source: source, kind: checked.OutputType(), program: program}
	x.read(checked.NativeRep(), source)
	issues := x.fieldIssues()
	return x, issues
}

func (e *expressions) env(s exprContext, typed bool) (*cel.Env, error) {
	key := e.key(s, typed)
	if env, ok := e.envs[key]; ok {
		return env, nil
	}
	var options []cel.EnvOption
	input := cel.DynType
	if typed && s.input != nil {
		provider := &schemaTypes{Provider: e.base.CELTypeProvider(), structs: map[string]map[string]*cel.Type{}}
		if input = provider.typeOf("input", s.input.tree); len(provider.structs) > 0 {
			options = append(options, cel.CustomTypeProvider(provider))
		}
	}
	params := cel.MapType(cel.StringType, cel.DynType)
	options = append(options, cel.Variable("input", input), cel.Variable("params", params))
	for _, item := range s.items {
		options = append(options, cel.Variable(item.name, item.kind))
	}
	if s.object {
		options = append(options, cel.Variable("object", cel.DynType))
	}
	env, err := e.base.Extend(options...)
	if err == nil {
		e.envs[key] = env
	}
	return env, err
}

// offsetOf converts the line (from 1) and column (code points from 0) of CEL into a byte offset.
func offsetOf(source string, line, column int) int {
	offset := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(source[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	for range column {
		if offset >= len(source) {
			break
		}
		_, size := nextRune(source[offset:])
		offset += size
	}
	return min(offset, len(source))
}

func nextRune(s string) (rune, int) {
	for i, r := range s {
		_ = i
		return r, len(string(r))
	}
	return 0, 1
}

// read records the steps and parameters that the program reads by constant names.
func (x *expression) read(tree *ast.AST, source string) {
	members := map[int64]bool{} // nodes whose member is recorded: parents are visited first
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		of, name, constant := member(n)
		switch {
		case of == nil && isIdent(n, "params") && !members[n.ID()]:
			x.allParams = true
		case of == nil && isIdent(n, "steps") && !members[n.ID()]:
			x.allSteps = true
		case of == nil && n.Kind() == ast.CallKind && n.AsCall().FunctionName() == operators.In && isIdent(n.AsCall().Args()[1], "steps"):
			members[n.AsCall().Args()[1].ID()] = true
		case of == nil:
		case isIdent(of, "params"):
			members[of.ID()] = true
			if constant {
				x.params = append(x.params, name)
			} else {
				x.allParams = true
			}
		case isIdent(of, "steps"):
			members[of.ID()] = true
			if at := tree.SourceInfo().GetStartLocation(of.ID()); constant {
				x.steps = append(x.steps, stepRead{name: name, offset: offsetOf(source, at.Line(), at.Column())})
			}
		default:
			inner, entry, ok := member(of)
			if inner != nil && ok && isIdent(inner, "steps") && constant {
				at := tree.SourceInfo().GetStartLocation(inner.ID())
				x.steps = append(x.steps, stepRead{name: entry, field: name, offset: offsetOf(source, at.Line(), at.Column())})
			}
		}
	}))
	x.steps = slices.DeleteFunc(x.steps, func(r stepRead) bool { // drop entries whose field is recorded
		return r.field == "" && slices.ContainsFunc(x.steps, func(o stepRead) bool { return o.field != "" && o.name == r.name && o.offset == r.offset })
	})
}

// member splits a.b and a["b"] into operand and name, and reports whether the name is constant.
func member(n ast.Expr) (of ast.Expr, name string, constant bool) {
	switch n.Kind() {
	case ast.SelectKind:
		return n.AsSelect().Operand(), n.AsSelect().FieldName(), true
	case ast.CallKind:
		call := n.AsCall()
		if f := call.FunctionName(); f != operators.Index && f != operators.OptIndex && f != operators.OptSelect || len(call.Args()) != 2 {
			return nil, "", false
		}
		if key := call.Args()[1]; key.Kind() == ast.LiteralKind {
			name, ok := key.AsLiteral().Value().(string)
			return call.Args()[0], name, ok
		}
		return call.Args()[0], "", false
	}
	return nil, "", false
}

func isIdent(n ast.Expr, name string) bool { return n.Kind() == ast.IdentKind && n.AsIdent() == name }

func (x *expression) fieldIssues() []issue {
	var issues []issue
	if x.allSteps {
		issues = append(issues, issue{0, "steps cannot be read as a whole: name the step, as in steps.Create.output"})
	}
	for _, r := range x.steps {
		if r.field != "" && r.field != "phase" && r.field != "output" {
			issues = append(issues, issue{r.offset, fmt.Sprintf("a step has phase and output, not %q%s", r.field, hint(r.field, []string{"phase", "output"}))})
		}
	}
	return issues
}

// eval evaluates the program for a run.
func (x *expression) eval(view workflow.View) (ref.Val, error) {
	vars := &variables{view: view}
	value, _, err := x.program.Eval(vars)
	switch {
	case vars.err != nil:
		return nil, x.failed("%w", vars.err)
	case err != nil:
		return nil, x.failed("%s", celenv.Message(err.Error()))
	}
	return value, nil
}

// failed returns EXPRESSION_FAILED. Its message begins with the text of the expression.
func (x *expression) failed(format string, args ...any) error {
	text := x.source
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return workflow.ExpressionFailed.Errorf("%s: "+format, slices.Insert(args, 0, any(text))...)
}

func (x *expression) predicate() func(workflow.View) (bool, error) {
	return func(view workflow.View) (bool, error) {
		value, err := x.eval(view)
		if err != nil {
			return false, err
		}
		yes, ok := value.Value().(bool)
		if !ok {
			return false, x.failed("it returns %s, not true or false", typeName(value))
		}
		return yes, nil
	}
}

func (x *expression) json(view workflow.View) (any, error) {
	value, err := x.eval(view)
	if err != nil {
		return nil, err
	}
	stored, err := plain.Of(value)
	if err != nil {
		return nil, x.failed("%w", err)
	}
	return stored, nil
}

// value returns the result of the expression in canonical JSON.
func (x *expression) value() func(workflow.View) (json.RawMessage, error) {
	return func(view workflow.View) (json.RawMessage, error) {
		v, err := x.json(view)
		if err != nil {
			return nil, err
		}
		return canonical(v), nil
	}
}

func (x *expression) list() func(workflow.View) ([]json.RawMessage, error) {
	return func(view workflow.View) ([]json.RawMessage, error) {
		plain, err := x.json(view)
		if err != nil {
			return nil, err
		}
		list, ok := plain.([]any)
		if !ok {
			return nil, x.failed("it does not return a list")
		}
		items := make([]json.RawMessage, len(list))
		for i, item := range list {
			items[i] = canonical(item)
		}
		return items, nil
	}
}

func (x *expression) time() func(workflow.View) (time.Time, error) {
	return func(view workflow.View) (time.Time, error) {
		value, err := x.eval(view)
		if err != nil {
			return time.Time{}, err
		}
		switch v := value.Value().(type) {
		case time.Time:
			return v.UTC(), nil
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC(), nil
			}
			return time.Time{}, x.failed("%q is not a time such as 2006-01-02T15:04:05Z", v)
		}
		return time.Time{}, x.failed("it returns %s, not a time", typeName(value))
	}
}
