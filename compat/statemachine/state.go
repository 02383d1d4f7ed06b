package statemachine

// State is the state of a resource.
type State string

// The states that the library itself uses.
const (
	StateRunning   State = "Running"
	StateCreating  State = "Creating"
	StateInit      State = "Init"
	StateInterrupt State = "Interrupt"
	StateRebuild   State = "Rebuild"
	StateNil       State = ""
)

// StateResource is a resource with a state. Fetch must read the newest version, not a cache: a
// machine that reads an old state repeats old work.
type StateResource interface {
	GetName() string
	GetNamespace() string
	Fetch() (StateResource, error)
	GetState() State
	UpdateState(State) (StateResource, error)
	IsCancelled() bool
}

// StateMainEnter is the work of a state.
type StateMainEnter interface {
	MainEnter(obj StateResource) error
	GetName() string
}

// work is the main enter of an unstable state.
type work struct {
	name  string
	enter func(StateResource) error
}

func (w *work) MainEnter(obj StateResource) error { return w.enter(obj) }
func (w *work) GetName() string                   { return w.name }

// rest is the main enter of a stable state: it checks for events.
type rest struct {
	machine *StateMachine
	state   State
}

func (r *rest) GetName() string { return "stable " + string(r.state) }

// MainEnter moves to the next state if an event is due. The change of state causes another pass,
// which does the work of that state.
func (r *rest) MainEnter(obj StateResource) error {
	_, err := r.machine.CheckSetStateTranslate(r.state, obj)
	return err
}
