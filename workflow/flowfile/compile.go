package flowfile

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
)

// check checks the documents before the expansion.
func (l *library) check() {
	l.checkCycles()
	l.checkFaults()
	l.lint()
}

// build compiles the flows. It reports errors.
func (l *library) build() []workflow.Flow {
	var flows []workflow.Flow
	for _, f := range l.order {
		flow, _ := l.flow(f)
		flows = append(flows, flow)
	}
	for _, name := range keysOf(l.groups) {
		if g := l.groups[name]; !l.reached[g] && !l.cyclic[g] {
			l.checkUnusedGroup(g)
		}
	}
	l.checkChildren()
	l.checkParams()
	l.reportUnknown()
	return flows
}

// flow expands and compiles one flow.
func (l *library) flow(f *flowDoc) (workflow.Flow, *node) {
	e := l.expander(f.defaults)
	names := newNamespace()
	root := &node{children: e.sequence(f.steps, 0, names)}
	end := &node{children: e.sequence(f.finally, 0, names)}
	flow := workflow.Flow{
		Name: f.name.value, Version: f.version, Description: f.description, RecoverFromFirstStep: f.fromFirst,
		Deadline: f.deadline, OnDeadline: f.onDeadline, OnChange: f.onChange, Migrations: f.migrations,
		Limit: f.attempts, Retention: f.retention,
	}
	c := &flowCompiler{library: l, doc: f, input: l.schema(f.input)}
	if c.input != nil {
		flow.Input = c.input
	}
	all := &node{children: slices.Concat(root.children, end.children)}
	top := (&scope{}).within(all)
	flow.Steps = c.sequence(root.children, top)
	flow.Finally = c.sequence(end.children, top)
	for _, limit := range f.runs {
		if !limit.key.set() {
			continue // reported
		}
		flow.Limits = append(flow.Limits, workflow.RunLimit{Key: c.stringTemplate(limit.key, &scope{}).text(), KeyText: limit.key.value, AtOnce: limit.atOnce, Rate: limit.rate})
	}
	c.takeReads()
	if f.result.set() {
		flow.ResultText = f.result.value
		if x := c.expression(f.result, 0, top, false, "a value"); x != nil {
			flow.Result = x.value()
		}
		c.reads = nil // a step that only the result reads can be skipped
	}
	flow.Source = encodeFlow(f, root.children, end.children)
	l.checkMigrations(f, all)
	return flow, all
}

// checkMigrations reports targets of migrations that the flow does not have.
func (l *library) checkMigrations(f *flowDoc, all *node) {
	for i, m := range f.migrations {
		for _, old := range keysOf(m.Rename) {
			if all.whyMissing(m.Rename[old]) != "" {
				l.errorf(f.migrationAt[i], "the migration renames %s to %s, which is not a step of the flow", old, m.Rename[old])
			}
		}
		for _, name := range keysOf(m.Insert) {
			if all.whyMissing(name) != "" {
				l.errorf(f.migrationAt[i], "the migration inserts %s, which is not a step of the flow", name)
			}
		}
	}
}

// checkUnusedGroup checks a group that no flow of the set uses.
func (l *library) checkUnusedGroup(g *groupDoc) {
	l.reached[g] = true
	all := &node{children: l.expander(policy{}).sequence(g.steps, 1, newNamespace())}
	c := &flowCompiler{library: l, doc: &flowDoc{}}
	c.sequence(all.children, (&scope{openEnded: true, params: g}).within(all))
}

// checkParams reports parameters that no step of their group reads.
func (l *library) checkParams() {
	for _, name := range keysOf(l.groups) {
		g := l.groups[name]
		if used := l.usedParams[g]; !l.cyclic[g] && !used["*"] {
			for _, p := range g.params {
				if p.name.value != "" && !used[p.name.value] {
					l.errorf(p.name.at, "parameter %s of group %s is not used by any of its steps", p.name.value, name)
				}
			}
		}
	}
}

// schema compiles a schema once.
func (l *library) schema(doc *schemaDoc) *schema {
	if doc == nil {
		return nil
	}
	if s, ok := l.schemas[doc]; ok {
		return s
	}
	s, err := newSchema(doc.raw)
	if err != nil {
		l.errorf(doc.at, "not a valid JSON Schema: %v", err)
	}
	l.schemas[doc] = s
	return s
}

// flowCompiler compiles nodes to workflow.Steps.
type flowCompiler struct {
	*library
	doc   *flowDoc
	input *schema
	reads []string // outputs that the current step reads
}

