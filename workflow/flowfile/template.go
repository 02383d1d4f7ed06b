package flowfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
)

// template is a value whose strings may contain ${…}.
type template struct {
	fixed    any // the value, if nothing below is set
	parts    []part
	list     []*template
	keys     []string
	children []*template
}

// part is a compiled part of a string: a text or an expression.
type part struct {
	text       string
	expression *expression
}

// segment is a part of a string before it is compiled.
type segment struct {
	text   string
	cel    bool
	offset int // offset of the expression within the string
}

// split cuts a string at its expressions. `$${` stands for a literal `${`.
func split(s string) ([]segment, error) {
	var pieces []segment
	var literal strings.Builder
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			end := closingBrace(s, i+2)
			if end < 0 {
				return nil, fmt.Errorf("${ without its closing }")
			}
			if literal.Len() > 0 {
				pieces = append(pieces, segment{text: literal.String()})
				literal.Reset()
			}
			if strings.TrimSpace(s[i+2:end]) == "" {
				return nil, fmt.Errorf("${} holds no expression")
			}
			pieces = append(pieces, segment{text: s[i+2 : end], cel: true, offset: i + 2})
			i = end + 1
		default:
			literal.WriteByte(s[i])
			i++
		}
	}
	if literal.Len() > 0 || len(pieces) == 0 {
		pieces = append(pieces, segment{text: literal.String()})
	}
	return pieces, nil
}

// closingBrace returns the index of the brace that ends an expression, or -1. It ignores the braces
// of map literals and those in strings.
func closingBrace(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'':
			if i = endOfString(s, i); i < 0 {
				return -1
			}
			continue
		}
		i++
	}
	return -1
}

// endOfString returns the index behind a CEL string that starts at i; -1 if the string has no end.
func endOfString(s string, i int) int {
	raw := i > 0 && (s[i-1] == 'r' || s[i-1] == 'R') && (i < 2 || !wordByte(s[i-2]) || s[i-2] == 'b' || s[i-2] == 'B')
	mark := s[i : i+1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(s[i:], triple) {
		mark = triple
	}
	for i += len(mark); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], mark) {
			return i + len(mark)
		}
	}
	return -1
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func holdsExpression(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	if n.Kind == yaml.ScalarNode {
		return n.ShortTag() == "!!str" && strings.Contains(n.Value, "${")
	}
	return slices.ContainsFunc(n.Content, holdsExpression)
}

// live reports whether the template contains an expression.
func (t *template) live() bool { return t.parts != nil || t.list != nil || t.children != nil }

// fill evaluates the template for a run.
func (t *template) fill(view workflow.View) (any, error) {
	switch {
	case t.children != nil:
		object := make(map[string]any, len(t.children))
		for i, child := range t.children {
			value, err := child.fill(view)
			if err != nil {
				return nil, err
			}
			object[t.keys[i]] = value
		}
		return object, nil
	case t.list != nil:
		list := make([]any, len(t.list))
		for i, child := range t.list {
			value, err := child.fill(view)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	case len(t.parts) == 1 && t.parts[0].expression != nil:
		return t.parts[0].expression.json(view)
	case t.parts != nil:
		var b strings.Builder
		for _, p := range t.parts {
			if p.expression == nil {
				b.WriteString(p.text)
				continue
			}
			value, err := p.expression.json(view)
			if err != nil {
				return nil, err
			}
			b.WriteString(inText(value))
		}
		return b.String(), nil
	}
	return t.fixed, nil
}

// kind returns the type of the result; dyn if it is unknown.
func (t *template) kind() *cel.Type {
	switch {
	case len(t.parts) == 1 && t.parts[0].expression != nil:
		return t.parts[0].expression.kind
	case t.parts != nil:
		return cel.StringType
	}
	return cel.DynType // checked as a value
}

// kindsOf returns the parameter types that a result may have.
func kindsOf(t *cel.Type) []string {
	switch t.Kind() {
	case cel.StringKind, cel.BytesKind, cel.TimestampKind, cel.DurationKind:
		return []string{"any", "string"}
	case cel.IntKind, cel.UintKind:
		return []string{"any", "integer", "number"}
	case cel.DoubleKind:
		return []string{"any", "integer", "number"}
	case cel.BoolKind:
		return []string{"any", "boolean"}
	case cel.ListKind:
		return []string{"any", "array"}
	case cel.MapKind, cel.StructKind:
		return []string{"any", "object"}
	}
	return paramKinds
}

// inText formats a value within a longer string.
func inText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return string(canonical(value))
}

// resolve returns fill in the form of workflow.Step.Resolve; nil if there are no expressions.
func (t *template) resolve() func(workflow.View) (json.RawMessage, error) {
	if t == nil || !t.live() {
		return nil
	}
	return func(view workflow.View) (json.RawMessage, error) {
		value, err := t.fill(view)
		if err != nil {
			return nil, err
		}
		return canonical(value), nil
	}
}

// text returns fill for a value that must be a string.
func (t *template) text() func(workflow.View) (string, error) {
	return func(view workflow.View) (string, error) {
		value, err := t.fill(view)
		if err != nil {
			return "", err
		}
		if value == nil {
			return "", workflow.ExpressionFailed.Errorf("the result is null, not a string")
		}
		return inText(value), nil
	}
}

// template compiles a value whose strings may contain expressions, except the literal strings.
func (c *flowCompiler) template(n *yaml.Node, file string, here *scope, literal []string, pointer string) *template {
	quiet := &reader{report: &report{}, file: file}
	if slices.Contains(literal, pointer) {
		return &template{fixed: quiet.value(n)}
	}
	t := &template{}
	alive := false
	child := func(n *yaml.Node, step string) *template {
		made := c.template(n, file, here, literal, pointer+"/"+step)
		alive = alive || made.live()
		return made
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			t.keys = append(t.keys, n.Content[i].Value)
			t.children = append(t.children, child(n.Content[i+1], n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			t.list = append(t.list, child(item, strconv.Itoa(i)))
		}
	case yaml.ScalarNode:
		if holdsExpression(n) {
			return c.stringTemplate(quiet.textOf(n), here)
		}
	}
	if alive {
		return t
	}
	return &template{fixed: quiet.value(n)}
}

func (c *flowCompiler) stringTemplate(t text, here *scope) *template {
	pieces, err := split(t.value)
	if err != nil {
		c.errorf(t.at, "%v", err)
		return &template{fixed: t.value}
	}
	made := &template{}
	for _, p := range pieces {
		if !p.cel {
			made.parts = append(made.parts, part{text: p.text})
			continue
		}
		x, issues := c.expressions.compile(p.text, exprContext{input: c.input, items: here.items})
		if x = c.checkExpression(t, p.offset, x, issues, here, "", nil); x != nil {
			made.parts = append(made.parts, part{expression: x})
		}
	}
	return made
}
