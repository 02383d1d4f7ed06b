package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// facts is a list of names and values, without empty values.
type facts [][2]string

func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, [2]string{name, value})
	}
}

func (f facts) String() string {
	width := 0
	for _, line := range f {
		width = max(width, len([]rune(line[0])))
	}
	var b strings.Builder
	for _, line := range f {
		b.WriteString(pad(line[0], width) + "  " + line[1] + "\n")
	}
	return b.String()
}

// Describe returns the text of `pawl describe` for a run, with the given newest
// events.
func Describe(r Run, events []Event, now time.Time, style Style) string {
	var b strings.Builder
	b.WriteString(runFacts(r, now, style).String())
	if len(r.Steps) > 0 {
		b.WriteString("\n" + style.paint(bold, "Steps") + "\n")
		if r.EarlierSteps > 0 {
			fmt.Fprintf(&b, "  … %d earlier steps: pawl describe %s --all-steps\n", r.EarlierSteps, Short(r.ID))
		}
		b.WriteString(Indent(stepTable(r.Steps, now).Text(style), "  "))
	}
	if r.Fault != nil {
		b.WriteString("\n" + style.paint(bold, "Fault") + "\n" + Indent(faultFacts(*r.Fault, r.ID).String(), "  "))
		if r.Fault.Guide != "" {
			b.WriteString("\n" + style.paint(bold, "Guide") + "\n" + Indent(r.Fault.Guide, "  "))
		}
	}
	if len(events) > 0 {
		b.WriteString("\n" + style.paint(bold, "History") + "\n" + Indent(strings.Join(HistoryLines(events, style), "\n"), "  "))
	}
	return b.String()
}

func stepTable(steps []Step, now time.Time) Table {
	return TableOf(steps, []Column[Step]{
		{Head: "NAME", Cell: func(s Step) string { return s.Name }},
		{Head: "PHASE", Cell: func(s Step) string { return string(s.Phase) }, Health: func(s Step) Health { return healthOfStep(s.Phase) }},
		{Head: "ROUND", Cell: func(s Step) string { return strconv.Itoa(s.Round) }},
		{Head: "ATTEMPTS", Cell: func(s Step) string { return strconv.Itoa(s.Attempts) }},
		{Head: "TOOK", Cell: func(s Step) string { return cmp.Or(tookOf(s, now), none) }},
		{Head: "STARTED", Wide: true, Cell: func(s Step) string { return Moment(s.StartedAt) }},
		{Head: "ENDED", Wide: true, Cell: func(s Step) string { return Moment(s.EndedAt) }},
		{Head: "REASON", Cell: func(s Step) string { return StepReason(s, now) }},
	})
}

func runFacts(r Run, now time.Time, style Style) facts {
	var f facts
	f.add("Run", r.ID)
	f.add("Flow", join("  ", r.Flow, labeled("version", versionText(r.Version)), labeled("hash", r.Hash[:min(12, len(r.Hash))])))
	f.add("Subject", r.Subject)
	f.add("Phase", join("  ", style.Health(HealthOfRun(r), string(r.Phase)), Reason(r, now)))
	f.add("Step", r.Step)
	f.add("Started by", join(": ", r.Actor, oneLine(r.Reason)))
	f.add("Request", r.RequestID)
	f.add("Parent", r.Parent)
	f.add("Labels", pairs(r.Labels))
	for _, l := range r.Limits {
		f.add("Limit", limitFact(l))
	}
	if r.Priority != 0 {
		f.add("Priority", strconv.Itoa(r.Priority))
	}
	f.add("Created", moment(r.CreatedAt, now, style))
	f.add("Started", moment(r.StartedAt, now, style))
	f.add("Ended", moment(r.EndedAt, now, style))
	f.add("Result", oneLine(string(r.Result)))
	if !r.NextAt.IsZero() && !r.Phase.Final() {
		f.add("Next check", until(r.NextAt, now))
	}
	for _, h := range r.Healing {
		f.add("Healing", join("  ", string(h.Code), fmt.Sprintf("attempt %d", h.Attempts), h.Ended))
	}
	if l := r.Last; l != nil {
		answer := "accepted"
		if l.Code != "" {
			answer = join("  ", "refused", string(l.Code), oneLine(l.Message))
		}
		f.add("Last request", join("  ", string(l.Verb), answer, moment(l.At, now, style)))
		f.add("", l.Remedy)
	}
	f.add("Input", compact(r.Input))
	f.add("Revision", fmt.Sprintf("%d  epoch %d", r.Revision, r.Epoch))
	return f
}

