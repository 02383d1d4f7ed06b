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
	f.add("State", join("  ", cmp.Or(string(at.State), "not observed yet"), string(at.Mode)))
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
		text += "\n" + style.paint(bold, "Batches") + "\n" + indent(r.batchTable(now).String(), "  ")
	}
	if len(r.Pods) > 0 {
		text += "\n" + style.paint(bold, "Other pods") + "\n  " + podMarks(r.Pods) + "\n"
	}
	if len(r.Checks) > 0 {
		text += "\n" + style.paint(bold, "Checks of the batch") + "\n" + indent(r.checkTable(now).String(), "  ")
	}
	if len(r.Preview) > 0 {
		text += "\n" + style.paint(bold, "Preview (dry run)") + "\n" + indent(previewText(r.Preview), "  ")
	}
	if r.Unseen != "" {
		text += "\nThe pods are not shown: " + oneLine(r.Unseen) + "\n"
	}
	if n := len(r.History); n > 0 {
		text += "\n" + style.paint(bold, "History") + "\n" + indent(RolloutHistory(r.History[max(0, n-10):], style).String(), "  ")
	}
	return text
}

// batchTable is a table of the batches with their pods, and where each stands.
func (r Rollout) batchTable(now time.Time) Table {
	t := Table{Head: []string{"BATCH", "SIZE", "TARGET", "STATE", "TOOK", "PODS"}}
	for _, b := range r.Batches {
		t.Rows = append(t.Rows, []string{strconv.Itoa(b.Index), strconv.Itoa(b.Size), strconv.Itoa(b.Target), b.stateText(), b.took(now), podMarks(b.Pods)})
	}
	return t
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
		sign, hue := "○", dim
		switch b := r.Batches[i]; {
		case b.State == BatchDone:
			sign, hue = "✔", green
		case b.State == BatchPresent:
			sign, hue = "◐", blue
		}
		lines = append(lines, style.paint(hue, style.cut("  "+sign+" "+line)))
	}
	for _, line := range r.standing(now, style) {
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
	lines = append(lines, r.checkTable(now).lines()...)
	if r.Unseen != "" {
		lines = append(lines, "the pods are not shown: "+oneLine(r.Unseen))
	}
	return lines
}

// checkTable is what the present batch is asked.
func (r Rollout) checkTable(now time.Time) Table {
	t := Table{Head: []string{"CHECK", "NAME", "VERDICT", "VALUE", "WANTS"}}
	for _, c := range r.Checks {
		verdict := cmp.Or(c.Verdict, "pending")
		if c.Of > 0 {
			verdict += fmt.Sprintf(" %d/%d", c.Passed, c.Of)
		}
		if c.Next != nil && c.Verdict == "" {
			verdict += ", again " + until(*c.Next, now)
		}
		t.Rows = append(t.Rows, []string{c.Kind, c.Name, verdict, cmp.Or(oneLine(c.Value), none), oneLine(c.Wants)})
	}
	return t
}

// lines are those of a table with rows.
func (t Table) lines() []string {
	if len(t.Rows) == 0 {
		return nil
	}
	return columns(append([][]string{t.Head}, t.Rows...))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// RolloutHistory is a table of records.
func RolloutHistory(records []rollout.Record, style Style) Table {
	t := Table{Head: []string{"NUMBER", "TIME", "EVENT", "TO", "BATCH", "BY", "WHY"}}
	for _, record := range records {
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(record.Sequence), style.clock(record.Time, "2006-01-02 15:04:05"), string(record.Event), record.To,
			strconv.Itoa(record.Batch), record.By, oneLine(whyOf(record)),
		})
	}
	return t
}

// whyOf is why a record was written, and the pods that were moved.
func whyOf(r rollout.Record) string {
	pods := r.PodsText()
	if r.Why == "" || pods == "" {
		return cmp.Or(r.Why, pods)
	}
	return r.Why + ": " + pods
}