func (c *flowCompiler) sequence(nodes []*node, here *scope) []workflow.Step {
	steps := make([]workflow.Step, 0, len(nodes))
	for _, n := range nodes {
		steps = append(steps, c.step(n, here))
		if !here.parallel {
			here.before[n.name] = true
		}
	}
	return steps
}

func (c *flowCompiler) step(n *node, here *scope) workflow.Step {
	c.reads = nil
	here.now = n
	step := workflow.Step{Name: n.name}
	if b := n.branch; b != nil {
		step.Description = b.description
		c.when(&step, b.when, here)
		step.Reads = c.takeReads()
		step.Steps = c.sequence(n.children, here.within(n))
		return step
	}
	s := n.doc
	step.Description = s.description
	c.when(&step, s.when, here)
	inside := here
	if s.forEach != nil {
		step.ForEach, inside = c.loop(s.forEach, here)
	}
	switch {
	case n.children != nil || s.structure():
		c.structure(&step, n, inside)
	default:
		c.leaf(&step, n, inside)
	}
	return step
}

// takeReads returns and clears the reads of the current step.
func (c *flowCompiler) takeReads() []string {
	slices.Sort(c.reads)
	reads := slices.Compact(c.reads)
	c.reads = nil
	return reads
}

func (c *flowCompiler) structure(step *workflow.Step, n *node, here *scope) {
	inner := here.within(n)
	if n.groupName != "" {
		step.Params, step.With = c.params(n, here)
		inner.params, inner.any = n.group, n.group == nil
	}
	step.Reads = c.takeReads()
	if p := n.doc.parallel; p != nil {
		inner.parallel = true
		if step.Parallel = p.max; step.Parallel == 0 {
			step.Parallel = max(len(p.branches), 1)
		}
	}
	if n.open != nil {
		open := c.step(n.open, inner)
		step.Open = &open
		inner.before[n.open.name] = true
	}
	step.Steps = c.sequence(n.children, inner)
	if n.close != nil {
		end := c.step(n.close, inner)
		step.Close = &end
	}
}

// params compiles the variable `params` of a group. Each group has its own object, so that it never
// sees the parameters of the enclosing group.
func (c *flowCompiler) params(n *node, here *scope) (func(workflow.View) (json.RawMessage, error), json.RawMessage) {
	if n.params == nil {
		return func(workflow.View) (json.RawMessage, error) { return json.RawMessage("{}"), nil }, nil
	}
	quiet := &reader{report: &report{}}
	raw := quiet.json(n.params)
	t := c.template(n.params, n.at.file, here, nil, "")
	if !t.live() {
		return func(workflow.View) (json.RawMessage, error) { return raw, nil }, raw
	}
	for i, name := range t.keys {
		if kind, of := n.types[name], t.children[i].kind(); kind != "" && !slices.Contains(kindsOf(of), kind) {
			c.errorf(position{n.at.file, n.params.Content[2*i+1].Line, n.params.Content[2*i+1].Column},
				"parameter %s of group %s is of type %s, the expression returns %s", name, n.groupName, kind, of)
		}
	}
	return func(view workflow.View) (json.RawMessage, error) {
		value, err := t.fill(view)
		if err != nil {
			return nil, err
		}
		values, _ := value.(map[string]any)
		for _, name := range keysOf(n.types) {
			if v, given := values[name]; given && !fits(n.types[name], v) {
				return nil, workflow.ExpressionFailed.Errorf("parameter %s of group %s is of type %s, not %.100s", name, n.groupName, n.types[name], canonical(v))
			}
		}
		return canonical(value), nil
	}, raw
}

func (c *flowCompiler) leaf(step *workflow.Step, n *node, here *scope) {
	s := n.doc
	step.Retry, step.Timeout, step.Heartbeat, step.Grace = n.policy.whole(), n.policy.timeout, n.policy.heartbeat, n.policy.grace
	step.Skippable = n.policy.skippable != nil && *n.policy.skippable
	step.NoReturn, step.Secrets = s.noReturn, s.secrets
	if step.MaxOutput = s.maxOutput; step.MaxOutput == 0 {
		step.MaxOutput = c.doc.maxOutput
	}
	c.codes(s)
	if out := c.schema(s.output); out != nil {
		step.Output = out
	}
	switch {
	case s.uses.value != "":
		step.Uses = s.uses.value
		step.With, step.Resolve = c.with(s.uses, s.with, s.withNode, here)
	case s.flow != nil:
		c.child(step, s, here)
	}
	if s.wait != nil {
		step.Wait = c.wait(s.wait, here)
	}
	for _, l := range s.limits {
		if l.key.set() {
			step.Limits = append(step.Limits, workflow.StepLimit{Key: c.stringTemplate(l.key, here).text(), KeyText: l.key.value, AtOnce: l.atOnce, Rate: l.rate})
		}
	}
	step.Reads = c.takeReads()
	if s.undo != nil {
		c.knowsAction(s.undo.uses)
		call := &workflow.Call{Uses: s.undo.uses.value}
		if s.forEach == nil { // inside an iteration the name refers to the loop
			here = here.withSelf(n.name)
		}
		call.With, call.Resolve = c.with(s.undo.uses, s.undo.with, s.undo.withNode, here)
		step.UndoCall = call
		c.reads = nil // a step that only an undo reads can be skipped
	}
}

