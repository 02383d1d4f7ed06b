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

// mark returns the sign and the color of a step's phase.
func mark(phase runtype.StepPhase) (string, color) {
	switch phase {
	case runtype.StepDone:
		return "✔", green
	case runtype.StepFailed:
		return "✖", red
	case runtype.StepRetrying:
		return "↻", yellow
	case runtype.StepWaiting:
		return "◷", yellow
	case runtype.StepSkipped:
		return "»", dim
	case runtype.StepUndone:
		return "↩", dim
	case runtype.StepPending:
		return "○", dim
	default:
		return "●", yellow
	}
}

// Title returns the first line of a run on a terminal.
func Title(r Run, style Style) string {
	return style.paint(bold, style.cut(fmt.Sprintf("RUN %s…  %s  %s", Short(r.ID), r.Flow, subject(r.Subject))))
}

// Tree returns the screen of an active run: title, steps below their structures, and
// the phase. With a Height it omits steps from the top to fit.
func Tree(r Run, now time.Time, style Style) []string {
	lines := []string{Title(r, style)}
	if r.EarlierSteps > 0 {
		lines = append(lines, style.paint(dim, fmt.Sprintf("… %d earlier steps", r.EarlierSteps)))
	}
	type entry struct {
		depth int
		name  string
		step  *Step
	}
	var entries []entry
	var open []string // scopes of the previous entry
	for i, s := range r.Steps {
		path := scopes(s.Name)
		above := path[:len(path)-1]
		same := 0
		for same < len(open) && same < len(above) && open[same] == above[same] {
			same++
		}
		for d := same; d < len(above); d++ {
			entries = append(entries, entry{depth: d, name: above[d]})
		}
		open = path
		entries = append(entries, entry{depth: len(above), name: path[len(path)-1], step: &r.Steps[i]})
	}
	width := 0
	for _, e := range entries {
		width = max(width, 2*e.depth+utf8.RuneCountInString(e.name))
	}
	for _, e := range entries {
		if e.step == nil {
			lines = append(lines, style.cut(strings.Repeat("  ", e.depth)+"  "+e.name))
			continue
		}
		lines = append(lines, stepLine(*e.step, strings.Repeat("  ", e.depth), pad(e.name, width-2*e.depth), now, style))
	}
	lines = append(lines, Standing(r, now, style)...)
	if over := len(lines) - style.Height; style.Height > 3 && over > 0 {
		lines = append([]string{lines[0], style.paint(dim, fmt.Sprintf("… %d lines above", over+1))}, lines[over+2:]...)
	}
	return lines
}

// scopes splits an instance name: Replace[ro-2]/Create is Replace[ro-2], Create.
func scopes(instance string) []string { return strings.Split(instance, "/") }

func stepLine(s Step, lead, name string, now time.Time, style Style) string {
	sign, c := mark(s.Phase)
	text := style.cut(strings.TrimRight(lead+sign+" "+name+"  "+stepText(s, now), " "))
	if rest, ok := strings.CutPrefix(text, lead+sign); ok {
		return lead + style.paint(c, sign) + rest
	}
	return text
}

func stepText(s Step, now time.Time) string {
	took := ""
	switch {
	case !s.EndedAt.IsZero() && !s.StartedAt.IsZero():
		took = Took(s.EndedAt.Sub(s.StartedAt))
	case !s.StartedAt.IsZero() && (s.Phase == runtype.StepRunning || s.Phase == runtype.StepWaiting):
		took = Took(now.Sub(s.StartedAt))
	}
	switch s.Phase {
	case runtype.StepFailed, runtype.StepRetrying:
		took = ""
	case runtype.StepSkipped:
		took = "skipped"
	case runtype.StepUndone:
		took = "undone"
	}
	return join("  ", took, StepReason(s, now))
}

