package flowfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// node is a step of the expanded flow: groups are resolved and every step has a name.
type node struct {
	doc         *stepDoc // nil for a branch
	branch      *branchDoc
	name        string
	at          position
	group       *groupDoc  // the group that it uses: children are the steps of the group
	groupName   string     // name of the group, in the expanded form
	params      *yaml.Node // parameters of the group, including defaults
	types       map[string]string
	children    []*node
	open, close *node
	policy      policy
}

// inside returns the steps within, in order.
func (n *node) inside() []*node {
	if n.open == nil || n.close == nil {
		return n.children
	}
	return slices.Concat([]*node{n.open}, n.children, []*node{n.close})
}

// expander converts the steps of one flow to nodes.
type expander struct {
	*library
	defaults policy
	count    int
	full     bool // the limit of steps was reported
}

func (l *library) expander(defaults policy) *expander {
	return &expander{library: l, defaults: defaults}
}

// sequence expands steps that share a namespace.
func (e *expander) sequence(steps []*stepDoc, depth int, names namespace) []*node {
	if depth > maxDepth && len(steps) > 0 {
		e.errorf(steps[0].at, "the steps are nested more than %d deep", maxDepth)
		return nil
	}
	e.assignNames(steps, names)
	nodes := make([]*node, 0, len(steps))
	for _, s := range steps {
		if e.full {
			break
		}
		nodes = append(nodes, e.node(s, names.of[s], depth))
	}
	return nodes
}

// namespace holds the names of siblings.
type namespace struct {
	taken map[string]position
	of    map[*stepDoc]string
}

func newNamespace() namespace { return namespace{map[string]position{}, map[*stepDoc]string{}} }

// assignNames names the steps. Explicit names come first. The other steps are named after the
// action or group that they use: Name, Name#2, Name#3.
func (e *expander) assignNames(steps []*stepDoc, names namespace) {
	for _, s := range steps {
		if name := s.name.value; name != "" {
			if other, ok := names.taken[name]; ok {
				e.errorf(s.name.at, "two steps are named %s (the first in line %d): the name of a step is unique among its siblings", name, other.line)
			} else {
				names.taken[name] = s.name.at
			}
			names.of[s] = name
		}
	}
	next := map[string]int{} // by base name: all lower numbers are in use
	for _, s := range steps {
		if s.name.value != "" || s.uses.value == "" {
			continue
		}
		base := s.uses.value
		if !namePattern.MatchString(base) {
			e.errorf(s.uses.at, "%q cannot serve as the name of the step: add a stepName", base)
		}
		name := base
		for n := max(next[base], 1); ; n++ {
			if n > 1 {
				name = fmt.Sprintf("%s#%d", base, n)
			}
			if _, ok := names.taken[name]; !ok {
				next[base] = n + 1
				break
			}
		}
		names.taken[name] = s.at
		names.of[s] = name
	}
}

// countOne counts a step. It returns false when the limit is exceeded.
func (e *expander) countOne(at position) bool {
	e.count++
	if e.count > maxSteps && !e.full {
		e.full = true
		e.errorf(at, "the flow has more than %d steps once its groups are expanded", maxSteps)
	}
	return !e.full
}

func (e *expander) node(s *stepDoc, name string, depth int) *node {
	n := &node{doc: s, name: name, at: s.at}
	if !e.countOne(s.at) {
		return n
	}
	inner := newNamespace()
	if b := s.bracket; b != nil {
		for _, end := range []*stepDoc{b.open, b.close} {
			if end != nil {
				e.assignNames([]*stepDoc{end}, inner)
			}
		}
		if b.open != nil {
			n.open = e.node(b.open, inner.of[b.open], depth+1)
		}
		if b.close != nil {
			n.close = e.node(b.close, inner.of[b.close], depth+1)
		}
	}
	switch {
	case s.hasBody:
		n.groupName = s.group
		if n.groupName != "" {
			n.params, n.types = s.withNode, s.types
		}
		n.children = e.sequence(s.body, depth+1, inner)
	case s.parallel != nil:
		n.children = e.branches(s.parallel, depth+1)
	case s.uses.value != "":
		e.expandGroup(n, depth, inner)
	}
	if n.children == nil {
		n.policy = s.policy.over(e.defaults)
	}
	if s.bracket != nil && n.children == nil && !s.structure() && s.uses.value != "" {
		e.errorf(s.at, "a bracket encloses steps or a group, not an action")
	}
	return n
}