func (c *flowCompiler) codes(s *stepDoc) {
	for _, code := range s.policy.retry.Not {
		if code != "" && !c.expanded && !c.knowsCode(code) {
			n := s.found["retry"]
			c.errorf(position{s.at.file, n.Line, n.Column}, "retry.not names %s, which is not declared here: declare it in a *_faults.yaml", code)
		}
	}
}

// with compiles the parameters of an action and checks the known parts.
func (c *flowCompiler) with(uses text, raw json.RawMessage, n *yaml.Node, here *scope) (json.RawMessage, func(workflow.View) (json.RawMessage, error)) {
	var resolve func(workflow.View) (json.RawMessage, error)
	given, file := raw, uses.at.file
	if n == nil {
		n, given = &yaml.Node{Kind: yaml.MappingNode, Line: uses.at.line, Column: uses.at.column}, json.RawMessage("{}")
	} else {
		resolve = c.template(n, file, here, c.literals(uses.value), "").resolve()
	}
	if action, ok := c.actions[uses.value]; ok && action.With != nil && !c.expanded {
		c.conform("with", action.With, given, n, file, resolve != nil)
	}
	return raw, resolve
}

// literals returns JSON pointers to the parameters of an action that contain no templates: in a
// script, ${…} belongs to the shell. The standard actions are known even if the program does not
// offer them, because a stored definition must have the same meaning everywhere.
func (c *flowCompiler) literals(uses string) []string {
	if s, ok := c.actions[uses].With.(interface{ Literal() []string }); ok {
		return s.Literal()
	}
	switch uses {
	case "exec":
		return []string{"/shell"}
	case "http":
		return []string{"/poll/until"}
	case "signal":
		return []string{"/schema"}
	}
	return nil
}

// conform reports the violations of a schema, each with its position. A draft contains expressions;
// it is checked only by a schema that can skip them.
func (c *flowCompiler) conform(what string, to workflow.Schema, raw json.RawMessage, n *yaml.Node, file string, draft bool) {
	check := to.Check
	if drafts, ok := to.(interface {
		CheckDraft(value json.RawMessage) error
	}); ok {
		check = drafts.CheckDraft
	} else if draft {
		return
	}
	err := check(raw)
	if err == nil {
		return
	}
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	for _, one := range all {
		at := n
		if placed, ok := one.(interface{ Path() []string }); ok {
			for _, step := range placed.Path() {
				if next := descend(at, step); next != nil {
					at = next
				}
			}
		}
		c.errorf(position{file, at.Line, at.Column}, "%s: %v", what, one)
	}
}

func descend(n *yaml.Node, step string) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1]
		}
	}
	return nil
}

func (c *flowCompiler) child(step *workflow.Step, s *stepDoc, here *scope) {
	step.Flow = s.flow.name.value
	if step.Flow != "" && !c.knowsFlow(step.Flow) {
		c.errorf(s.flow.name.at, "there is no flow %q%s", step.Flow, hint(step.Flow, c.flowNames()))
	}
	if c.doc.name.value != "" {
		c.calls[c.doc.name.value] = append(c.calls[c.doc.name.value], s.flow.name)
	}
	step.With = s.with
	if s.withNode != nil {
		step.Resolve = c.template(s.withNode, s.at.file, here, nil, "").resolve()
	}
	if f := c.flows[step.Flow]; f != nil && step.Resolve == nil && !c.expanded {
		if in := c.schema(f.input); in != nil {
			n, input := s.withNode, s.with
			if n == nil {
				n, input = &yaml.Node{Line: s.flow.name.at.line, Column: s.flow.name.at.column}, json.RawMessage("{}")
			}
			if filled, err := in.Default(input); err == nil {
				c.conform("with", in, filled, n, s.at.file, false)
			}
		}
	}
	if s.flow.subject.set() {
		t := c.stringTemplate(s.flow.subject, here)
		step.FlowSubject, step.FlowSubjectText = t.text(), s.flow.subject.value
	}
}

