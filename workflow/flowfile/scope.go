package flowfile

import (
	"slices"
	"strings"
)

// scope defines the names that the expressions of a step may read. Like View.Step, it looks up a
// name from the innermost structure outward.
type scope struct {
	outer     *scope
	of        *node // the structure of this scope; nil at the top
	names     map[string]*node
	before    map[string]bool // names of earlier steps
	parallel  bool            // the names are branches, which run side by side
	items     []loopItem
	params    *groupDoc // the group whose parameters may be read; nil: see any
	any       bool      // the names of the parameters are unknown
	openEnded bool      // the outermost scope is unknown: a group that no flow uses
	now       *node     // the step whose expressions are compiled
	self      string    // name of the step, if its expression may read its own output
}

// within returns the scope inside a structure.
func (s *scope) within(n *node) *scope {
	inner := &scope{outer: s, of: n, names: map[string]*node{}, before: map[string]bool{}, items: s.items, params: s.params, any: s.any, openEnded: s.openEnded}
	for _, child := range n.inside() {
		inner.names[child.name] = child
	}
	return inner
}

// withSelf returns the scope of an undo, which may read its own step.
func (s *scope) withSelf(name string) *scope {
	c := *s
	c.self = name
	return &c
}

// withItem returns the scope of the body and the key of a loop.
func (s *scope) withItem(item loopItem) *scope {
	c := *s
	c.items = append(slices.DeleteFunc(slices.Clone(s.items), func(i loopItem) bool { return i.name == item.name }), item)
	return &c
}

// readable returns why a step with this name cannot be read here; "" if it can.
func (s *scope) readable(name string) string {
	var chain []*scope // from the innermost outward
	for here := s; here != nil; here = here.outer {
		chain = append(chain, here)
	}
	answer := ""
	for i := range chain {
		why, found := at(chain, i, name)
		if found && why == "" {
			return ""
		}
		if answer == "" {
			answer = why
		}
	}
	if answer != "" || s.openEnded {
		return answer
	}
	return "does not exist" + s.suggest(name)
}

// at looks up a name in one scope of the chain.
func at(chain []*scope, i int, name string) (why string, found bool) {
	here := chain[i]
	head, rest := cut(name)
	n := here.names[head]
	switch {
	case n == nil:
		return "", false
	case i > 0 && chain[i-1].of == n: // a structure that contains the reader: the rest of the name decides
		if rest == "" {
			return "is not done yet: this step is inside it", true
		}
		if why, found := at(chain, i-1, rest); found {
			return why, true
		}
		return n.whyMissing(rest), true
	case here.before[head] || here.self == head:
		return n.whyMissing(rest), true
	case here.parallel:
		return "runs beside this step: its output may not exist yet", true
	case i == 0 && n == here.now && n.doc != nil && n.doc.forEach != nil:
		return "is a loop: put its action into steps, then the undo can read the output of its own iteration", true
	case i == 0 && n == here.now:
		return "is this step itself: its output does not exist yet", true
	}
	return "comes later: its output does not exist yet", true
}

// whyMissing returns why a path does not lead to a step within n; "" if it does.
func (n *node) whyMissing(path string) string {
	for path != "" {
		var head string
		head, path = cut(path)
		i := slices.IndexFunc(n.inside(), func(child *node) bool { return child.name == head })
		if i < 0 {
			return "does not exist: " + n.name + " has no step " + head
		}
		n = n.inside()[i]
	}
	return ""
}

// cut splits the first name off an instance path and removes the key of a loop.
func cut(path string) (head, rest string) {
	depth := 0
	for i := range len(path) {
		switch path[i] {
		case '[':
			depth++
		case ']':
			depth--
		case '/':
			if depth == 0 {
				head, rest = path[:i], path[i+1:]
				return dropKey(head), rest
			}
		}
	}
	return dropKey(path), ""
}

func dropKey(name string) string {
	if i := strings.IndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		return name[:i]
	}
	return name
}

// suggest returns a suggestion: a similar name that can be read, or a step with this name inside a
// structure.
func (s *scope) suggest(name string) string {
	var reach []string
	for here := s; here != nil; here = here.outer {
		for known := range here.before {
			if known == name {
				continue
			}
			reach = append(reach, known)
			if path := here.names[known].pathTo(name); path != "" {
				return " (did you mean steps[\"" + path + "\"]?)"
			}
		}
	}
	return hint(name, reach)
}

func (n *node) pathTo(name string) string {
	for _, child := range n.inside() {
		if child.name == name {
			return n.name + "/" + name
		}
		if path := child.pathTo(name); path != "" {
			return n.name + "/" + path
		}
	}
	return ""
}
