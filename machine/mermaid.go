package machine

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws the table as a state diagram. The drawing depends on the table only.
func (t Table[T]) Mermaid() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "    "+format+"\n", args...) }
	b.WriteString("stateDiagram-v2\n")
	line("[*] --> %s", t.Initial)
	if len(t.Any) > 0 {
		line(`state "any state" as any_state`)
		for _, tr := range t.Any {
			line("any_state --> %s : %s", tr.To, escape(tr.Event))
		}
	}
	var working []string
	for _, s := range t.order() {
		p := t.States[s]
		if p.Flow != "" {
			line("%s : %s", s, escape(strings.Join(t.flows(s), ", ")))
		}
		if p.Transient() {
			working = append(working, string(s))
		}
		for _, tr := range p.On {
			line("%s --> %s : %s", s, tr.To, escape(tr.Event))
		}
		if p.Transient() {
			line("%s --> %s : done", s, p.Then)
			if other := p.elseState(t); other == s {
				line("%s --> %s : paused, stays", s, s)
			} else {
				line("%s --> %s : paused", s, other)
			}
			if p.Abort != "" {
				line("%s --> %s : cancelled", s, p.Abort)
			}
		}
		if p.Final() {
			line("%s --> [*]", s)
		}
	}
	if len(working) > 0 {
		line("classDef works stroke-dasharray: 5 5")
		line("class %s works", strings.Join(working, ","))
	}
	return b.String()
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
