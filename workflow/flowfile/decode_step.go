package flowfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
	"github.com/pawl-dev/pawl/workflow/limit"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// maxDepth is the nesting limit of groups, loops and brackets.
const maxDepth = 16

func (r *reader) steps(what string, to *[]*stepDoc, depth int) read {
	return func(n *yaml.Node) {
		if depth > maxDepth {
			r.problem(n, "the steps are nested more than %d deep", maxDepth)
			return
		}
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			r.problem(n, "%s is empty", what)
		}
		r.list(what, func(n *yaml.Node) {
			if plain.IsNull(n) {
				r.problem(n, "a step is empty")
				return
			}
			*to = append(*to, r.step(n, "a step", depth))
		})(n)
	}
}

func (r *reader) step(n *yaml.Node, what string, depth int) *stepDoc {
	s := &stepDoc{at: r.position(n)}
	keys := map[string]read{
		"stepName":    r.name("stepName", &s.name),
		"className":   r.text("className", &s.uses),
		"uses":        r.text("uses", &s.uses),
		"description": r.prose("description", &s.description),
		"with":        func(n *yaml.Node) { s.with, s.withNode = r.with(n), n },
		"when":        r.text("when", &s.when),
		"undo":        func(n *yaml.Node) { s.undo = r.call(n, "undo") },
		"noReturn":    r.flag("noReturn", &s.noReturn),
		"wait":        func(n *yaml.Node) { s.wait = r.wait(n) },
		"steps":       func(n *yaml.Node) { s.hasBody = true; r.steps("steps", &s.body, depth+1)(n) },
		"parallel":    func(n *yaml.Node) { s.parallel = r.parallel(n, depth+1) },
		"forEach":     func(n *yaml.Node) { s.forEach = r.loop(n) },
		"bracket":     func(n *yaml.Node) { s.bracket = r.bracket(n, depth+1) },
		"flow":        func(n *yaml.Node) { s.flow = r.child(n) },
		"output":      r.schema("output", &s.output),
		"secrets":     func(n *yaml.Node) { s.secrets = r.secrets(n) },
		"limits": r.list("limits", func(n *yaml.Node) {
			s.limits = append(s.limits, r.limit(n, "a limit of a step", limit.MaxAtOnce, s.limits))
		}),
	}
	for key, reads := range r.policyKeys(&s.policy) {
		keys[key] = reads
	}
	if r.expanded {
		keys["group"] = r.prose("group", &s.group)
		keys["types"] = func(n *yaml.Node) {
			s.types = map[string]string{}
			r.entries(n, "types", func(key, value *yaml.Node) {
				kind := ""
				choice(r, "type", &kind, paramKinds...)(value)
				s.types[key.Value] = kind
			})
		}
		keys["maxOutput"] = r.whole("maxOutput", 1, &s.maxOutput)
	}
	s.found = r.object(n, what, keys)
	if n.Kind == yaml.MappingNode {
		r.exactlyOne(n, s)
	}
	return s
}