// Standing returns the last lines of a run on a terminal: its phase, and the remedy if
// it needs one. A run that is running or waiting has none.
func Standing(r Run, now time.Time, style Style) []string {
	var lines []string
	say := func(c color, text string) { lines = append(lines, style.paint(c, style.cut(text))) }
	switch r.Phase {
	case runtype.Succeeded:
		say(green, "succeeded in "+Took(r.EndedAt.Sub(startOf(r))))
	case runtype.Cancelled:
		say(yellow, join("  ", "cancelled after "+Took(r.EndedAt.Sub(startOf(r))), reason(r, now)))
	case runtype.Queued:
		say(dim, "queued "+reason(r, now))
	case runtype.Cancelling:
		say(yellow, join("  ", "cancelling", reason(r, now)))
	case runtype.Paused:
		head := "॥ paused"
		if !r.PausedAt.IsZero() {
			head += " " + style.clock(r.PausedAt, time.TimeOnly)
		}
		if reported := r.Current(); reported == nil || reported.Fault == nil || r.Fault == nil || reported.Fault.Code != r.Fault.Code {
			head = join("  ", head, pausedReason(r))
		}
		say(HealthOfRun(r).color(), join("  ", head, healing(r, now)))
		if r.Fault != nil {
			lines = append(lines, style.Wrap("  ", "remedy: "+Remedy(r.Fault.Remedy, r.ID))...)
		}
	}
	if r.Warning != "" {
		say(yellow, "! "+warning(r))
	}
	return lines
}

func startOf(r Run) time.Time {
	if r.StartedAt.IsZero() {
		return r.CreatedAt
	}
	return r.StartedAt
}

// Remedy returns a remedy in one line; if it ends in resuming the run, with the command for it.
func Remedy(remedy, id string) string {
	text := strings.TrimRight(oneLine(remedy), ".")
	for _, end := range []string{" the run", " it", ""} {
		if before, ok := strings.CutSuffix(text, "resume"+end); ok {
			before = strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(before, "then "), "and "), ",; ")
			command := "pawl resume " + Short(id)
			if before == "" {
				return command
			}
			return before + ", then: " + command
		}
	}
	return oneLine(remedy)
}

// Changes returns the lines of a run for a pipe: one for each step that ended or began
// to wait since the previous reading, and the phase of the run if it changed. With a nil
// before it returns everything, with the title. Without changes it returns no line.
func Changes(before *Run, after Run, now time.Time, style Style) []string {
	var lines []string
	if before == nil {
		lines = append(lines, Title(after, style))
		before = &Run{}
	}
	if left := after.EarlierSteps - before.EarlierSteps - len(before.Steps); left > 0 {
		lines = append(lines, style.paint(dim, fmt.Sprintf("… %d steps between, in pawl describe %s --all-steps", left, Short(after.ID))))
	}
	width := 0
	for _, s := range after.Steps {
		width = max(width, utf8.RuneCountInString(s.Name))
	}
	known := make(map[string]int, len(before.Steps))
	for i, s := range before.Steps {
		known[s.Name] = i
	}
	for _, s := range byEnd(after.Steps) {
		i, reported := known[s.Name]
		if reported && unchanged(before.Steps[i], s) || s.Phase == runtype.StepRunning || s.Phase == runtype.StepPending {
			continue
		}
		lines = append(lines, stepLine(s, "", pad(s.Name, width), now, style))
	}
	again := !after.PausedAt.Equal(before.PausedAt) // it was resumed and paused again in between
	if before.Phase != after.Phase || again || before.Warning != after.Warning || codeOf(before.Fault) != codeOf(after.Fault) {
		lines = append(lines, Standing(after, now, style)...)
	}
	return lines
}

// byEnd orders ended steps by their end, a structure after its steps. The others keep
// their positions.
func byEnd(steps []Step) []Step {
	depth := func(s Step) int { return strings.Count(s.Name, "/") + strings.Count(s.Name, "[") }
	var ended []Step
	for _, s := range steps {
		if !s.EndedAt.IsZero() {
			ended = append(ended, s)
		}
	}
	slices.SortStableFunc(ended, func(a, b Step) int {
		return cmp.Or(a.EndedAt.Compare(b.EndedAt), cmp.Compare(depth(b), depth(a)))
	})
	out := slices.Clone(steps)
	for i, s := range steps {
		if !s.EndedAt.IsZero() {
			out[i], ended = ended[0], ended[1:]
		}
	}
	return out
}

func unchanged(old, s Step) bool {
	return old.Phase == s.Phase && old.Round == s.Round && old.Attempts == s.Attempts && codeOf(old.Fault) == codeOf(s.Fault)
}

func codeOf(f *Fault) fault.Code {
	if f == nil {
		return ""
	}
	return f.Code
}