func (e *expander) branches(p *parallelDoc, depth int) []*node {
	if depth > maxDepth {
		return nil
	}
	nodes := make([]*node, 0, len(p.branches))
	taken := map[string]bool{}
	for _, b := range p.branches {
		n := &node{branch: b, name: b.name.value, at: b.at}
		if n.name != "" && taken[n.name] {
			e.errorf(b.name.at, "two branches are named %s", n.name)
		}
		taken[n.name] = true
		if !e.countOne(b.at) {
			break
		}
		n.children = e.sequence(b.steps, depth+1, newNamespace())
		nodes = append(nodes, n)
	}
	return nodes
}

// expandGroup resolves className: to a group or an action.
func (e *expander) expandGroup(n *node, depth int, names namespace) {
	s := n.doc
	g := e.groups[s.uses.value]
	if g == nil {
		e.knowsAction(s.uses)
		return
	}
	for _, key := range structureForbids {
		if s.found[key] != nil && key != "with" {
			e.errorf(position{s.at.file, s.found[key].Line, s.found[key].Column}, "%s has no effect on a step that uses a group: put it on the steps of %s", key, g.name.value)
		}
	}
	n.group, n.groupName = g, g.name.value
	e.reached[g] = true
	n.params, n.types = e.merge(s, g), map[string]string{}
	for _, p := range g.params {
		if p.kind != "any" {
			n.types[p.name.value] = p.kind
		}
	}
	if e.cyclic[g] {
		n.children = []*node{}
		return
	}
	n.children = e.sequence(g.steps, depth+1, names)
}

// knowsAction records a name that is neither a group nor an action.
func (l *library) knowsAction(uses text) {
	if _, ok := l.actions[uses.value]; ok || l.expanded || uses.value == "" {
		return
	}
	if !slices.Contains(l.unknown[uses.value], uses.at) {
		l.unknown[uses.value] = append(l.unknown[uses.value], uses.at)
	}
}

// maxPositions is the number of additional positions that a finding lists.
const maxPositions = 3

// reportUnknown reports each unknown name once, at the first position that uses it, because many
// steps may use an action that another program registers.
func (l *library) reportUnknown() {
	for _, name := range keysOf(l.unknown) {
		positions := l.unknown[name]
		slices.SortFunc(positions, func(a, b position) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
		})
		near := hint(name, append(keysOf(l.actions), keysOf(l.groups)...))
		message := fmt.Sprintf("there is neither an action nor a group %q%s", name, near)
		if l.options.AnyAction {
			message = fmt.Sprintf("the action %q is not known here%s", name, near)
		}
		l.add(positions[0], l.options.AnyAction, "%s%s", message, alsoAt(positions[1:]))
	}
}