// exactlyOne reports keys of a step that contradict each other.
func (r *reader) exactlyOne(n *yaml.Node, s *stepDoc) {
	has := func(key string) bool { return s.found[key] != nil }
	if has("uses") && has("className") {
		r.problem(s.found["uses"], "uses and className mean the same: keep one of them")
	}
	var works []string
	for _, key := range []string{"className", "uses", "flow", "steps", "parallel"} {
		if has(key) && (key != "uses" || !has("className")) {
			works = append(works, key)
		}
	}
	switch {
	case len(works) > 1:
		r.problem(s.found[works[1]], "a step has one kind: %s and %s cannot be combined", works[0], works[1])
	case len(works) == 0 && has("bracket"):
		r.problem(s.found["bracket"], "a bracket needs steps between its open and its close")
	case len(works) == 0 && has("forEach") && !has("wait"):
		r.problem(s.found["forEach"], "a forEach needs a body: steps, uses or flow")
	case len(works) == 0 && !has("wait"):
		r.problem(n, "the step does nothing: give it uses, wait, steps, parallel, forEach or flow")
	}
	if !has("stepName") && !has("className") && !has("uses") {
		r.problem(n, "stepName is missing")
	}
	if len(s.limits) > runtype.MaxLimits {
		r.problem(s.found["limits"], "a step has at most %d limits", runtype.MaxLimits)
	}
	if s.structure() {
		for _, key := range structureForbids {
			if has(key) && !(key == "with" && r.expanded && s.group != "") {
				r.problem(s.found[key], "%s has no effect on a step that is a structure: put it on the steps within", key)
			}
		}
	}
	if has("flow") {
		for _, key := range []string{"heartbeat", "secrets", "limits"} {
			if has(key) {
				r.problem(s.found[key], "%s has no effect on a step that is a flow", key)
			}
		}
	}
	if s.wait != nil && len(works) > 0 && !s.structure() {
		r.waitBeside(s)
	}
	if s.wait != nil && len(works) == 0 {
		for _, key := range []string{"with", "secrets", "limits"} {
			if has(key) {
				r.problem(s.found[key], "%s has no effect on a step that only waits", key)
			}
		}
		r.waitAlone(s)
	}
}

// structure reports whether the step contains steps that are written in place.
func (s *stepDoc) structure() bool { return s.hasBody || s.parallel != nil }

var structureForbids = []string{"with", "retry", "timeout", "heartbeat", "grace", "skippable", "undo", "noReturn", "wait", "output", "secrets", "limits"}

func (r *reader) waitBeside(s *stepDoc) {
	for what, set := range map[string]bool{"for": s.wait.duration > 0, "until": s.wait.until.set(), "signal": s.wait.signal.set(),
		"condition": s.wait.condition.set(), "schema": s.wait.schema != nil} {
		if set {
			r.errorf(s.wait.at, "wait.%s waits by itself: beside an action or a flow only deadline, every and onTimeout have a meaning", what)
		}
	}
}

func (r *reader) waitAlone(s *stepDoc) {
	n := 0
	for _, set := range []bool{s.wait.duration > 0, s.wait.until.set(), s.wait.signal.set(), s.wait.condition.set()} {
		if set {
			n++
		}
	}
	if n != 1 {
		r.errorf(s.wait.at, "a wait needs exactly one of for, until, signal and condition")
	}
}

func (r *reader) policyKeys(p *policy) map[string]read {
	return map[string]read{
		"retry": func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				r.problem(n, "retry must be a mapping, not %s: write {attempts: %s}", plain.Kind(n), n.Value)
				return
			}
			var factor *float64
			r.object(n, "retry", map[string]read{
				"attempts": r.whole("attempts", 1, &p.retry.Attempts),
				"first":    r.duration("first", &p.retry.First),
				"factor":   r.number("factor", 1, 1000, &factor),
				"longest":  r.duration("longest", &p.retry.Longest),
				"jitter":   r.number("jitter", 0, 1, &p.jitter),
				"not":      r.list("not", func(n *yaml.Node) { p.retry.Not = append(p.retry.Not, r.code(n)) }),
			})
			if factor != nil {
				p.retry.Factor = *factor
			}
			if p.retry.First > 0 && p.retry.Longest > 0 && p.retry.First > p.retry.Longest {
				r.problem(n, "first is longer than longest")
			}
		},
		"timeout":   r.duration("timeout", &p.timeout),
		"heartbeat": r.duration("heartbeat", &p.heartbeat),
		"grace":     r.duration("grace", &p.grace),
		"skippable": func(n *yaml.Node) {
			var v bool
			r.flag("skippable", &v)(n)
			p.skippable = &v
		},
	}
}