func limitFact(l Limit) string {
	if l.Running+l.Waiting+l.Started == 0 { // it has ended, or is behind another run
		return fmt.Sprintf("%s  %d at once", l.Key, l.AtOnce)
	}
	var holders []string
	for _, id := range l.Holders {
		holders = append(holders, Short(id))
	}
	text := join("  ", l.Key, numbers(l))
	if l.Of == "steps" {
		text = join("  ", "of "+l.Step+":", text)
	} else if l.Of == "starts" {
		text = join("  ", "of its start:", text)
	}
	if l.Set {
		text += "  set by pawl limits"
	}
	if len(holders) == 0 && l.Of != "" {
		return text
	}
	return join("  ", text, "held by: "+strings.Join(holders, ", "))
}

func faultFacts(v Fault, id string) facts {
	var f facts
	f.add("Code", join("  ", string(v.Code), v.Class.String()))
	f.add("Title", v.Title)
	f.add("Message", oneLine(v.Message))
	if v.Step != "" {
		f.add("Step", join(", ", v.Step, fmt.Sprintf("attempt %d", v.Attempt)))
	}
	if v.Exhausted {
		f.add("Ended by", "the retry budget")
	}
	f.add("Healer", v.Healer)
	for _, key := range slices.Sorted(maps.Keys(v.Details)) {
		f.add("  "+key, compactAny(v.Details[key]))
	}
	f.add("Remedy", Remedy(v.Remedy, id))
	return f
}

func tookOf(s Step, now time.Time) string {
	switch {
	case s.StartedAt.IsZero():
		return ""
	case !s.EndedAt.IsZero():
		return Took(s.EndedAt.Sub(s.StartedAt))
	case s.Phase == runtype.StepPending, s.Phase == runtype.StepFailed:
		return ""
	default:
		return Took(now.Sub(s.StartedAt))
	}
}

// DescribeObject returns the text of `pawl describe KIND NAME`; runs are those with the object as subject.
func DescribeObject(o control.Object, runs []Run, now time.Time, style Style) string {
	var f facts
	s := StateOf(o)
	f.add("Object", o.Ref.String())
	f.add("UID", o.UID)
	f.add("State", join("  ", style.Health(s.health(), s.State), s.Line()))
	f.add("Since", moment(s.Since, now, style))
	f.add("Before", s.Previous)
	f.add("Event", s.Event)
	f.add("Run", join("  ", s.Run, s.RunPhase, s.Step))
	if s.Fault != nil {
		f.add("Fault", join("  ", string(s.Fault.Code), s.Fault.Title))
		f.add("Remedy", Remedy(s.Fault.Remedy, s.Run))
	}
	if o.Deleting() {
		f.add("Deleting", join("  ", moment(o.DeletionMark, now, style), "held by "+strings.Join(o.Finalizers, ", ")))
	} else {
		f.add("Finalizers", strings.Join(o.Finalizers, ", "))
	}
	if o.Owner != nil {
		f.add("Owner", o.Owner.String())
	}
	f.add("Labels", pairs(o.Labels))
	f.add("Annotations", pairs(o.Annotations))
	f.add("Created", moment(o.CreatedAt, now, style))
	f.add("Generation", strconv.FormatInt(o.Generation, 10))
	f.add("Revision", strconv.FormatInt(o.Revision, 10))
	var b strings.Builder
	b.WriteString(f.String())
	sections, rest := instancesOf(o.Status, now)
	for _, part := range sections {
		b.WriteString("\n" + style.paint(bold, part.name) + "\n" + Indent(part.table.Text(style), "  "))
	}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"Spec", o.Spec}, {"Status", rest}} {
		if len(part.raw) > 0 {
			b.WriteString("\n" + style.paint(bold, part.name) + "\n" + Indent(pretty(part.raw), "  "))
		}
	}
	b.WriteString(RunTable(runs, now).section("Runs", style))
	return b.String()
}

// Explain returns the text of `pawl explain CODE`.
func Explain(k Kind, style Style) string {
	var f facts
	f.add("Code", join("  ", string(k.Code), "("+k.Reason+")"))
	f.add("Class", map[bool]string{true: k.Class.String() + ", not charged to the step", false: k.Class.String()}[k.Uncharged])
	f.add("Title", k.Title)
	f.add("Remedy", oneLine(k.Remedy))
	if h := k.Healer; h != nil {
		who := cmp.Or(h.Flow, "a function of the program")
		then := "then resumes from " + string(cmp.Or(h.From, workflow.FromFailed))
		if h.Undo {
			then = "then cancels with undo"
		}
		f.add("Healer", join(", ", who, then))
		f.add("", fmt.Sprintf("%d attempts, first after %s, then at most %s apart, within %s", h.Attempts, h.First, h.Longest, h.Within))
	}
	f.add("Declared in", k.Source)
	out := f.String()
	if k.Guide != "" {
		out += "\n" + style.paint(bold, "Guide") + "\n" + Indent(k.Guide, "  ")
	}
	return out
}

