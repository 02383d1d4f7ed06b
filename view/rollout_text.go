package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// Line is the rollout in one line.
func (r Rollout) Line(now time.Time) string {
	at := r.Position
	text := r.Object.Name + "  " + cmp.Or(string(at.State), "not observed yet")
	if at.State == rollout.InBatch || at.State == rollout.RollingBack {
		text += fmt.Sprintf("  batch %d (%d/%d)", at.CurrentBatch, at.CurrentBatch+1, len(at.Batches))
	}
	if at.TargetSize != nil && at.Mode == rollout.Rollout {
		text += fmt.Sprintf("  %d/%d updated", at.Upgraded, *at.TargetSize)
	}
	switch w := at.Waiting; {
	case at.State == rollout.Failed && at.Failure != nil:
		text += "  " + at.Failure.Reason + ": " + oneLine(at.Failure.Message)
	case w != nil:
		text += "  " + w.Reason + " for " + Age(now.Sub(w.Since)) + ": " + oneLine(w.Message)
	}
	if at.PlanRefused != "" {
		text += "  " + rollout.PlanChangeRefused.Reason() + ": " + oneLine(at.PlanRefused)
	}
	return text + "\n"
}

// DescribeRollout is the text of `pawl describe rollout NAME`.
func DescribeRollout(r Rollout, now time.Time, style Style) string {
	at := r.Position
	var f facts
	f.add("Rollout", r.Object.Namespace+"/"+r.Object.Name)
	f.add("Workload", r.Target)
	f.add("State", join("  ", style.Health(HealthOf(string(at.State)), cmp.Or(string(at.State), "not observed yet")), string(at.Mode)))
	if at.TargetRevision != "" {
		f.add("Revision", join(" → ", at.SourceRevision, at.TargetRevision))
	}
	if at.TargetSize != nil {
		f.add("Updated", fmt.Sprintf("%d of %d, %d ready", at.Upgraded, *at.TargetSize, at.UpgradedReady))
	}
	if w := at.Waiting; w != nil {
		f.add("Waits for", w.Reason+", for "+Age(now.Sub(w.Since))+": "+oneLine(w.Message))
		if w.Deadline != nil {
			f.add("Deadline", style.clock(*w.Deadline, time.RFC3339)+"  ("+until(*w.Deadline, now)+")")
		}
	}
	if p := at.Pause; p != nil {
		f.add("Paused by", string(p.By)+", for "+Age(now.Sub(p.Since))+": "+oneLine(p.Message))
	}
	if at.Failure != nil {
		f.add("Failure", at.Failure.Reason+": "+oneLine(at.Failure.Message))
	}
	f.add("Plan", at.PlanRefused)
	f.add("Remedy", r.Remedy)
	if a := at.LastRequest; a != nil {
		f.add("Request", join(" ", a.Verb, "by "+a.By, cmp.Or(a.Code, "accepted"), oneLine(a.Message)))
	}
	if r.Is("HoldUnguarded") {
		f.add("Warning", "the hold is not guarded: a write of somebody else may release pods")
	}
	text := f.String()
	if len(at.Batches) > 0 {
		text += "\n" + style.Bold("Batches") + "\n" + Indent(r.batchTable(now).Text(style), "  ")
	}
	if len(r.Pods) > 0 {
		text += "\n" + style.paint(bold, "Other pods") + "\n  " + podMarks(r.Pods) + "\n"
	}
	text += r.checkTable(now).section("Checks of the batch", style)
	if len(r.Preview) > 0 {
		text += "\n" + style.paint(bold, "Preview (dry run)") + "\n" + Indent(previewText(r.Preview, style), "  ")
	}
	if r.Unseen != "" {
		text += "\nThe pods are not shown: " + oneLine(r.Unseen) + "\n"
	}
	if n := len(r.History); n > 0 {
		text += RolloutHistory(r.History[max(0, n-10):], style).section("History", style)
	}
	return text
}

// batchTable is a table of the batches with their pods, and where each stands.
func (r Rollout) batchTable(now time.Time) Table {
	return TableOf(r.Batches, []Column[RolloutBatch]{
		{Head: "BATCH", Cell: func(b RolloutBatch) string { return strconv.Itoa(b.Index) }},
		{Head: "SIZE", Cell: func(b RolloutBatch) string { return strconv.Itoa(b.Size) }},
		{Head: "TARGET", Cell: func(b RolloutBatch) string { return strconv.Itoa(b.Target) }},
		{Head: "STATE", Cell: RolloutBatch.stateText, Health: RolloutBatch.health},
		{Head: "TOOK", Cell: func(b RolloutBatch) string { return b.took(now) }},
		{Head: "PODS", Cell: func(b RolloutBatch) string { return podMarks(b.Pods) }},
	})
}

func (b RolloutBatch) stateText() string {
	switch {
	case b.Phase != "":
		return b.Phase
	case b.State == BatchDone:
		return "done"
	}
	return "to come"
}

func (b RolloutBatch) health() Health {
	switch {
	case b.State == BatchDone:
		return Healthy
	case b.Phase == string(rollout.BatchVerifyFailed):
		return Degraded
	case b.State == BatchPresent:
		return Progressing
	}
	return Inactive
}

func (b RolloutBatch) took(now time.Time) string {
	switch {
	case b.Start == nil:
		return none
	case b.End != nil:
		return Took(b.End.Sub(*b.Start))
	}
	return Took(now.Sub(*b.Start))
}