// over returns the policy; unset fields come from the defaults.
func (p policy) over(defaults policy) policy {
	take := func(to *policy, from policy) {
		if to.retry.Attempts == 0 {
			to.retry.Attempts = from.retry.Attempts
		}
		if to.retry.First == 0 {
			to.retry.First = from.retry.First
		}
		if to.retry.Factor == 0 {
			to.retry.Factor = from.retry.Factor
		}
		if to.retry.Longest == 0 {
			to.retry.Longest = from.retry.Longest
		}
		if to.retry.Not == nil {
			to.retry.Not = from.retry.Not
		}
		if to.jitter == nil {
			to.jitter = from.jitter
		}
		if to.timeout == 0 {
			to.timeout = from.timeout
		}
		if to.heartbeat == 0 {
			to.heartbeat = from.heartbeat
		}
		if to.grace == 0 {
			to.grace = from.grace
		}
		if to.skippable == nil {
			to.skippable = from.skippable
		}
	}
	take(&p, defaults)
	return p
}

// whole returns the retry policy for the engine, which expects a negative number for no jitter.
func (p policy) whole() workflow.Retry {
	retry := p.retry
	if p.jitter != nil {
		if retry.Jitter = *p.jitter; retry.Jitter == 0 {
			retry.Jitter = -1
		}
	}
	return retry
}

func (r *reader) code(n *yaml.Node) fault.Code {
	if n.Kind != yaml.ScalarNode || !isCode(n.Value) {
		r.problem(n, "a fault code is UPPER_SNAKE, not %s", plain.Kind(n))
		return ""
	}
	return fault.Code(n.Value)
}

func isCode(s string) bool {
	for word := range strings.SplitSeq(s, "_") {
		if word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return s[0] >= 'A'
}

func (r *reader) with(n *yaml.Node) []byte {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "with must be a mapping, not %s", plain.Kind(n))
		return nil
	}
	return r.json(n)
}