// alsoAt lists the other positions of a finding.
func alsoAt(positions []position) string {
	if len(positions) == 0 {
		return ""
	}
	var named []string
	for _, place := range positions[:min(len(positions), maxPositions)] {
		named = append(named, fmt.Sprintf("%s:%d:%d", place.file, place.line, place.column))
	}
	text := fmt.Sprintf("; used %d times, also at %s", len(positions)+1, strings.Join(named, ", "))
	if more := len(positions) - maxPositions; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// merge returns the parameters of a use: its own values and the defaults of the group.
func (e *expander) merge(s *stepDoc, g *groupDoc) *yaml.Node {
	merged := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: s.at.line, Column: s.at.column}
	given := map[string]bool{}
	declared := map[string]*paramDoc{}
	for _, p := range g.params {
		declared[p.name.value] = p
	}
	if s.withNode != nil && s.withNode.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(s.withNode.Content); i += 2 {
			key, value := s.withNode.Content[i], s.withNode.Content[i+1]
			at := position{s.at.file, key.Line, key.Column}
			p := declared[key.Value]
			if p == nil {
				e.errorf(at, "group %s has no parameter %q%s", g.name.value, key.Value, hint(key.Value, keysOf(declared)))
				continue
			}
			given[key.Value] = true
			if !holdsExpression(value) {
				quiet := &reader{report: &report{}}
				if v := quiet.value(value); !fits(p.kind, v) {
					e.errorf(position{s.at.file, value.Line, value.Column}, "parameter %s of group %s is of type %s, not %s", p.name.value, g.name.value, p.kind, plain.Kind(value))
				}
			}
			merged.Content = append(merged.Content, key, value)
		}
	}
	var lacks []string
	for _, p := range g.params {
		switch {
		case given[p.name.value] || p.name.value == "":
		case p.defaultValue != nil:
			merged.Content = append(merged.Content, scalar(p.name.value), nodeOf(p.defaultValue))
		case p.required:
			lacks = append(lacks, p.name.value)
		}
	}
	if len(lacks) > 0 {
		e.errorf(s.at, "group %s needs the parameter %s", g.name.value, strings.Join(lacks, ", "))
	}
	return merged
}

func scalar(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// checkCycles marks the groups that contain themselves and reports each cycle once.
func (l *library) checkCycles() {
	const visiting, done = 1, 2
	state := map[*groupDoc]int{}
	var trail []*groupDoc
	var visit func(g *groupDoc)
	visit = func(g *groupDoc) {
		state[g] = visiting
		trail = append(trail, g)
		everyStep(g.steps, func(s *stepDoc) {
			next := l.groups[s.uses.value]
			if next == nil {
				return
			}
			switch state[next] {
			case visiting:
				from := slices.Index(trail, next)
				var names []string
				for _, member := range trail[from:] {
					l.cyclic[member] = true
					names = append(names, member.name.value)
				}
				l.errorf(s.uses.at, "the group contains itself: %s", strings.Join(append(names, next.name.value), " → "))
			case 0:
				visit(next)
			}
		})
		trail = trail[:len(trail)-1]
		state[g] = done
	}
	for _, name := range keysOf(l.groups) {
		if g := l.groups[name]; state[g] == 0 {
			visit(g)
		}
	}
}

// checkChildren reports flows that start themselves through sub-flows, and chains that are too
// long.
func (l *library) checkChildren() {
	depth := map[string]int{}
	var trail []string
	var visit func(name string) int
	visit = func(name string) int {
		if d, ok := depth[name]; ok {
			return d
		}
		trail = append(trail, name)
		deepest := 0
		for _, call := range l.calls[name] {
			if from := slices.Index(trail, call.value); from >= 0 {
				l.errorf(call.at, "the flow starts itself: %s", strings.Join(append(slices.Clone(trail[from:]), call.value), " → "))
				continue
			}
			d := 1 + visit(call.value)
			if d == maxFlowDepth+1 {
				l.errorf(call.at, "sub-flows are nested more than %d deep", maxFlowDepth)
			}
			deepest = max(deepest, d)
		}
		trail = trail[:len(trail)-1]
		depth[name] = deepest
		return deepest
	}
	for _, f := range l.order {
		visit(f.name.value)
	}
}

func (l *library) knowsFlow(name string) bool {
	return l.expanded || l.flows[name] != nil || slices.Contains(l.options.Flows, name)
}

func (l *library) flowNames() []string { return append(keysOf(l.flows), l.options.Flows...) }