// podMarks names pods: ✔ has the revision and is ready, ◐ is on its way, ✖ is not ready with the old one.
func podMarks(pods []RolloutPod) string {
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		name := p.Name
		if detail := join(", ", p.Role, p.Zone); detail != "" {
			name += " (" + detail + ")"
		}
		switch {
		case p.Updated && p.Ready:
			name += " ✔"
		case p.Updated, p.Leaving:
			name += " ◐"
		case !p.Ready:
			name += " ✖"
		}
		names = append(names, name)
	}
	if len(names) > 8 {
		names = slices.Concat(names[:4], []string{fmt.Sprintf("… %d more …", len(names)-6)}, names[len(names)-2:])
	}
	return strings.Join(names, "  ")
}

// DrawRollout is the screen of `pawl watch rollout NAME`: the batches, and what the present one waits for.
func DrawRollout(r Rollout, now time.Time, style Style) []string {
	at := r.Position
	lines := []string{style.paint(bold, style.cut(join("  ", "ROLLOUT "+r.Object.Name, r.Target, join(" → ", at.SourceRevision, at.TargetRevision), cmp.Or(string(at.State), "not observed yet"))))}
	rows := make([][]string, len(r.Batches))
	for i, b := range r.Batches {
		rows[i] = []string{"batch " + strconv.Itoa(b.Index), plural(b.Size, "pod"), b.stateText(), b.took(now), podMarks(b.Pods)}
	}
	for i, line := range columns(rows) {
		sign := "○"
		switch r.Batches[i].State {
		case BatchDone:
			sign = "✔"
		case BatchPresent:
			sign = "◐"
		}
		lines = append(lines, style.Health(r.Batches[i].health(), style.cut("  "+sign+" "+line)))
	}
	for _, line := range r.standing(now, style) {
		if strings.HasPrefix(line, "remedy: ") {
			lines = append(lines, style.Wrap("  ", line)...)
			continue
		}
		lines = append(lines, style.cut("  "+line))
	}
	return lines
}

// standing is what holds the rollout up, and what is asked.
func (r Rollout) standing(now time.Time, style Style) []string {
	var lines []string
	at := r.Position
	switch w := at.Waiting; {
	case at.State == rollout.Failed && at.Failure != nil:
		lines = append(lines, at.Failure.Reason+": "+oneLine(at.Failure.Message))
	case w != nil && at.State != rollout.Succeeded:
		line := "waits for " + w.Reason + ", for " + Age(now.Sub(w.Since))
		if w.Deadline != nil {
			line += ", until " + style.clock(*w.Deadline, "15:04:05") + " (" + until(*w.Deadline, now) + ")"
		}
		lines = append(lines, join(": ", line, oneLine(w.Message)))
	}
	if p := at.Pause; p != nil {
		lines = append(lines, "paused by "+string(p.By)+", for "+Age(now.Sub(p.Since))+": "+oneLine(join(" ", p.Reason, p.Message)))
	}
	if r.Remedy != "" {
		lines = append(lines, "remedy: "+oneLine(r.Remedy))
	}
	lines = append(lines, r.checkTable(now).lines(Style{})...)
	if r.Unseen != "" {
		lines = append(lines, "the pods are not shown: "+oneLine(r.Unseen))
	}
	return lines
}

// checkTable is what the present batch is asked.
func (r Rollout) checkTable(now time.Time) Table {
	return TableOf(r.Checks, []Column[rollout.Check]{
		{Head: "CHECK", Cell: func(c rollout.Check) string { return c.Kind }},
		{Head: "NAME", Cell: func(c rollout.Check) string { return c.Name }},
		{Head: "VERDICT", Cell: func(c rollout.Check) string {
			verdict := cmp.Or(c.Verdict, "pending")
			if c.Of > 0 {
				verdict += fmt.Sprintf(" %d/%d", c.Passed, c.Of)
			}
			if c.Next != nil && c.Verdict == "" {
				verdict += ", again " + until(*c.Next, now)
			}
			return verdict
		}, Health: func(c rollout.Check) Health { return HealthOf(cmp.Or(c.Verdict, "pending")) }},
		{Head: "VALUE", Cell: func(c rollout.Check) string { return cmp.Or(oneLine(c.Value), none) }},
		{Head: "WANTS", Cell: func(c rollout.Check) string { return oneLine(c.Wants) }},
	})
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// RolloutHistory is a table of records.
func RolloutHistory(records []rollout.Record, style Style) Table {
	return TableOf(records, []Column[rollout.Record]{
		{Head: "NUMBER", Cell: func(r rollout.Record) string { return strconv.Itoa(r.Sequence) }},
		{Head: "TIME", Cell: func(r rollout.Record) string { return style.clock(r.Time, "2006-01-02 15:04:05") }},
		{Head: "EVENT", Cell: func(r rollout.Record) string { return string(r.Event) }},
		{Head: "TO", Cell: func(r rollout.Record) string { return r.To }},
		{Head: "BATCH", Cell: func(r rollout.Record) string { return strconv.Itoa(r.Batch) }},
		{Head: "BY", Cell: func(r rollout.Record) string { return r.By }},
		{Head: "WHY", Cell: func(r rollout.Record) string { return oneLine(whyOf(r)) }},
	})
}

// whyOf is why a record was written, and the pods that were moved.
func whyOf(r rollout.Record) string {
	pods := r.PodsText()
	if r.Why == "" || pods == "" {
		return cmp.Or(r.Why, pods)
	}
	return r.Why + ": " + pods
}
