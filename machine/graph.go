package machine

// Graph is a table as data: for drawings, and for clients that have no table.
type Graph struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind,omitempty" doc:"kind of the objects"`
	Initial     State             `json:"initial"`
	States      []GraphState      `json:"states" doc:"in the order in which they are reached from the initial one"`
	Transitions []GraphTransition `json:"transitions" doc:"those from any state first, then by state, in the order in which they are tried"`
}

// GraphState is a state of a graph.
type GraphState struct {
	Name        State     `json:"name"`
	Type        StateType `json:"type" enum:"stable,transient,final" doc:"transient: it works; final: nothing leaves it"`
	Description string    `json:"description,omitempty"`
	Flows       []string  `json:"flows,omitempty" doc:"flows whose run is the work of the state, its own first"`
}

// StateType tells states apart by how they are left.
type StateType string

// The types of states.
const (
	Stable    StateType = "stable"
	Transient StateType = "transient"
	Final     StateType = "final"
)

// GraphTransition is a transition of a graph.
type GraphTransition struct {
	From  State  `json:"from,omitempty" doc:"absent: from every state but final ones and to itself"`
	To    State  `json:"to"`
	Cause Cause  `json:"cause" enum:"event,then,else,abort" doc:"event: its condition holds; then: the work of from is done; else: its run pauses; abort: its run is cancelled"`
	Event string `json:"event,omitempty"`
	Why   string `json:"why,omitempty"`
	When  string `json:"when,omitempty" doc:"the condition as it is written; absent: none, or it is code"`
}

// Graph returns the table as data.
func (t Table[T]) Graph() Graph {
	g := Graph{Name: t.Name, Kind: t.Kind, Initial: t.Initial, States: []GraphState{}, Transitions: []GraphTransition{}}
	events := func(from State, on []Transition[T]) {
		for _, tr := range on {
			g.Transitions = append(g.Transitions, GraphTransition{From: from, To: tr.To, Cause: ByEvent, Event: tr.Event, Why: tr.Why, When: tr.Text})
		}
	}
	events("", t.Any)
	for _, name := range t.order() {
		spec := t.States[name]
		state := GraphState{Name: name, Type: Stable, Description: spec.Description}
		events(name, spec.On)
		switch {
		case spec.Final():
			state.Type = Final
		case spec.Transient():
			state.Type = Transient
			g.Transitions = append(g.Transitions, GraphTransition{From: name, To: spec.Then, Cause: ByThen}, GraphTransition{From: name, To: spec.elseState(t), Cause: ByElse})
			if spec.Abort != "" {
				g.Transitions = append(g.Transitions, GraphTransition{From: name, To: spec.Abort, Cause: ByAbort})
			}
		}
		if spec.Flow != "" {
			state.Flows = t.flows(name)
		}
		g.States = append(g.States, state)
	}
	return g
}

// Graph returns the machine as data.
func (m *Machine[T]) Graph() Graph { return m.table.Graph() }
