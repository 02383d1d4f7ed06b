package flowfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
)

// Graph draws a flow in Mermaid: groups, loops, brackets and parallel branches are frames, waits
// are hexagons, sub-flows have double sides. ↶ marks a step with an undo, ⊘ a step after which the
// run cannot be undone.
func Graph(flow workflow.Flow) string {
	g := &grapher{}
	g.line("flowchart TD")
	g.depth++
	g.line(`start(["%s"])`, label(flow.Name))
	last := g.sequence(flow.Steps, "start")
	if len(flow.Finally) > 0 {
		id := g.open("finally", "")
		g.sequence(flow.Finally, "")
		g.close()
		g.line("%s -.-> %s", last, id)
		last = id
	}
	g.line(`done(["done"])`)
	g.line("%s --> done", last)
	return g.b.String()
}

type grapher struct {
	b     strings.Builder
	count int
	depth int
}

func (g *grapher) line(format string, args ...any) {
	fmt.Fprintf(&g.b, strings.Repeat("  ", g.depth)+format+"\n", args...)
}

func (g *grapher) id() string {
	g.count++
	return "s" + strconv.Itoa(g.count)
}

// open starts a frame.
func (g *grapher) open(title, note string) string {
	id := g.id()
	if note != "" {
		title += "<br/>" + note
	}
	g.line(`subgraph %s["%s"]`, id, title)
	g.depth++
	return id
}

func (g *grapher) close() {
	g.depth--
	g.line("end")
}

// sequence draws steps one after the other and returns the id of the last one.
func (g *grapher) sequence(steps []workflow.Step, from string) string {
	for i := range steps {
		id := g.step(&steps[i])
		if from != "" {
			g.line("%s --> %s", from, id)
		}
		from = id
	}
	return from
}

func (g *grapher) step(s *workflow.Step) string {
	var notes []string
	if s.WhenText != "" {
		notes = append(notes, "when "+s.WhenText)
	}
	if l := s.ForEach; l != nil {
		as, most := l.As, max(l.Max, 1)
		if as == "" {
			as = "item"
		}
		notes = append(notes, fmt.Sprintf("⟳ each %s of %s, %d at once", as, l.ListText, most))
	}
	if len(s.Steps) > 0 {
		return g.frame(s, notes)
	}
	if s.Uses != "" && s.Uses != s.Name {
		notes = append([]string{s.Uses}, notes...)
	}
	if s.Undo != nil || s.UndoCall != nil {
		undo := "↶"
		if s.UndoCall != nil {
			undo += " " + s.UndoCall.Uses
		}
		notes = append(notes, undo)
	}
	if s.NoReturn {
		notes = append(notes, "⊘ no return")
	}
	left, right := "[", "]"
	switch {
	case s.Flow != "":
		left, right = "[[", "]]"
		notes = append([]string{"flow " + s.Flow}, notes...)
	case s.Do == nil && s.Uses == "" && s.Wait != nil:
		left, right = "{{", "}}"
		notes = append([]string{waitNote(s.Wait)}, notes...)
	}
	id := g.id()
	g.line(`%s%s"%s"%s`, id, left, title(s.Name, notes), right)
	return id
}

func (g *grapher) frame(s *workflow.Step, notes []string) string {
	if s.Parallel > 0 {
		notes = append(notes, fmt.Sprintf("side by side, %d at once", min(s.Parallel, len(s.Steps))))
	}
	id := g.open(title(s.Name, notes), "")
	before := ""
	if s.Open != nil {
		before = g.bracketEnd(s.Open, `[/"%s"\]`)
	}
	switch {
	case s.Parallel > 0 && s.Open != nil:
		inner := g.open("side by side", "")
		for i := range s.Steps {
			g.step(&s.Steps[i])
		}
		g.close()
		g.line("%s --> %s", before, inner)
		before = inner
	case s.Parallel > 0:
		for i := range s.Steps {
			g.step(&s.Steps[i])
		}
	default:
		before = g.sequence(s.Steps, before)
	}
	if s.Close != nil {
		g.line("%s --> %s", before, g.bracketEnd(s.Close, `[\"%s"/]`))
	}
	g.close()
	return id
}

// bracketEnd draws the open or close of a bracket.
func (g *grapher) bracketEnd(s *workflow.Step, shape string) string {
	id := g.id()
	var notes []string
	if s.Uses != "" && s.Uses != s.Name {
		notes = append(notes, s.Uses)
	}
	g.line(id+shape, title(s.Name, notes))
	return id
}

func waitNote(w *workflow.WaitFor) string {
	var note string
	switch {
	case w.Signal != "":
		note = "signal " + w.Signal
	case w.ConditionText != "":
		note = "until " + w.ConditionText
	case w.UntilText != "":
		note = "until " + w.UntilText
	default:
		note = "for " + w.For.String()
	}
	if w.Deadline > 0 {
		note += ", at most " + w.Deadline.String()
	}
	return note
}

func title(name string, notes []string) string {
	parts := []string{label(name)}
	for _, note := range notes {
		parts = append(parts, label(note))
	}
	return strings.Join(parts, "<br/>")
}

var entities = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "\n", " ", "\r", " ", "\t", " ", "`", "#96;", "\\", "#92;")

// label escapes a text for the quotes of Mermaid.
func label(text string) string {
	if short := []rune(text); len(short) > 80 {
		text = string(short[:79]) + "…"
	}
	return entities.Replace(strings.ToValidUTF8(text, "?"))
}
