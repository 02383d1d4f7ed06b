package view

import (
	"testing"

	"github.com/pawl-dev/pawl/workflow"
)

// What pawl graph draws, the JSON form of a flow tells too: loops, what runs side by side, and the ends of brackets.
func TestFlowTellsItsStructures(t *testing.T) {
	open, closing := workflow.Step{Name: "Lock", Uses: "lock"}, workflow.Step{Name: "Unlock", Uses: "unlock"}
	work := []workflow.Step{{Name: "A", Uses: "a"}, {Name: "B", Uses: "b"}}
	for _, c := range []struct {
		step     workflow.Step
		kind     string
		forEach  string
		atOnce   int
		brackets []string // of its steps
	}{
		{workflow.Step{Name: "Loop", ForEach: &workflow.Loop{ListText: "input.names", Max: 3}, Steps: work}, "forEach", "input.names", 3, []string{"", ""}},
		{workflow.Step{Name: "One", ForEach: &workflow.Loop{ListText: "input.names"}, Steps: work}, "forEach", "input.names", 1, []string{"", ""}},
		{workflow.Step{Name: "Both", Parallel: 9, Steps: work}, "parallel", "", 2, []string{"", ""}},
		{workflow.Step{Name: "Group", Steps: work}, "group", "", 0, []string{"", ""}},
		{workflow.Step{Name: "Locked", Open: &open, Close: &closing, Parallel: 2, Steps: work}, "bracket", "", 2, []string{"open", "", "", "close"}},
	} {
		got := flowStep(c.step)
		if got.Kind != c.kind || got.ForEach != c.forEach || got.AtOnce != c.atOnce || len(got.Steps) != len(c.brackets) {
			t.Errorf("%s: got %+v", c.step.Name, got)
			continue
		}
		for i, s := range got.Steps {
			if s.Bracket != c.brackets[i] {
				t.Errorf("%s: step %s has the bracket %q, want %q", c.step.Name, s.Name, s.Bracket, c.brackets[i])
			}
		}
	}
}
