package machinefile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// compiler makes a machine from what was read.
type compiler struct {
	d       *document
	options Options
	out     machine.Standalone
	reading paths // of the transition that is compiled
}

var kindForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]{0,62}$`)

func compile(d *document, options Options) machine.Standalone {
	c := &compiler{d: d, options: options, out: machine.Standalone{File: d.file}}
	if d.kind != "" && !kindForm.MatchString(d.kind) {
		d.add(d.marks["kind"], "kind %q: use a letter, then at most 62 letters, digits, dots and dashes", d.kind)
	}
	table := machine.Table[*machine.Subject]{
		Name: d.name, Kind: d.kind, Initial: machine.State(d.initial), Ignore: d.ignore,
		Any: c.transitions(d.any), States: map[machine.State]machine.StateSpec[*machine.Subject]{},
		Input: (*machine.Subject).Input, Purpose: (*machine.Subject).Spec,
		Generation: func(s *machine.Subject) int64 { return s.Object.Generation },
	}
	for _, s := range d.states {
		table.States[machine.State(s.name)] = c.state(s)
	}
	c.out.Table = table
	if d.spec != nil {
		c.out.Schema = c.schema(d.spec)
	}
	for _, o := range d.observe {
		c.observation(o)
	}
	for _, problem := range table.Loops() {
		d.warn(d.at(problem.Path), "%s", problem.String())
	}
	for _, problem := range table.Check(c.known()) {
		if len(problem.Path) == 1 && d.marks[problem.Path[0]] == (mark{}) && problem.Path[0] != "initial" {
			continue // the key is missing, which was said
		}
		d.add(d.at(problem.Path), "%s", strings.TrimPrefix(problem.String(), "machine: "))
	}
	return c.out
}

// schema compiles the JSON Schema of specs; nil after an error.
func (c *compiler) schema(n *yaml.Node) workflow.Schema {
	raw, err := json.Marshal(c.value(n))
	if err == nil {
		var compiled workflow.Schema
		if compiled, err = flowfile.NewSchema(raw); err == nil {
			return compiled
		}
	}
	c.d.add(c.d.mark(n), "spec: %v", err)
	return nil
}

func (c *compiler) known() func(string) bool {
	if c.options.AnyFlow {
		return nil
	}
	return func(flow string) bool {
		return slices.Contains(c.options.Flows, flow) ||
			slices.ContainsFunc(c.d.states, func(s state) bool { return s.work.uses != "" && flow == c.flowName(s.name) })
	}
}

func (c *compiler) flowName(state string) string { return c.d.name + "." + state }

func (c *compiler) transitions(on []transition) []machine.Transition[*machine.Subject] {
	var out []machine.Transition[*machine.Subject]
	for _, t := range on {
		made := machine.Transition[*machine.Subject]{To: machine.State(t.to), Event: t.event, Why: t.why, Cancel: machine.CancelMode(t.ends)}
		if t.when != nil {
			made.Text = strings.TrimSpace(t.when.Value)
			made.When = func(*machine.Subject) (bool, error) { return false, nil } // stands in after an error
			if x := c.expression(t.when, "when", cel.BoolType); x != nil {
				made.When = x.holds
				c.reading = append(c.reading, x.reads...)
			}
		}
		seen := tidyPaths(c.reading)
		made.Reads, made.Fixed = seen.values, seen.fixed()
		if t.params != nil {
			made.Params = c.params(t.params)
			made.Purpose = tidyPaths(c.reading).within("object", "spec").values
		}
		c.reading = nil
		out = append(out, made)
	}
	return out
}

// params makes the function of one expression, or of a tree whose strings are expressions.
func (c *compiler) params(n *yaml.Node) func(*machine.Subject) (any, error) {
	switch {
	case n.Kind == yaml.MappingNode:
		made := map[string]func(*machine.Subject) (any, error){}
		c.d.entries(n, "params", func(key, value *yaml.Node) { made[key.Value] = c.params(value) })
		return func(s *machine.Subject) (any, error) {
			out := make(map[string]any, len(made))
			for name, value := range made {
				v, err := value(s)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				out[name] = v
			}
			return out, nil
		}
	case n.Kind == yaml.SequenceNode:
		var made []func(*machine.Subject) (any, error)
		for _, item := range n.Content {
			made = append(made, c.params(item))
		}
		return func(s *machine.Subject) (any, error) {
			out := make([]any, len(made))
			for i, value := range made {
				v, err := value(s)
				if err != nil {
					return nil, err
				}
				out[i] = v
			}
			return out, nil
		}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		if x := c.expression(n, "params", nil); x != nil {
			c.reading = append(c.reading, x.reads...)
			return x.value
		}
		return func(*machine.Subject) (any, error) { return nil, nil }
	default:
		fixed := c.value(n)
		return func(*machine.Subject) (any, error) { return fixed, nil }
	}
}

func (c *compiler) state(s state) machine.StateSpec[*machine.Subject] {
	p := machine.StateSpec[*machine.Subject]{Description: s.description, On: c.transitions(s.on), Rests: s.rests,
		Flow: s.flow, Then: machine.State(s.then), Else: machine.State(s.other), Abort: machine.State(s.abort), Withdrawn: machine.CancelMode(s.withdrawn)}
	if s.work.uses == "" || s.flow != "" {
		return p
	}
	p.Flow = c.flowName(s.name)
	step := map[string]any{"stepName": s.name}
	if s.retry != nil {
		step["retry"] = c.value(s.retry)
	}
	if s.timeout != nil {
		step["timeout"] = c.value(s.timeout)
	}
	if flow, ok := c.flow(p.Flow, s.path, "action", s.work, step); ok {
		flow.Description = fmt.Sprintf("the work of state %s of machine %s", s.name, c.d.name)
		c.out.Flows = append(c.out.Flows, flow)
	}
	return p
}

// flow makes a flow of one step, which brings its templates and the check of
// its parameters along.
func (c *compiler) flow(name, path, key string, work call, step map[string]any) (workflow.Flow, bool) {
	step["uses"] = work.uses
	if work.with != nil {
		step["with"] = c.value(work.with)
	}
	if work.secrets != nil {
		step["secrets"] = c.value(work.secrets)
	}
	if names := c.actions(); !c.options.AnyAction && !slices.Contains(names, work.uses) {
		c.d.add(c.d.marks[path+"/"+key], "unknown action %q%s", work.uses, machine.DidYouMean(work.uses, names))
		return workflow.Flow{}, false
	}
	if !nameForm.MatchString(name) {
		return workflow.Flow{}, false // the name of the machine or state was found wanting
	}
	data, err := json.Marshal(map[string]any{"flowName": name, "steps": []any{step}})
	if err != nil {
		c.d.add(c.d.marks[path+"/"+key], "%v", err)
		return workflow.Flow{}, false
	}
	set, err := flowfile.Parse([]flowfile.File{{Name: "flow.yaml", Data: data}}, flowfile.Options{Actions: c.options.Actions, AnyAction: c.options.AnyAction, Check: true})
	for _, problem := range problemsOf(err) {
		at := c.d.marks[path+"/"+key]
		for _, field := range []string{"with", "secrets", "retry", "timeout"} {
			if m, ok := c.d.marks[path+"/"+field]; ok && strings.Contains(problem.Message, field) {
				at = m
				break
			}
		}
		if m, ok := c.d.marks[path+"/with"]; ok && at == c.d.marks[path+"/"+key] && !strings.Contains(problem.Message, work.uses) {
			at = m
		}
		c.d.add(at, "%s", problem.Message)
	}
	if err != nil {
		return workflow.Flow{}, false
	}
	return set.Flow(name)
}

func (c *compiler) actions() []string {
	var names []string
	for _, a := range c.options.Actions {
		names = append(names, a.Name)
	}
	return names
}

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

func (c *compiler) observation(o observation) {
	d := c.d
	if o.name != "" && !nameForm.MatchString(o.name) {
		d.add(d.marks[o.path+"/name"], "the name %q: use a letter, then at most 62 letters, digits, dots, dashes and underscores", o.name)
	}
	if slices.ContainsFunc(c.out.Observe, func(x machine.Observation) bool { return x.Name == o.name }) {
		d.add(d.marks[o.path+"/name"], "duplicate observation %q", o.name)
	}
	made := machine.Observation{Name: o.name, Every: o.every, Timeout: o.timeout, Uses: o.work.uses}
	var names []string
	for _, s := range d.states {
		names = append(names, s.name)
	}
	for i, s := range o.in {
		at := d.marks[fmt.Sprintf("%s/in/%d", o.path, i)]
		place, ok := c.out.Table.States[machine.State(s)]
		switch {
		case !ok:
			d.add(at, "unknown state %q%s", s, machine.DidYouMean(s, names))
		case place.Transient():
			d.add(at, "%s works: observations are made in states that rest", s)
		case place.Final():
			d.add(at, "%s is final: nothing would come of it", s)
		}
		made.In = append(made.In, machine.State(s))
	}
	if o.name == "" || o.work.uses == "" {
		return
	}
	if flow, ok := c.flow("observe."+o.name, o.path, "uses", o.work, map[string]any{"stepName": "look"}); ok {
		step := flow.Steps[0]
		made.With, made.Resolve, made.Secrets = step.With, step.Resolve, step.Secrets
	}
	c.out.Observe = append(c.out.Observe, made)
}

// value turns a node into what json.Marshal takes.
func (c *compiler) value(n *yaml.Node) any {
	return plain.Reader{
		Entries: func(n *yaml.Node, each func(key, value *yaml.Node)) { c.d.entries(n, "a mapping", each) },
		Wrong:   func(n *yaml.Node, format string, args ...any) { c.d.add(c.d.mark(n), format, args...) },
	}.Value(n)
}
