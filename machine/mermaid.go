package machine

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws the table as a state diagram. The drawing depends on the table only.
func (t Table[T]) Mermaid() string { return t.Graph().Mermaid() }

// Mermaid draws the graph as a state diagram.
func (g Graph) Mermaid() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "    "+format+"\n", args...) }
	from := map[State][]GraphTransition{}
	for _, t := range g.Transitions {
		from[t.From] = append(from[t.From], t)
	}
	b.WriteString("stateDiagram-v2\n")
	line("[*] --> %s", g.Initial)
	if len(from[""]) > 0 {
		line(`state "any state" as any_state`)
		for _, t := range from[""] {
			line("any_state --> %s : %s", t.To, escape(t.Event))
		}
	}
	var working []string
	for _, s := range g.States {
		if len(s.Flows) > 0 {
			line("%s : %s", s.Name, escape(strings.Join(s.Flows, ", ")))
		}
		if s.Type == Transient {
			working = append(working, string(s.Name))
		}
		for _, t := range from[s.Name] {
			line("%s --> %s : %s", s.Name, t.To, escape(t.label()))
		}
		if s.Type == Final {
			line("%s --> [*]", s.Name)
		}
	}
	if len(working) > 0 {
		line("classDef works stroke-dasharray: 5 5")
		line("class %s works", strings.Join(working, ","))
	}
	return b.String()
}

// label returns what stands at the transition in a drawing.
func (t GraphTransition) label() string {
	switch {
	case t.Cause == ByThen:
		return "done"
	case t.Cause == ByElse && t.To == t.From:
		return "paused, stays"
	case t.Cause == ByElse:
		return "paused"
	case t.Cause == ByAbort:
		return "cancelled"
	default:
		return t.Event
	}
}

// flows returns the flows of a state, its own first.
func (t Table[T]) flows(s State) []string {
	flows := []string{t.States[s].Flow}
	for _, from := range t.order() {
		for _, tr := range t.States[from].On {
			if tr.To == s && tr.Flow != "" && !slices.Contains(flows, tr.Flow) {
				flows = append(flows, tr.Flow)
			}
		}
	}
	for _, tr := range t.Any {
		if tr.To == s && tr.Flow != "" && !slices.Contains(flows, tr.Flow) {
			flows = append(flows, tr.Flow)
		}
	}
	return flows
}

// Mermaid draws the machine.
func (m *Machine[T]) Mermaid() string { return m.table.Mermaid() }

// order returns the states in the order in which they are reached from the initial one.
func (t Table[T]) order() []State {
	var out []State
	todo := []State{t.Initial}
	for _, tr := range t.Any {
		todo = append(todo, tr.To)
	}
	for i := 0; i < len(todo); i++ {
		s := todo[i]
		p, ok := t.States[s]
		if !ok || slices.Contains(out, s) {
			continue
		}
		out = append(out, s)
		var next []State
		for _, tr := range p.On {
			next = append(next, tr.To)
		}
		if p.Transient() {
			next = append(next, p.Then, p.elseState(t), p.Abort)
		}
		todo = slices.Insert(todo, i+1, next...)
	}
	return out
}

// escape escapes the characters that Mermaid reads.
func escape(text string) string {
	return strings.NewReplacer("\n", " ", ":", " ", ";", ",", "#", "", `"`, "'").Replace(text)
}
