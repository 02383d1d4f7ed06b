package machine

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/outcome"
)

func TestCheck(t *testing.T) {
	never := func(*testObject) (bool, error) { return false, nil }
	work := func(context.Context, *testObject) outcome.Outcome { return outcome.Done() }
	on := func(ts ...Transition[*testObject]) StateSpec[*testObject] { return StateSpec[*testObject]{On: ts} }
	flow := func(then State) StateSpec[*testObject] {
		return StateSpec[*testObject]{Flow: "F", Then: then, Else: "A"}
	}
	table := func(any []Transition[*testObject], places map[State]StateSpec[*testObject]) Table[*testObject] {
		return Table[*testObject]{Name: "m", Initial: "A", Any: any, States: places}
	}
	type places = map[State]StateSpec[*testObject]
	for name, c := range map[string]struct {
		table Table[*testObject]
		want  []string
	}{
		"valid":    {table(nil, places{"A": on(Transition[*testObject]{Event: "go", To: "B"}), "B": flow("A")}), nil},
		"empty":    {Table[*testObject]{}, []string{`machine: the name "": use a letter`, "states: the machine has no states"}},
		"initial":  {Table[*testObject]{Name: "m", States: places{"A": {}}}, []string{"initial: name the state"}},
		"initial?": {Table[*testObject]{Name: "m", Initial: "Initt", States: places{"Init": {}}}, []string{`initial: unknown state "Initt" (did you mean Init?)`}},
		"names": {table(nil, places{"A": on(Transition[*testObject]{Event: "-go", To: "B-"}), "B-": {}}), []string{
			`states.B-: the state "B-"`, `states.A.on.0.event: the event "-go"`}},
		"duplicate states": {table(nil, places{"A": {}, "a": {}}), []string{"states.a: duplicate state"}},
		"transition": {table(nil, places{"A": on(
			Transition[*testObject]{Event: "e", To: "Bb", When: never}, Transition[*testObject]{Event: "e", To: "A", When: never},
			Transition[*testObject]{Event: "f", To: "B"}, Transition[*testObject]{Cancel: "kill"}), "B": {}}), []string{
			`states.A.on.0.to: unknown state "Bb" (did you mean B?)`, "states.A.on.1.to: it leads to the state it leaves", `states.A.on.1.event: duplicate event "e"`,
			"states.A.on.2.when: it has no condition, so the transitions behind it can never win", "states.A.on.3.to: name the state it leads to",
			"states.A.on.3.event: name the event", `states.A.on.3.ends: "kill" is neither drop nor undo`}},
		"any": {table([]Transition[*testObject]{{Event: "del", To: "B"}}, places{"A": on(Transition[*testObject]{Event: "del", To: "B", When: never}), "B": {}}), []string{
			"any.0.when: it has no condition", `states.A.on.0.event: duplicate event "del"`}},
		"stable place with ways": {table(nil, places{"A": {On: []Transition[*testObject]{{Event: "e", To: "B"}}, Then: "B", Else: "B", Abort: "B", Rests: true}, "B": {}}), []string{
			"states.A.rests: a state with transitions rests anyway", "states.A.then: a state without flow or action", "states.A.else:", "states.A.abort:"}},
		"place that works": {table(nil, places{"A": on(Transition[*testObject]{Event: "e", To: "B"}),
			"B": {Flow: "Nope", Do: work, Rests: true, On: []Transition[*testObject]{{}}, Abort: "B"}}), []string{
			"states.B.flow: a state has an action or a flow, not both", "states.B.rests:", "states.B.on: transitions of a state that works", `states.B.flow: unknown flow "Nope"`,
			"states.B.then: the state has no way out", "states.B.else: name the state that follows when its work fails", "states.B.abort: the state has no way out"}},
		"targets of a place": {table(nil, places{"A": on(Transition[*testObject]{Event: "e", To: "B"}),
			"B": {Flow: "F", Then: "Aa", Else: "C", Abort: "Q"}, "C": flow("A")}), []string{
			`states.B.then: unknown state "Aa"`, "states.B.else: C works, but the paused run has to be waited for", `states.B.abort: unknown state "Q"`}},
		"ignore":                           {Table[*testObject]{Name: "m", Initial: "A", Ignore: []string{"resise"}, States: places{"A": on(Transition[*testObject]{Event: "resize", To: "B"}), "B": {}}}, []string{`ignore.0: no transition has the event "resise" (did you mean resize?)`}},
		"unreachable":                      {table(nil, places{"A": {}, "B": on(Transition[*testObject]{Event: "e", To: "A"})}), []string{"states.B: unreachable: no way leads from A"}},
		"a final state is not left by any": {table([]Transition[*testObject]{{Event: "del", To: "B", When: never}}, places{"A": {}, "B": {}}), []string{"states.B: unreachable"}},
		"self":                             {table(nil, places{"A": on(Transition[*testObject]{Event: "e", To: "B"}), "B": flow("B")}), []string{"states.B.then: the state has no way out: it follows itself"}},
		"cycle": {table(nil, places{"A": on(Transition[*testObject]{Event: "e", To: "B"}), "B": flow("C"), "C": flow("D"), "D": flow("B")}), []string{
			"states.B.then: a cycle without a stable state: B → C → D → B"}},
		"cycle by else": {table(nil, places{"A": on(Transition[*testObject]{Event: "e", To: "B"}),
			"B": {Do: work, Then: "A", Else: "C"}, "C": {Do: work, Then: "B", Else: "A"}}), []string{"states.B.else: a cycle without a stable state: B → C → B"}},
		"abort": {table(nil, places{"A": {Flow: "F", Then: "B", Else: "B"}, "B": {}}), []string{"states.A.abort: objects begin here"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.table.Check(func(flow string) bool { return flow == "F" })
			if len(got) != len(c.want) {
				t.Fatalf("%d problems, want %d:\n%v", len(got), len(c.want), got)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i].String(), want) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], want)
				}
			}
		})
	}
}

func TestNewReportsEverythingAtOnce(t *testing.T) {
	_, err := New(Table[*testObject]{Name: "m", Initial: "A", States: map[State]StateSpec[*testObject]{
		"A": {On: []Transition[*testObject]{{Event: "e", To: "B"}, {Event: "e", To: "C"}}}, "B": {Flow: "F", Then: "A", Else: "A"}}}, Options[*testObject]{})
	if !errors.Is(err, Invalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"can never win", "duplicate event", `unknown state "C"`, "Options.Flows is not set", "Options.Objects is not set"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestMermaid(t *testing.T) {
	got := lifecycle().Mermaid()
	const golden = "testdata/lifecycle.mmd"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the drawing differs from %s (UPDATE=1 rewrites it):\n%s", golden, got)
	}
}
