package machine

import (
	"reflect"
	"slices"
	"testing"
)

func TestGraph(t *testing.T) {
	always := func(string) (bool, error) { return true, nil }
	table := Table[string]{
		Name: "lamp", Kind: "Lamp", Initial: "Dark",
		Any: []Transition[string]{{To: "Gone", Event: "delete", When: always, Text: "object.metadata.deleting"}},
		States: map[State]StateSpec[string]{
			"Dark":      {Description: "no light", On: []Transition[string]{{To: "Lighting", Event: "switch", Why: "light is wanted"}}},
			"Lighting":  {Flow: "Light", Then: "Lit", Abort: "Dark"},
			"Lit":       {Rests: true},
			Interrupted: {Rests: true},
			"Gone":      {},
		},
	}
	if problems := table.Check(nil); problems != nil {
		t.Fatal(problems)
	}
	got := table.Graph()
	want := Graph{
		Name: "lamp", Kind: "Lamp", Initial: "Dark",
		States: []GraphState{
			{Name: "Dark", Type: Stable, Description: "no light"}, {Name: "Lighting", Type: Transient, Flows: []string{"Light"}},
			{Name: "Lit", Type: Stable}, {Name: Interrupted, Type: Stable}, {Name: "Gone", Type: Final},
		},
		Transitions: []GraphTransition{
			{To: "Gone", Cause: ByEvent, Event: "delete", When: "object.metadata.deleting"},
			{From: "Dark", To: "Lighting", Cause: ByEvent, Event: "switch", Why: "light is wanted"},
			{From: "Lighting", To: "Lit", Cause: ByThen}, {From: "Lighting", To: Interrupted, Cause: ByElse}, {From: "Lighting", To: "Dark", Cause: ByAbort},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, tr := range got.Transitions {
		if !slices.ContainsFunc(got.States, func(s GraphState) bool { return s.Name == tr.To }) {
			t.Errorf("%+v leads to a state that the graph does not have", tr)
		}
	}
}
