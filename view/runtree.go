package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// RunTree is a run with the attempts of its steps and the runs that these started.
type RunTree struct {
	Run
	Attempts []Attempt `json:"attempts"`
	Children []RunTree `json:"children"`
	More     bool      `json:"more,omitempty" doc:"there are more children"`
}

// Attempt is one attempt of a step, as the history tells it.
type Attempt struct {
	Step      string            `json:"step"`
	Attempt   int               `json:"attempt" doc:"in its round, from 1"`
	Phase     runtype.StepPhase `json:"phase" enum:"Running,Waiting,Failed,Done,Undone"`
	StartedAt time.Time         `json:"startedAt,omitzero"`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
	Code      fault.Code        `json:"code,omitempty"`
	Message   string            `json:"message,omitempty"`
}

// AttemptsOf returns the attempts of all steps of a run, in the order in which they began.
func AttemptsOf(events []Event) []Attempt {
	all := []Attempt{}
	open := map[string]int{} // step: index of its open attempt
	end := func(e Event, phase runtype.StepPhase) {
		i, ok := open[e.Step]
		if !ok {
			i = len(all)
			all = append(all, Attempt{Step: e.Step, Attempt: e.Attempt})
		}
		a := &all[i]
		a.Phase, a.EndedAt, a.Code, a.Message = phase, e.At, e.Code, e.Message
		delete(open, e.Step)
	}
	for _, e := range events {
		switch e.Kind {
		case runtype.StepStarted:
			open[e.Step] = len(all)
			all = append(all, Attempt{Step: e.Step, Attempt: e.Attempt, Phase: runtype.StepRunning, StartedAt: e.At})
		case runtype.StepWaitingEvent:
			if i, ok := open[e.Step]; ok {
				all[i].Phase = runtype.StepWaiting
			}
		case runtype.StepDoneEvent:
			end(e, runtype.StepDone)
		case runtype.StepUndoneEvent:
			end(e, runtype.StepUndone)
		case runtype.StepFailedEvent, runtype.StepRetryingEvent, runtype.StepLost:
			end(e, runtype.StepFailed)
		}
	}
	return all
}

// shownAttempts is the number of attempts that the tree shows of a step: its newest.
const shownAttempts = 10

// piece is a part of a line.
type piece struct {
	color color
	text  string
}

// node is a line of a tree, with the lines below it.
type node struct {
	line  []piece
	below []*node
}

// add adds a line below.
func (n *node) add(line ...piece) *node {
	child := &node{line: line}
	n.below = append(n.below, child)
	return child
}

// Text returns the tree of `pawl describe RUN --tree`, and below it the remedy if the run needs one.
func (t RunTree) Text(now time.Time, style Style) string {
	var b strings.Builder
	t.node(now).draw(&b, "", "", style)
	if ExitOfRun(t.Run) == ExitRemedy {
		for _, line := range Standing(t.Run, now, style) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// draw writes a line and those below it; lead begins the line, and under those below.
func (n *node) draw(b *strings.Builder, lead, under string, style Style) {
	b.WriteString(style.paint(dim, lead))
	left := style.Width - utf8.RuneCountInString(lead)
	for _, p := range n.line {
		if style.Width > 0 {
			p.text = Style{Width: max(left, 1)}.cut(p.text)
			left -= utf8.RuneCountInString(p.text)
		}
		b.WriteString(style.paint(p.color, p.text))
		if style.Width > 0 && left <= 0 {
			break
		}
	}
	b.WriteByte('\n')
	for i, child := range n.below {
		branch, trunk := "├─ ", "│  "
		if i == len(n.below)-1 {
			branch, trunk = "└─ ", "   "
		}
		child.draw(b, under+branch, under+trunk, style)
	}
}

// node is the run as a line, with its steps below it.
func (t RunTree) node(now time.Time) *node {
	took := ""
	if !t.StartedAt.IsZero() {
		until := now
		if !t.EndedAt.IsZero() {
			until = t.EndedAt
		}
		took = Took(until.Sub(t.StartedAt))
	}
	root := &node{line: []piece{{bold, "RUN " + Short(t.ID) + "…"}, {plain, "  " + t.Flow + "  " + subject(t.Subject) + "  "}, {HealthOfRun(t.Run).color(), string(t.Phase)}}}
	if more := join("  ", took, Reason(t.Run, now)); more != "" {
		root.line = append(root.line, piece{plain, "  " + more})
	}
	if t.EarlierSteps > 0 {
		root.add(piece{dim, fmt.Sprintf("… %d earlier steps: --all-steps", t.EarlierSteps)})
	}
	steps := map[string]*node{}
	for _, s := range t.Steps {
		n := place(root, steps, s.Name)
		sign, c := mark(s.Phase)
		n.line = []piece{{c, sign}, {plain, " " + base(s.Name) + "  "}, {healthOfStep(s.Phase).color(), string(s.Phase)}}
		if more := join("  ", tookOf(s, now), StepReason(s, now)); more != "" {
			n.line = append(n.line, piece{plain, "  " + more})
		}
		addAttempts(n, t.attempts(s.Name), now)
	}
	children := slices.SortedStableFunc(slices.Values(t.Children), func(a, b RunTree) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, child := range children {
		below := place(root, steps, cmp.Or(child.ParentStep, "children"))
		below.below = append(below.below, child.node(now))
	}
	if t.More {
		root.add(piece{dim, "… more runs: pawl get --parent " + Short(t.ID)})
	}
	return root
}

func (t RunTree) attempts(step string) []Attempt {
	var all []Attempt
	for _, a := range t.Attempts {
		if a.Step == step {
			all = append(all, a)
		}
	}
	return all
}

// addAttempts adds the attempts of a step that had several.
func addAttempts(n *node, all []Attempt, now time.Time) {
	if len(all) < 2 {
		return
	}
	if earlier := len(all) - shownAttempts; earlier > 0 {
		n.add(piece{dim, fmt.Sprintf("… %d earlier attempts", earlier)})
		all = all[earlier:]
	}
	for _, a := range all {
		took := ""
		switch {
		case a.StartedAt.IsZero():
		case !a.EndedAt.IsZero():
			took = Took(a.EndedAt.Sub(a.StartedAt))
		default:
			took = Took(now.Sub(a.StartedAt))
		}
		n.add(piece{plain, fmt.Sprintf("attempt %d  ", a.Attempt)}, piece{healthOfStep(a.Phase).color(), string(a.Phase)},
			piece{plain, strings.TrimRight("  "+join("  ", took, string(a.Code), oneLine(a.Message)), " ")})
	}
}

// place returns the node of a step, below those of the structures that it is in. Replace[ro-2]/Create is below
// Replace[ro-2], which is below Replace if the run has that.
func place(root *node, steps map[string]*node, name string) *node {
	if n := steps[name]; n != nil {
		return n
	}
	above, slash := root, strings.LastIndexByte(name, '/')
	if slash >= 0 {
		above = place(root, steps, name[:slash])
	}
	if i := strings.LastIndexByte(name, '['); i > slash && steps[name[:i]] != nil {
		above = steps[name[:i]]
	}
	n := above.add(piece{plain, base(name)})
	steps[name] = n
	return n
}

// base is the last part of an instance name.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
