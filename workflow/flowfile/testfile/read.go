package testfile

import (
	_ "embed"
	"encoding/json"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of files of tests, for editors.
func Schema() []byte { return slices.Clone(schema) }

// document is a decoded file.
type document struct {
	flow    *yaml.Node
	actions []replacement
	real    []string
	cases   []*Case
}

// Case is one test of a file.
type Case struct {
	Name string
	Line int // of the case, from 1

	at       *yaml.Node
	flow     *yaml.Node // nil: that of the file
	subject  string
	input    json.RawMessage
	labels   map[string]string
	secrets  map[string]string
	object   json.RawMessage
	actions  []replacement // those of the file come after its own
	real     []string
	requests []request
	expect   *expectation
	crash    string
}

// replacement is the entry of one action or step.
type replacement struct {
	key   *yaml.Node
	tries []try // the last one counts for all further tries
}

type try struct {
	at      *yaml.Node
	output  json.RawMessage
	fault   string
	message string
}

type request struct {
	at      *yaml.Node
	step    string // the run rests there
	verb    string // signal, pause, resume, cancel, skip, pass; empty: only expect
	name    string // of the signal, the step to skip, where to resume, or the mode
	payload json.RawMessage
	pass    time.Duration
	expect  *expectation
}

type expectation struct {
	nodes   map[string]*yaml.Node
	phase   string
	fault   string
	step    string
	waiting string
	result  json.RawMessage
	outputs []named
	with    []named
	tries   []named
	done    []string
	undone  []string
	skipped []string
}

type named struct {
	key   *yaml.Node
	value json.RawMessage
}

type decoder struct{ flowfile.Reader }

type keys = map[string]func(*yaml.Node)

func (d decoder) document(root *yaml.Node) *document {
	doc := &document{}
	found := d.Object(root, "a file of tests", keys{
		"flow":    func(n *yaml.Node) { doc.flow = d.name("flow", n) },
		"actions": func(n *yaml.Node) { doc.actions = d.replacements(n) },
		"real":    d.names("real", &doc.real),
		"cases":   d.List("cases", func(n *yaml.Node) { doc.cases = append(doc.cases, d.testCase(n)) }),
	})
	if root.Kind != yaml.MappingNode {
		return doc
	}
	if found["cases"] == nil || len(doc.cases) == 0 {
		d.Problem(root, "cases is missing: a file of tests has at least one case")
	}
	seen := map[string]int{}
	for _, c := range doc.cases {
		if first, twice := seen[c.Name]; twice && c.Name != "" {
			d.Problem(c.at, "two cases are named %q (the first in line %d)", c.Name, first)
		}
		seen[c.Name] = c.Line
		c.actions, c.real = append(c.actions, doc.actions...), append(c.real, doc.real...)
		if c.flow == nil {
			c.flow = doc.flow
		}
	}
	return doc
}

// name checks that a node is a text, and returns it; nil after a problem.
func (d decoder) name(what string, n *yaml.Node) *yaml.Node {
	var text string
	if d.Text(what, &text)(n); text == "" {
		return nil
	}
	return n
}

func (d decoder) names(what string, to *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = []string{}
		d.List(what, func(n *yaml.Node) {
			var text string
			d.Text("a name of "+what, &text)(n)
			*to = append(*to, text)
		})(n)
	}
}

func (d decoder) texts(what string, to *map[string]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = map[string]string{}
		d.Entries(n, what, func(key, value *yaml.Node) {
			var text string
			d.Text(key.Value, &text)(value)
			(*to)[key.Value] = text
		})
	}
}

func (d decoder) value(to *json.RawMessage) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = d.JSON(n) }
}

func (d decoder) named(what string, to *[]named) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.Entries(n, what, func(key, value *yaml.Node) { *to = append(*to, named{key, d.JSON(value)}) })
	}
}