// PlanLines returns the text of `pawl plan` for a flow.
func PlanLines(p Plan) []string {
	rows := make([][]string, len(p.Steps))
	for i, s := range p.Steps {
		verdict := s.Decision
		if s.Why != "" {
			verdict += " (" + oneLine(s.Why) + ")"
		}
		rows[i] = []string{strconv.Itoa(i + 1), s.Name, verdict}
	}
	return columns(rows)
}

// MachinePlanLines returns the text of `pawl plan` for an object: the next act of the
// machine, the reason, and the other transitions that it considered; or the links of a chain.
func MachinePlanLines(p machine.Plan) []string {
	var f facts
	f.add("Object", p.Object)
	if p.Machine != "" {
		f.add("State", join("  ", string(p.State), "(machine "+p.Machine+")"))
	}
	next := string(p.Act)
	if p.To != "" {
		next += " to " + string(p.To)
	}
	f.add("Next", next)
	f.add("Event", p.Event)
	f.add("Why", oneLine(p.Why))
	f.add("Parameters", compact(p.Params))
	if p.Cancel != nil {
		f.add("Ends", fmt.Sprintf("run %s, %s", Short(p.Cancel.Run), p.Cancel.Mode))
	}
	if p.Code != "" {
		f.add("Held by", string(p.Code))
		f.add("Remedy", oneLine(p.Remedy))
	}
	lines := strings.Split(strings.TrimRight(f.String(), "\n"), "\n")
	if len(p.Considered) > 0 {
		rows := [][]string{{"EVENT", "TO", "VERDICT", "WHEN", "WHY"}}
		for _, c := range p.Considered {
			rows = append(rows, []string{c.Event, string(c.To), string(c.Verdict), cmp.Or(oneLine(c.When), none), oneLine(cmp.Or(c.Message, c.Why))})
		}
		lines = append(append(lines, ""), columns(rows)...)
	}
	if len(p.Links) > 0 {
		lines = append(append(lines, ""), LinkTable(p.Links).lines(Style{})...)
	}
	if p.Flow != nil {
		lines = append(lines, "", "Flow "+p.Flow.Flow)
		for _, line := range PlanLines(OfPlan(*p.Flow)) {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

// LinkTable returns the table of a chain's plan: what each link would do.
func LinkTable(links []machine.PlannedLink) Table {
	return TableOf(links, []Column[machine.PlannedLink]{
		{Head: "LINK", Cell: func(l machine.PlannedLink) string { return l.Link }},
		{Head: "VERDICT", Cell: func(l machine.PlannedLink) string {
			if l.Held {
				return l.Verdict + ", held"
			}
			return l.Verdict
		}, Health: func(l machine.PlannedLink) Health {
			if l.Held {
				return Progressing
			}
			return HealthOf(l.Verdict)
		}},
		{Head: "ACTS", Cell: func(l machine.PlannedLink) string { return oneLine(strings.Join(l.Acts, "; ")) }},
		{Head: "WHY", Cell: func(l machine.PlannedLink) string {
			why := join(": ", cmp.Or(l.Reason, string(l.Code)), oneLine(l.Message))
			if l.Behind != "" {
				why = join("; ", why, "behind "+l.Behind)
			}
			return why
		}},
	})
}

// Lines returns a problem for the terminal: the message, the locations and the remedy.
func (p *Problem) Lines(style Style) []string {
	lines := []string{style.paint(red, "✖ "+join("  ", string(p.Code), oneLine(cmp.Or(p.Detail, p.Title))))}
	for _, e := range p.Errors {
		lines = append(lines, "  "+join(": ", e.Location, oneLine(e.Message)))
	}
	if p.Remedy != "" {
		lines = append(lines, "  remedy: "+oneLine(p.Remedy))
	}
	return lines
}

func moment(t, now time.Time, style Style) string {
	if t.IsZero() {
		return ""
	}
	return style.clock(t, time.RFC3339) + "  (" + Age(now.Sub(t)) + " ago)"
}

func pairs(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+oneLine(m[key]))
	}
	return strings.Join(out, ", ")
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func compactAny(v any) string {
	if text, ok := v.(string); ok {
		return oneLine(text)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
