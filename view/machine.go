package view

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
)

// Machine is the JSON form of a loaded machine.
type Machine struct {
	Name        string                    `json:"name"`
	Kind        string                    `json:"kind" doc:"kind of the objects that it moves"`
	Initial     machine.State             `json:"initial"`
	File        string                    `json:"file,omitempty" doc:"that defines it; absent: it is part of the program"`
	Count       int                       `json:"count" doc:"number of states"`
	Objects     *ObjectCounts             `json:"objects,omitempty" doc:"absent: not known here"`
	States      []machine.GraphState      `json:"states,omitempty" doc:"in the order in which they are reached from the initial one; absent in lists"`
	Transitions []machine.GraphTransition `json:"transitions,omitempty" doc:"those from any state first, then by state, in the order in which they are tried; absent in lists"`
}

// ObjectCounts counts the objects of a machine.
type ObjectCounts struct {
	Total   int          `json:"total"`
	ByState []StateCount `json:"byState" doc:"states with objects, in the order of the machine; objects without a state count as those of the initial one"`
}

// StateCount is how many objects are in a state.
type StateCount struct {
	State   machine.State `json:"state"`
	Objects int           `json:"objects"`
}

// Machines is the list of loaded machines.
type Machines struct {
	Items []Machine `json:"items"`
}

// OfMachines returns the JSON form of the kinds that a machine with a graph serves, in the order of their names.
func OfMachines(kinds []driver.ServedKind) []Machine {
	machines := []Machine{}
	for _, k := range kinds {
		if g := k.Graph; g != nil {
			machines = append(machines, Machine{Name: g.Name, Kind: k.Kind, Initial: g.Initial, File: k.File, Count: len(g.States), States: g.States, Transitions: g.Transitions})
		}
	}
	slices.SortFunc(machines, func(a, b Machine) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return machines
}

// Brief returns the machine without the fields that lists omit.
func (m Machine) Brief() Machine {
	m.States, m.Transitions = nil, nil
	return m
}

// CountObjects returns the counts of objects by their state; "": they have none yet. A state that the machine does
// not have comes last.
func (m Machine) CountObjects(states map[machine.State]int) *ObjectCounts {
	counts := &ObjectCounts{ByState: []StateCount{}}
	order := map[machine.State]int{}
	for i, s := range m.States {
		order[s.Name] = i - len(m.States) // negative: those that it does not have are behind
	}
	sum := map[machine.State]int{}
	for state, objects := range states {
		sum[cmp.Or(state, m.Initial)] += objects
		counts.Total += objects
	}
	for state, objects := range sum {
		counts.ByState = append(counts.ByState, StateCount{State: state, Objects: objects})
	}
	slices.SortFunc(counts.ByState, func(a, b StateCount) int {
		return cmp.Or(cmp.Compare(order[a.State], order[b.State]), cmp.Compare(a.State, b.State))
	})
	return counts
}

// MachineTable returns the table of `pawl get machines`.
func MachineTable(machines []Machine) Table {
	return TableOf(machines, []Column[Machine]{
		{Head: "NAME", Cell: func(m Machine) string { return m.Name }},
		{Head: "KIND", Cell: func(m Machine) string { return m.Kind }},
		{Head: "INITIAL", Cell: func(m Machine) string { return string(m.Initial) }},
		{Head: "STATES", Cell: func(m Machine) string { return strconv.Itoa(m.Count) }},
		{Head: "OBJECTS", Cell: func(m Machine) string {
			if m.Objects == nil {
				return none
			}
			return strconv.Itoa(m.Objects.Total)
		}},
		{Head: "FILE", Cell: func(m Machine) string { return cmp.Or(m.File, none) }},
	})
}
