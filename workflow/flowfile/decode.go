package flowfile

import (
	"encoding/json"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// flowDoc is a decoded flow file.
type flowDoc struct {
	at          position
	name        text
	version     int
	description string
	fromFirst   bool
	input       *schemaDoc
	deadline    time.Duration
	onDeadline  workflow.Then
	result      text
	onChange    workflow.Change
	migrations  []workflow.Migration
	migrationAt []position
	attempts    int // limits.attempts
	maxOutput   int // limits.output
	runs        []limitDoc
	retention   *runtype.Retention
	defaults    policy
	steps       []*stepDoc
	finally     []*stepDoc
}

// groupDoc is a decoded step group file.
type groupDoc struct {
	at          position
	name        text
	description string
	params      []*paramDoc
	steps       []*stepDoc
}

type paramDoc struct {
	name         text
	kind         string
	description  string
	required     bool
	defaultValue json.RawMessage // default; nil: none
}

// stepDoc is one decoded step.
type stepDoc struct {
	at          position
	name        text
	uses        text
	description string
	with        json.RawMessage // nil: none
	withNode    *yaml.Node
	when        text
	policy      policy
	undo        *callDoc
	noReturn    bool
	wait        *waitDoc
	body        []*stepDoc // nil: no steps
	hasBody     bool
	parallel    *parallelDoc
	forEach     *loopDoc
	bracket     *bracketDoc
	flow        *childDoc
	output      *schemaDoc
	maxOutput   int
	secrets     map[string]workflow.SecretRef
	limits      []limitDoc
	group       string            // expanded form: name of its group
	types       map[string]string // expanded form: types of the group's parameters
	found       map[string]*yaml.Node
}

type policy struct {
	retry              workflow.Retry
	jitter             *float64
	timeout, heartbeat time.Duration
	grace              time.Duration
	skippable          *bool
}

type callDoc struct {
	uses     text
	with     json.RawMessage
	withNode *yaml.Node
}

type waitDoc struct {
	at               position
	duration         time.Duration
	until, condition text
	signal           text
	schema           *schemaDoc
	every, deadline  time.Duration
	onTimeout        workflow.OnTimeout
}

type parallelDoc struct {
	max      int
	branches []*branchDoc
}

type branchDoc struct {
	at          position
	name        text
	description string
	when        text
	steps       []*stepDoc
}

type loopDoc struct {
	at            position
	list, as, key text
	max           int
}

type bracketDoc struct{ open, close *stepDoc }

type childDoc struct{ name, subject text }

// limitDoc is one element of limits.runs, or of the limits of a step.
type limitDoc struct {
	key    text
	atOnce int
	rate   runtype.Rate
}

type schemaDoc struct {
	node *yaml.Node
	at   position
	raw  json.RawMessage
}

func (r *reader) flow(root *yaml.Node) *flowDoc {
	f := &flowDoc{at: r.position(root)}
	keys := map[string]read{
		"flowName":             r.name("flowName", &f.name),
		"recoverFromFirstStep": r.flag("recoverFromFirstStep", &f.fromFirst),
		"version":              r.whole("version", 0, &f.version),
		"description":          r.prose("description", &f.description),
		"input":                r.schema("input", &f.input),
		"deadline":             r.duration("deadline", &f.deadline),
		"onDeadline":           choice(r, "onDeadline", &f.onDeadline, workflow.ThenPause, workflow.ThenCancel, workflow.ThenUndo),
		"onChange":             choice(r, "onChange", &f.onChange, workflow.ChangeFinish, workflow.ChangeMigrate, workflow.ChangePause),
		"migrations": r.list("migrations", func(n *yaml.Node) {
			f.migrations, f.migrationAt = append(f.migrations, r.migration(n)), append(f.migrationAt, r.position(n))
		}),
		"limits": func(n *yaml.Node) {
			r.object(n, "limits", map[string]read{
				"attempts": r.whole("attempts", 1, &f.attempts),
				"output":   r.size("output", runtype.MaxOutputRaised, &f.maxOutput),
				"runs":     r.list("runs", func(n *yaml.Node) { f.runs = append(f.runs, r.limit(n, "a limit of runs", 1_000_000, f.runs)) }),
			})
		},
		"retention": func(n *yaml.Node) { f.retention = r.retention(n) },
		"defaults":  func(n *yaml.Node) { r.object(n, "defaults", r.policyKeys(&f.defaults)) },
		"result":    r.text("result", &f.result),
		"steps":     r.steps("steps", &f.steps, 0),
		"finally":   r.steps("finally", &f.finally, 0),
	}
	found := r.object(root, "a flow", keys)
	if root.Kind != yaml.MappingNode {
		return f
	}
	if found["flowName"] == nil {
		r.problem(root, "flowName is missing")
	}
	if found["steps"] == nil {
		r.problem(root, "steps is missing: a flow has at least one step")
	}
	if f.onDeadline != "" && f.deadline == 0 && found["deadline"] == nil {
		r.problem(found["onDeadline"], "onDeadline without deadline has no effect")
	}
	return f
}

// limit reads a limit that stands behind others.
func (r *reader) limit(n *yaml.Node, what string, most int, others []limitDoc) limitDoc {
	var l limitDoc
	found := r.object(n, what, map[string]read{
		"key":    r.text("key", &l.key),
		"atOnce": r.whole("atOnce", 1, &l.atOnce),
		"rate":   r.rate(&l.rate),
	})
	if n.Kind != yaml.MappingNode {
		return l
	}
	if found["key"] == nil {
		r.problem(n, "%s has no key", what)
	}
	if found["atOnce"] == nil && found["rate"] == nil {
		r.problem(n, "%s has neither atOnce nor rate", what)
	}
	if l.atOnce > most {
		r.problem(found["atOnce"], "atOnce of %s is at most %d", what, most)
	}
	for _, o := range others {
		if o.key.value != l.key.value {
			continue
		}
		if _, err := o.rate.And(l.rate); err != nil {
			r.problem(found["rate"], "%v", err)
			break
		}
	}
	return l
}

// rate reads a rate such as 10/1m.
func (r *reader) rate(to *runtype.Rate) read {
	return func(n *yaml.Node) {
		rate, err := runtype.ParseRate(n.Value)
		switch {
		case n.Kind != yaml.ScalarNode:
			r.problem(n, "rate must be a number and a window such as 10/1m, not %s", plain.Kind(n))
		case err != nil:
			r.problem(n, "%v", err)
		default:
			*to = rate
		}
	}
}

func (r *reader) migration(n *yaml.Node) workflow.Migration {
	var m workflow.Migration
	var from text
	names := func(what string, to *map[string]string) read {
		return func(n *yaml.Node) {
			*to = map[string]string{}
			r.entries(n, what, func(key, value *yaml.Node) {
				var t text
				r.text(what+" of "+key.Value, &t)(value)
				(*to)[key.Value] = t.value
			})
		}
	}
	found := r.object(n, "a migration", map[string]read{
		"from":   r.text("from", &from),
		"rename": names("rename", &m.Rename),
		"drop": r.list("drop", func(n *yaml.Node) {
			var t text
			r.text("drop", &t)(n)
			m.Drop = append(m.Drop, t.value)
		}),
		"insert": func(n *yaml.Node) {
			names("insert", &m.Insert)(n)
			for _, step := range keysOf(m.Insert) {
				if v := m.Insert[step]; v != "done" && v != "run" {
					r.problem(n, "insert of %s must be done or run, not %q", step, v)
				}
			}
		},
	})
	if m.From = from.value; found["from"] == nil {
		r.problem(n, "from is missing: the content hash of the older definition")
	}
	return m
}

func (r *reader) retention(n *yaml.Node) *runtype.Retention {
	var v runtype.Retention
	r.object(n, "retention", map[string]read{
		"age":  r.duration("age", &v.Age),
		"keep": r.whole("keep", 1, &v.Keep),
		"most": r.whole("most", 1, &v.Max),
	})
	return &v
}

func (r *reader) group(root *yaml.Node) *groupDoc {
	g := &groupDoc{at: r.position(root)}
	found := r.object(root, "a step group", map[string]read{
		"groupName":   r.name("groupName", &g.name),
		"description": r.prose("description", &g.description),
		"params":      r.list("params", func(n *yaml.Node) { g.params = append(g.params, r.param(n)) }),
		"steps":       r.steps("steps", &g.steps, 0),
	})
	if root.Kind != yaml.MappingNode {
		return g
	}
	if found["groupName"] == nil {
		r.problem(root, "groupName is missing")
	}
	if found["steps"] == nil {
		r.problem(root, "steps is missing: a group has at least one step")
	}
	seen := map[string]bool{}
	for _, p := range g.params {
		if p.name.set() && seen[p.name.value] {
			r.errorf(p.name.at, "parameter %s is declared twice", p.name.value)
		}
		seen[p.name.value] = true
	}
	return g
}

// paramKinds are the types of group parameters, named as in JSON Schema.
var paramKinds = []string{"any", "array", "boolean", "integer", "number", "object", "string"}

func (r *reader) param(n *yaml.Node) *paramDoc {
	p := &paramDoc{kind: "any"}
	found := r.object(n, "a parameter", map[string]read{
		"name":        r.identifier("name", &p.name),
		"type":        choice(r, "type", &p.kind, paramKinds...),
		"description": r.prose("description", &p.description),
		"required":    r.flag("required", &p.required),
		"default": func(n *yaml.Node) {
			if p.defaultValue = r.json(n); holdsExpression(n) {
				r.problem(n, "a default is a plain value, without ${…}")
			}
		},
	})
	if n.Kind == yaml.MappingNode && found["name"] == nil {
		r.problem(n, "the parameter has no name")
	}
	if p.defaultValue != nil {
		if p.required {
			r.problem(found["required"], "a required parameter needs no default")
		}
		if value, _ := runtype.Decode(p.defaultValue); !fits(p.kind, value) {
			r.problem(found["default"], "default %s is no %s", p.defaultValue, p.kind)
		}
	}
	return p
}

// fits reports whether a value has the type of a parameter.
func fits(kind string, value any) bool {
	switch value := value.(type) {
	case string:
		return kind == "any" || kind == "string"
	case bool:
		return kind == "any" || kind == "boolean"
	case int64:
		return kind == "any" || kind == "integer" || kind == "number"
	case float64:
		return kind == "any" || kind == "number" || kind == "integer" && value == float64(int64(value))
	case []any:
		return kind == "any" || kind == "array"
	case map[string]any:
		return kind == "any" || kind == "object"
	}
	return kind == "any"
}

// reservedNames are the variables of expressions. No loop may hide them.
var reservedNames = []string{"input", "params", "run", "steps", "object"}

func (r *reader) identifier(what string, to *text) read {
	return func(n *yaml.Node) {
		var t text
		if r.text(what, &t)(n); !t.set() {
			return
		}
		*to = t
		if !isIdentifier(t.value) {
			r.problem(n, "%s %q is not an identifier: letters, digits and '_', and not a reserved word of the expression language", what, t.value)
		}
	}
}

func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 63 && !slices.Contains(celWords, s)
}

// celWords are the reserved words of CEL.
var celWords = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
	"let", "loop", "package", "namespace", "null", "return", "true", "var", "void", "while"}

func (r *reader) schema(what string, to **schemaDoc) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			r.problem(n, "%s must be a JSON Schema, not %s", what, plain.Kind(n))
			return
		}
		*to = &schemaDoc{n, r.position(n), r.json(n)}
	}
}
