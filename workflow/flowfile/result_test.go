package flowfile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding13ResultOfAFile: the result of a flow file, the list of the outputs of the iterations
// of a loop, and their sums.
func TestFinding13ResultOfAFile(t *testing.T) {
	for expression, want := range map[string]string{
		`sum([1, 2, 3])`:                  `6`,
		`sum([])`:                         `0`,
		`sum([1, null, 2])`:               `3`,
		`min([null, 2])`:                  `2`,
		`max([1, null])`:                  `1`,
		`sum([null])`:                     `0`,
		`[1, 2.5].sum()`:                  `3.5`,
		`min([3, 1, 2]) + max([3, 1, 2])`: `4`,
		`[2.5, 1].min()`:                  `1`,
		`max(["a", "c", "b"])`:            `"c"`,
		`size(steps.Each.output)`:         `2`,
		`steps.Each.output.map(o, o.of)`:  `["Each[0]","Each[1]"]`,
		`{"n": sum(steps.Each.output.map(o, size(o.of)))}`: `{"n":14}`,
		`steps.Rows.output.map(r, r.Cell.of)`:              `["Rows[0]/Cell"]`,
	} {
		flow, err := parse(t, "result: '"+expression+"'", `
- {stepName: Each, forEach: {list: "[1, 2]"}, uses: Do}
- {stepName: Rows, forEach: {list: "[1]"}, steps: [{stepName: Cell, uses: Do}]}
`)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		l := &callLog{}
		got := run(t, flow, workflow.Options{Actions: []workflow.Action{l.action()}})
		if got.Phase != runtype.Succeeded || string(got.Result()) != want {
			t.Errorf("%s: %s %s %+v, want %s", expression, got.Phase, got.Result(), got.Fault, want)
		}
		again, err := FromSource(flow.Source, Options{Actions: actions("Do")})
		if err != nil || again.ResultText != expression || again.Result == nil {
			t.Errorf("%s: compiled from its source: %q %v", expression, again.ResultText, err)
		}
	}
	for _, wrong := range []string{`min([])`, `max([null])`, `sum(["a"])`, `min([1, "a"])`} {
		flow, err := parse(t, "result: '"+wrong+"'", "- {stepName: A, uses: Do}")
		if err != nil {
			t.Fatal(err)
		}
		l := &callLog{}
		engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{Actions: []workflow.Action{l.action()}})
		if err != nil {
			t.Fatal(err)
		}
		started, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1"})
		if err != nil {
			t.Fatal(err)
		}
		if o := engine.Advance(t.Context(), started.ID); !errors.Is(o.Err(), workflow.ExpressionFailed) {
			t.Errorf("%s: %v", wrong, o)
		}
	}
	for _, wrong := range []string{`steps.Nobody.output`, `1 +`} {
		if _, err := parse(t, fmt.Sprintf("result: '%s'", wrong), "- {stepName: A, uses: Do}"); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