func (r *reader) call(n *yaml.Node, what string) *callDoc {
	c := &callDoc{}
	found := r.object(n, what, map[string]read{
		"uses":      r.text("uses", &c.uses),
		"className": r.text("className", &c.uses),
		"with":      func(n *yaml.Node) { c.with, c.withNode = r.with(n), n },
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case found["uses"] != nil && found["className"] != nil:
		r.problem(found["uses"], "uses and className mean the same: keep one of them")
	case found["uses"] == nil && found["className"] == nil:
		r.problem(n, "%s needs uses: the name of an action", what)
	}
	return c
}

func (r *reader) wait(n *yaml.Node) *waitDoc {
	w := &waitDoc{at: r.position(n)}
	found := r.object(n, "wait", map[string]read{
		"for":       r.duration("for", &w.duration),
		"until":     r.text("until", &w.until),
		"signal":    r.text("signal", &w.signal),
		"schema":    r.schema("schema", &w.schema),
		"condition": r.text("condition", &w.condition),
		"every":     r.duration("every", &w.every),
		"deadline":  r.duration("deadline", &w.deadline),
		"onTimeout": choice(r, "onTimeout", &w.onTimeout, workflow.TimeoutFail, workflow.TimeoutContinue, workflow.TimeoutUndo),
	})
	if strings.HasPrefix(w.signal.value, "pawl/") {
		r.problem(n, "signals whose name begins with pawl/ are reserved for the engine")
	}
	if w.schema != nil && found["signal"] == nil {
		r.problem(found["schema"], "schema describes the payload of a signal, but there is no signal")
	}
	if found["onTimeout"] != nil && found["deadline"] == nil {
		r.problem(found["onTimeout"], "onTimeout without deadline has no effect")
	}
	if w.every > 0 && (w.duration > 0 || w.until.set() || w.signal.set()) {
		r.problem(found["every"], "every has a meaning for conditions only")
	}
	return w
}

func (r *reader) parallel(n *yaml.Node, depth int) *parallelDoc {
	p := &parallelDoc{}
	found := r.object(n, "parallel", map[string]read{
		"max": r.whole("max", 1, &p.max),
		"branches": r.list("branches", func(n *yaml.Node) {
			b := &branchDoc{at: r.position(n)}
			found := r.object(n, "a branch", map[string]read{
				"name":        r.name("name", &b.name),
				"description": r.prose("description", &b.description),
				"when":        r.text("when", &b.when),
				"steps":       r.steps("steps", &b.steps, depth+1),
			})
			p.branches = append(p.branches, b)
			for _, key := range []string{"name", "steps"} {
				if n.Kind == yaml.MappingNode && found[key] == nil {
					r.problem(n, "the branch has no %s", key)
				}
			}
		}),
	})
	if n.Kind == yaml.MappingNode && found["branches"] == nil {
		r.problem(n, "parallel has no branches")
	} else if found["branches"] != nil && len(p.branches) == 0 {
		r.problem(found["branches"], "branches is empty")
	}
	return p
}

func (r *reader) loop(n *yaml.Node) *loopDoc {
	l := &loopDoc{at: r.position(n)}
	found := r.object(n, "forEach", map[string]read{
		"list": r.text("list", &l.list),
		"as":   r.identifier("as", &l.as),
		"key":  r.text("key", &l.key),
		"max":  r.whole("max", 1, &l.max),
	})
	if n.Kind == yaml.MappingNode && found["list"] == nil {
		r.problem(n, "forEach has no list")
	}
	if slices.Contains(reservedNames, l.as.value) {
		r.errorf(l.as.at, "as %q would hide the variable of that name: choose another", l.as.value)
	}
	if l.as.value == "" {
		l.as.value = "item"
	}
	return l
}

func (r *reader) bracket(n *yaml.Node, depth int) *bracketDoc {
	b := &bracketDoc{}
	side := func(name string, to **stepDoc) read {
		return func(n *yaml.Node) {
			if n.Kind != yaml.MappingNode {
				r.problem(n, "%s must be a step, not %s", name, plain.Kind(n))
				return
			}
			*to = r.bracketStep(n, name, depth)
		}
	}
	found := r.object(n, "bracket", map[string]read{"open": side("open", &b.open), "close": side("close", &b.close)})
	for _, key := range []string{"open", "close"} {
		if n.Kind == yaml.MappingNode && found[key] == nil {
			r.problem(n, "the bracket has no %s", key)
		}
	}
	return b
}

// bracketStep decodes the open or close of a bracket: one action. Its default name is that of its
// side.
func (r *reader) bracketStep(n *yaml.Node, side string, depth int) *stepDoc {
	s := r.step(n, "the "+side+" of a bracket", depth)
	if s.found["stepName"] == nil {
		s.name = text{value: side, at: s.at}
	}
	for _, key := range []string{"steps", "parallel", "forEach", "bracket", "flow", "when", "skippable"} {
		if s.found[key] != nil {
			r.problem(s.found[key], "the %s of a bracket is one action: it has no %s", side, key)
		}
	}
	s.hasBody, s.parallel, s.forEach, s.bracket, s.flow, s.body = false, nil, nil, nil, nil, nil
	return s
}

func (r *reader) child(n *yaml.Node) *childDoc {
	c := &childDoc{}
	if n.Kind == yaml.ScalarNode {
		r.name("flow", &c.name)(n)
		return c
	}
	found := r.object(n, "flow", map[string]read{
		"name":    r.name("name", &c.name),
		"subject": r.text("subject", &c.subject),
	})
	if n.Kind == yaml.MappingNode && found["name"] == nil {
		r.problem(n, "flow has no name")
	}
	return c
}

func (r *reader) secrets(n *yaml.Node) map[string]workflow.SecretRef {
	refs := map[string]workflow.SecretRef{}
	r.entries(n, "secrets", func(key, value *yaml.Node) {
		found := r.object(value, "a secret", map[string]read{
			"secretRef": func(n *yaml.Node) { refs[key.Value] = r.secretRef(n) },
		})
		if value.Kind == yaml.MappingNode && found["secretRef"] == nil {
			r.problem(value, "the secret has no secretRef: {name, key}")
		}
	})
	return refs
}

func (r *reader) secretRef(n *yaml.Node) workflow.SecretRef {
	var name, key text
	found := r.object(n, "secretRef", map[string]read{"name": r.text("name", &name), "key": r.text("key", &key)})
	if n.Kind == yaml.MappingNode && found["name"] == nil {
		r.problem(n, "secretRef has no name")
	}
	return workflow.SecretRef{Name: name.value, Key: key.value}
}