func (c *flowCompiler) wait(w *waitDoc, here *scope) *workflow.WaitFor {
	made := &workflow.WaitFor{For: w.duration, Signal: w.signal.value, Every: w.every, Deadline: w.deadline, OnTimeout: w.onTimeout}
	if s := c.schema(w.schema); s != nil {
		made.Schema = s
	}
	if w.until.set() {
		made.UntilText = w.until.value
		if at, err := time.Parse(time.RFC3339, w.until.value); err == nil {
			made.Until = func(workflow.View) (time.Time, error) { return at.UTC(), nil }
		} else if x := c.expression(w.until, 0, here, true, "a time", cel.TimestampType, cel.StringType); x != nil {
			made.Until = x.time()
		}
	}
	if w.condition.set() {
		made.ConditionText = w.condition.value
		if x := c.expression(w.condition, 0, here, true, "true or false", cel.BoolType); x != nil {
			made.Condition = x.predicate()
		}
	}
	return made
}

func (c *flowCompiler) when(step *workflow.Step, when text, here *scope) {
	if !when.set() {
		return
	}
	step.WhenText = when.value
	if x := c.expression(when, 0, here, false, "true or false", cel.BoolType); x != nil {
		step.When = x.predicate()
	}
}

func (c *flowCompiler) loop(l *loopDoc, here *scope) (*workflow.Loop, *scope) {
	made := &workflow.Loop{ListText: l.list.value, As: l.as.value, KeyText: l.key.value, Max: l.max}
	item := loopItem{l.as.value, cel.DynType}
	if l.list.set() {
		if x := c.expression(l.list, 0, here, false, "a list", cel.ListType(cel.DynType)); x != nil {
			made.List = x.list()
			if x.kind.Kind() == cel.ListKind {
				item.kind = x.kind.Parameters()[0]
			}
		}
	}
	inside := here.withItem(item)
	if l.key.set() {
		if x := c.expression(l.key, 0, inside, false, "a string or a whole number", cel.StringType, cel.IntType); x != nil {
			made.Key = (&template{parts: []part{{expression: x}}}).text()
		}
	}
	return made, inside
}

// expression compiles a text that is completely or partly CEL.
func (c *flowCompiler) expression(t text, shift int, here *scope, object bool, want string, kinds ...*cel.Type) *expression {
	x, issues := c.expressions.compile(t.value[shift:], exprContext{input: c.input, items: here.items, object: object})
	return c.checkExpression(t, shift, x, issues, here, want, kinds)
}

// checkExpression reports the issues of an expression and its forbidden reads.
func (c *flowCompiler) checkExpression(t text, shift int, x *expression, issues []issue, here *scope, want string, kinds []*cel.Type) *expression {
	for _, i := range issues {
		c.errorf(t.inside(shift+i.offset), "%s", i.message)
	}
	if len(issues) > 0 || x == nil {
		return nil
	}
	if kinds != nil && x.kind.Kind() != cel.DynKind && !slices.ContainsFunc(kinds, func(k *cel.Type) bool { return k.Kind() == x.kind.Kind() }) {
		c.errorf(t.inside(shift), "the expression returns %s, not %s", x.kind, want)
	}
	for _, r := range x.steps {
		if why := here.readable(r.name); why != "" {
			c.errorf(t.inside(shift+r.offset), "step %q %s", r.name, why)
		}
		if r.field != "phase" {
			c.reads = append(c.reads, r.name)
		}
	}
	c.readParams(t.inside(shift), x, here)
	return x
}

func (c *flowCompiler) readParams(at position, x *expression, here *scope) {
	if len(x.params) == 0 && !x.allParams || here.any {
		return
	}
	if here.params == nil {
		c.errorf(at, "params exists only in the steps of a group")
		return
	}
	used := c.usedParams[here.params]
	if used == nil {
		used = map[string]bool{}
		c.usedParams[here.params] = used
	}
	if x.allParams {
		used["*"] = true
	}
	var declared []string
	for _, p := range here.params.params {
		declared = append(declared, p.name.value)
	}
	for _, name := range x.params {
		used[name] = true
		if !slices.Contains(declared, name) {
			c.errorf(at, "group %s has no parameter %q%s", here.params.name.value, name, hint(name, declared))
		}
	}
}
