package view

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
)

func TestMachines(t *testing.T) {
	graph := machine.Graph{Name: "lamp", Kind: "Lamp", Initial: "Dark", States: []machine.GraphState{{Name: "Dark"}, {Name: "Lit"}, {Name: "Gone"}}}
	machines := OfMachines([]driver.ServedKind{{Kind: "Zebra", Machine: "zebra", Graph: &machine.Graph{Name: "zebra"}}, {Kind: "Plain"}, {Kind: "Lamp", Machine: "lamp", Graph: &graph, File: "lamp.yaml"}})
	if len(machines) != 2 || machines[0].Name != "lamp" || machines[0].Count != 3 || machines[0].File != "lamp.yaml" || machines[1].Name != "zebra" {
		t.Fatalf("got %+v", machines)
	}
	if brief := machines[0].Brief(); brief.States != nil || brief.Count != 3 || machines[0].States == nil {
		t.Errorf("got %+v", brief)
	}
	for _, c := range []struct {
		name   string
		states map[machine.State]int
		want   ObjectCounts
	}{
		{"none", nil, ObjectCounts{ByState: []StateCount{}}},
		{"in the order of the machine", map[machine.State]int{"Gone": 1, "Lit": 2, "Dark": 3}, ObjectCounts{6, []StateCount{{"Dark", 3}, {"Lit", 2}, {"Gone", 1}}}},
		{"without a state yet", map[machine.State]int{"": 2, "Dark": 1, "Lit": 1}, ObjectCounts{4, []StateCount{{"Dark", 3}, {"Lit", 1}}}},
		{"of an older machine", map[machine.State]int{"Old": 1, "Ancient": 1, "Gone": 1}, ObjectCounts{3, []StateCount{{"Gone", 1}, {"Ancient", 1}, {"Old", 1}}}},
	} {
		if got := machines[0].CountObjects(c.states); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, *got, c.want)
		}
	}
}
