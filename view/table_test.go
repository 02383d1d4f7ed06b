package view

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

type item struct {
	name, state string
}

var itemColumns = []Column[item]{
	{Head: "NAME", Cell: func(i item) string { return i.name }},
	{Head: "STATE", Cell: func(i item) string { return i.state }, Health: func(i item) Health { return HealthOf(i.state) }},
	{Head: "LENGTH", Wide: true, Cell: func(i item) string { return strings.Repeat("x", len(i.name)) }},
	{Head: "REASON", Cell: func(item) string { return "none" }},
}

func TestTable(t *testing.T) {
	table := TableOf([]item{{"a", "Running"}, {"größer", "Failed"}}, itemColumns)
	for name, test := range map[string]struct {
		style Style
		want  string
	}{
		"plain": {Style{}, "NAME    STATE    REASON\na       Running  none\ngrößer  Failed   none\n"},
		"wide":  {Style{Wide: true}, "NAME    STATE    LENGTH    REASON\na       Running  x         none\ngrößer  Failed   xxxxxxxx  none\n"},
		"color": {Style{Color: true}, "NAME    STATE    REASON\na       \x1b[32mRunning\x1b[0m  none\ngrößer  \x1b[31mFailed\x1b[0m   none\n"},
	} {
		if got := table.Text(test.style); got != test.want {
			t.Errorf("%s:\n%q\nwant:\n%q", name, got, test.want)
		}
	}
	if empty := TableOf(nil, itemColumns); empty.Text(Style{}) != "NAME  STATE  REASON\n" || empty.section("Items", Style{}) != "" || empty.lines(Style{}) != nil {
		t.Errorf("a table without rows is its head: %q", empty.Text(Style{}))
	}
}

func TestHealthOf(t *testing.T) {
	for state, want := range map[string]Health{
		"Running": Healthy, "Alert": Degraded, "Scaling": Progressing, "rollingInBatches": Progressing, "shop-v2": Unknown, "Stopped": Inactive, "": Unknown, "Paused": Progressing, "True": Healthy,
	} {
		if got := HealthOf(state); got != want {
			t.Errorf("%q is %s, want %s", state, got, want)
		}
	}
}

// A run that somebody has paused waits; one that a fault has paused needs somebody.
func TestHealthOfRun(t *testing.T) {
	faulty := OfRun(paused(), nil)
	asked := faulty
	asked.Fault = &Fault{Code: workflow.PausedByPerson.Code}
	stalled := OfRun(waiting(), nil)
	stalled.Warning = "Stalled"
	for name, test := range map[string]struct {
		run  Run
		want Health
	}{"paused by a fault": {faulty, Degraded}, "paused by a person": {asked, Progressing}, "waits": {OfRun(waiting(), nil), Progressing}, "stalled": {stalled, Degraded}} {
		if got := HealthOfRun(test.run); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestRunTree(t *testing.T) {
	event := func(seconds, kind, step string, attempt int, code string) Event {
		return Event{At: at("2026-03-01T02:47:" + seconds + "Z"), Kind: runtype.EventKind(kind), Step: step, Attempt: attempt, Code: fault.Code(code)}
	}
	r := OfRun(paused(), &sampleFlow)
	child := OfRun(waiting(), nil)
	child.Parent, child.ParentStep = r.ID, "PrepareStorage"
	healer := OfRun(queued(), nil)
	healer.Parent, healer.ParentStep = r.ID, "heal:POD_UNSCHEDULED"
	tree := RunTree{Run: r, Children: []RunTree{{Run: healer}, {Run: child, More: true}}, Attempts: AttemptsOf([]Event{
		event("12.0", "StepStarted", "InitMeta", 1, ""), event("12.1", "StepDone", "InitMeta", 1, ""),
		event("12.1", "StepStarted", "PrepareStorage", 1, ""), event("12.5", "StepRetrying", "PrepareStorage", 1, "DISK_FULL"),
		event("12.6", "StepStarted", "PrepareStorage", 2, ""), event("13.0", "StepWaiting", "PrepareStorage", 2, ""), event("14.5", "StepDone", "PrepareStorage", 2, ""),
		event("15.2", "StepFailed", "CreateRwPod", 1, "POD_UNSCHEDULED"), event("15.3", "StepStarted", "CreateRwPod", 2, ""),
	})}
	golden(t, "runtree.txt", tree.Text(now, Style{}))
	golden(t, "runtree-narrow.txt", tree.Text(now, Style{Width: 32}))
	for line := range strings.Lines(tree.Text(now, Style{Width: 32, Color: true})) {
		for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"} {
			line = strings.ReplaceAll(line, code, "")
		}
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 32 && !strings.HasPrefix(line, "  remedy") {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}
