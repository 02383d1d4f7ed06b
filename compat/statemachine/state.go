package statemachine

// State is where a resource stands.
type State string

// The states that the library itself speaks of.
const (
	StateRunning   State = "Running"
	StateCreating  State = "Creating"
	StateInit      State = "Init"
	StateInterrupt State = "Interrupt"
	StateRebuild   State = "Rebuild"
	StateNil       State = ""
)

// StateResource is what a machine works on. Fetch must read the newest version,
// not a cache: a machine that sees an old state does old work.
type StateResource interface {
	GetName() string
	GetNamespace() string
	Fetch() (StateResource, error)
	GetState() State
	UpdateState(State) (StateResource, error)
	IsCancelled() bool
}

// StateMainEnter is what is done in a state.
type StateMainEnter interface {
	MainEnter(obj StateResource) error
	GetName() string
}

// work is the main enter of a state that works.
type work struct {
	name  string
	enter func(StateResource) error
}

func (w *work) MainEnter(obj StateResource) error { return w.enter(obj) }
func (w *work) GetName() string                   { return w.name }

// rest is the main enter of a stable state: it looks for events.
type rest struct {
	machine *StateMachine
	state   State
}

func (r *rest) GetName() string { return "stable " + string(r.state) }

// MainEnter goes to the next state when an event is due. What is to be done
// there is left to the pass that the change of state brings about.
func (r *rest) MainEnter(obj StateResource) error {
	_, err := r.machine.CheckSetStateTranslate(r.state, obj)
	return err
}