func (d decoder) testCase(n *yaml.Node) *Case {
	c := &Case{at: n, Line: n.Line}
	found := d.Object(n, "a case", keys{
		"name":    d.Text("name", &c.Name),
		"flow":    func(n *yaml.Node) { c.flow = d.name("flow", n) },
		"subject": d.Text("subject", &c.subject),
		"input":   d.value(&c.input),
		"labels":  d.texts("labels", &c.labels),
		"secrets": d.texts("secrets", &c.secrets),
		"object":  d.value(&c.object),
		"actions": func(n *yaml.Node) { c.actions = d.replacements(n) },
		"real":    d.names("real", &c.real),
		"do":      d.List("do", func(n *yaml.Node) { c.requests = append(c.requests, d.request(n)) }),
		"expect":  func(n *yaml.Node) { c.expect = d.expectation(n) },
		"crash":   d.Choice("crash", &c.crash, "everywhere", "never"),
	})
	if n.Kind == yaml.MappingNode && found["name"] == nil {
		d.Problem(n, "the case has no name")
	}
	return c
}

func (d decoder) replacements(n *yaml.Node) []replacement {
	var all []replacement
	d.Entries(n, "actions", func(key, value *yaml.Node) {
		r := replacement{key: key}
		if value.Kind == yaml.SequenceNode {
			for _, item := range value.Content {
				r.tries = append(r.tries, d.try(item))
			}
			if len(r.tries) == 0 {
				d.Problem(value, "%s is empty: write {} for an action that does nothing", key.Value)
			}
		} else {
			r.tries = []try{d.try(value)}
		}
		all = append(all, r)
	})
	return all
}

func (d decoder) try(n *yaml.Node) try {
	t := try{at: n}
	found := d.Object(n, "a replaced action", keys{
		"output": d.value(&t.output), "fault": d.Text("fault", &t.fault), "message": d.Text("message", &t.message),
	})
	switch {
	case found["output"] != nil && found["fault"] != nil:
		d.Problem(found["output"], "an action has an output or a fault, not both")
	case found["message"] != nil && found["fault"] == nil:
		d.Problem(found["message"], "message belongs to a fault")
	}
	return t
}

func (d decoder) request(n *yaml.Node) request {
	q := request{at: n}
	pause := false
	found := d.Object(n, "an entry of do", keys{
		"at":      d.Text("at", &q.step),
		"signal":  d.Text("signal", &q.name),
		"payload": d.value(&q.payload),
		"pause":   d.Flag("pause", &pause),
		"resume":  d.Text("resume", &q.name),
		"cancel":  d.Choice("cancel", &q.name, string(runtype.Undo), string(runtype.Drop), string(runtype.Hold)),
		"skip":    d.Text("skip", &q.name),
		"output":  d.value(&q.payload),
		"pass":    d.Duration("pass", &q.pass),
		"expect":  func(n *yaml.Node) { q.expect = d.expectation(n) },
	})
	for _, verb := range []string{"signal", "pause", "resume", "cancel", "skip", "pass"} {
		if found[verb] == nil {
			continue
		}
		if q.verb != "" {
			d.Problem(found[verb], "%s and %s: write one entry of do for each", q.verb, verb)
		}
		q.verb = verb
	}
	for extra, verb := range map[string]string{"payload": "signal", "output": "skip"} {
		if found[extra] != nil && q.verb != verb {
			d.Problem(found[extra], "%s belongs to %s", extra, verb)
		}
	}
	if n.Kind == yaml.MappingNode && q.verb == "" && q.expect == nil && found["at"] == nil {
		d.Problem(n, "the entry does nothing: write signal, pause, resume, cancel, skip, pass or expect")
	}
	return q
}

func (d decoder) expectation(n *yaml.Node) *expectation {
	x := &expectation{}
	x.nodes = d.Object(n, "expect", keys{
		"phase": d.Choice("phase", &x.phase, string(runtype.Succeeded), string(runtype.Cancelled), string(runtype.Paused), string(runtype.Waiting)),
		"fault": d.Text("fault", &x.fault), "step": d.Text("step", &x.step), "waiting": d.Text("waiting", &x.waiting),
		"result": d.value(&x.result), "outputs": d.named("outputs", &x.outputs), "with": d.named("with", &x.with), "tries": d.named("tries", &x.tries),
		"done": d.names("done", &x.done), "undone": d.names("undone", &x.undone), "skipped": d.names("skipped", &x.skipped),
	})
	if x.nodes["step"] != nil && x.nodes["fault"] == nil {
		d.Problem(x.nodes["step"], "step is the step of the fault: add fault, or write waiting for the step at which the run waits")
	}
	if x.phase == "" && x.fault != "" {
		x.phase = string(runtype.Paused)
	}
	return x
}
