package statemachine_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/fault"
)

// object is a resource in memory.
type object struct {
	name    string
	state   statemachine.State
	gone    bool
	refuses error
	writes  []statemachine.State
}

func (t *object) GetName() string              { return t.name }
func (t *object) GetNamespace() string         { return "default" }
func (t *object) GetState() statemachine.State { return t.state }
func (t *object) IsCancelled() bool            { return false }
func (t *object) Fetch() (statemachine.StateResource, error) {
	if t.gone {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, t.name)
	}
	return t, nil
}
func (t *object) UpdateState(s statemachine.State) (statemachine.StateResource, error) {
	if t.refuses != nil {
		return nil, t.refuses
	}
	t.writes = append(t.writes, s)
	t.state = s
	return t, nil
}

func due(name statemachine.EventName) statemachine.EventChecker {
	return func(statemachine.StateResource) (*statemachine.Event, error) {
		return statemachine.CreateEvent(name, map[string]interface{}{"a": 1}), nil
	}
}

func quiet(statemachine.StateResource) (*statemachine.Event, error) { return nil, nil }
func broken(statemachine.StateResource) (*statemachine.Event, error) {
	return nil, errors.New("cannot look")
}
func panics(statemachine.StateResource) (*statemachine.Event, error) { panic("checker") }

func TestTransitions(t *testing.T) {
	type way struct {
		from  statemachine.State
		check statemachine.EventChecker
		to    statemachine.State
	}
	for name, c := range map[string]struct {
		state   statemachine.State
		ways    []way
		ignore  []string
		refuses error
		writes  []statemachine.State
		entered string
		err     string
	}{
		"no event":                         {state: "Running", ways: []way{{"Running", quiet, "Creating"}}},
		"no way":                           {state: "Running"},
		"an event":                         {state: "Init", ways: []way{{"Init", due("create"), "Creating"}}, writes: []statemachine.State{"Creating"}},
		"the first one that is due":        {state: "Running", ways: []way{{"Running", quiet, "Creating"}, {"Running", due("b"), "Rebuild"}, {"Running", due("c"), "Creating"}}, writes: []statemachine.State{"Rebuild"}},
		"ways of another state":            {state: "Running", ways: []way{{"Init", due("create"), "Creating"}}},
		"ignored":                          {state: "Running", ways: []way{{"Running", due("create"), "Creating"}}, ignore: []string{"create"}},
		"ignored, with one behind it":      {state: "Running", ways: []way{{"Running", due("create"), "Creating"}, {"Running", due("b"), "Rebuild"}}, ignore: []string{"create"}},
		"another one is ignored":           {state: "Running", ways: []way{{"Running", due("create"), "Creating"}}, ignore: []string{"b"}, writes: []statemachine.State{"Creating"}},
		"a checker fails":                  {state: "Running", ways: []way{{"Running", broken, "Creating"}}, err: "cannot look"},
		"a checker panics":                 {state: "Running", ways: []way{{"Running", panics, "Creating"}}, err: "PANIC: checker"},
		"a failure does not hide an event": {state: "Running", ways: []way{{"Running", broken, "Creating"}, {"Running", panics, "Creating"}, {"Running", due("b"), "Rebuild"}}, writes: []statemachine.State{"Rebuild"}},
		"into the same state":              {state: "Running", ways: []way{{"Running", due("a"), "Running"}}, writes: []statemachine.State{"Running"}},
		"the state cannot be written":      {state: "Init", ways: []way{{"Init", due("create"), "Creating"}}, refuses: errors.New("full"), err: "full"},
		"a state that works":               {state: "Creating", entered: "Creating"},
		"no state is Creating":             {state: "", entered: "Creating"},
		"its work fails":                   {state: "Rebuild", err: "broken work"},
		"its work panics":                  {state: "Panics", err: "PANIC: work"},
		"an unknown state":                 {state: "Elsewhere", err: "status is not registered"},
	} {
		t.Run(name, func(t *testing.T) {
			entered := ""
			sm := statemachine.CreateStateMachineInstance("thing")
			sm.RegisterStableState(statemachine.StateRunning, statemachine.StateInterrupt, statemachine.StateInit)
			sm.RegisterStateMainEnter(statemachine.StateCreating, func(statemachine.StateResource) error { entered = "Creating"; return nil })
			sm.RegisterStateMainEnter(statemachine.StateRebuild, func(statemachine.StateResource) error { return errors.New("broken work") })
			sm.RegisterStateMainEnter("Panics", func(statemachine.StateResource) error { panic("work") })
			for _, w := range c.ways {
				sm.RegisterStateTranslate(w.from, w.check, w.to)
			}
			sm.RegisterIgnoreEvents(c.ignore)
			obj := &object{name: "a", state: c.state, refuses: c.refuses}
			err := sm.DoStateMainEnter(obj)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if !slices.Equal(obj.writes, c.writes) || entered != c.entered {
				t.Errorf("wrote %v, entered %q; want %v, %q", obj.writes, entered, c.writes, c.entered)
			}
		})
	}
}

// A change of state ends the pass: the work of the new state is left to the next one. Both
// registrations in one call are the same as one by one.
func TestTranslateMainEnter(t *testing.T) {
	entered := 0
	sm := statemachine.CreateStateMachineInstance("thing")
	sm.RegisterStableState(statemachine.StateInit)
	sm.RegisterStateTranslateMainEnter(statemachine.StateInit, due("create"), statemachine.StateCreating, func(obj statemachine.StateResource) error {
		entered++
		return nil
	})
	obj := &object{name: "a", state: statemachine.StateInit}
	for pass, want := range []int{0, 1} {
		if err := sm.DoStateMainEnter(obj); err != nil || entered != want || obj.state != statemachine.StateCreating {
			t.Fatalf("pass %d: entered %d, state %s, %v", pass, entered, obj.state, err)
		}
	}
}

// Passes over one resource do not overlap; other resources, and the same name of another type, do
// not wait. (Defect 20: the lock used the name only.)
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int32
		work := func(statemachine.StateResource) error {
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(time.Second)
			at.Add(-1)
			return nil
		}
		machine := func(kind string) *statemachine.StateMachine {
			sm := statemachine.CreateStateMachineInstance(kind)
			sm.RegisterStateMainEnter(statemachine.StateCreating, work)
			return sm
		}
		one, other := machine("thing"), machine("other")
		pass := func(sm *statemachine.StateMachine, names ...string) (took time.Duration, together int32) {
			most.Store(0)
			begin := time.Now()
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() {
					if err := sm.DoStateMainEnter(&object{name: name, state: statemachine.StateCreating}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return time.Since(begin), most.Load()
		}
		if took, together := pass(one, "a", "a", "a"); took != 3*time.Second || together != 1 {
			t.Errorf("one resource: %s, %d at once", took, together)
		}
		if took, together := pass(one, "a", "b", "c"); took != time.Second || together != 3 {
			t.Errorf("three resources: %s, %d at once", took, together)
		}
		var both sync.WaitGroup
		begin := time.Now()
		both.Go(func() { pass(one, "a") })
		both.Go(func() { pass(other, "a") })
		both.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("two types of one name: %s", took)
		}
	})
}

// Defect 32: a missing resource is not retried forever.
func TestGone(t *testing.T) {
	sm := statemachine.CreateStateMachineInstance("thing")
	sm.RegisterStableState(statemachine.StateRunning)
	if err := sm.DoStateMainEnter(&object{name: "a", state: statemachine.StateRunning, gone: true}); err != nil {
		t.Error(err)
	}
}

// A panic becomes the fault PANIC with its stack.
func TestPanicIsAFault(t *testing.T) {
	sm := statemachine.CreateStateMachineInstance("thing")
	sm.RegisterStateMainEnter(statemachine.StateCreating, func(statemachine.StateResource) error { panic("work") })
	err := sm.DoStateMainEnter(&object{name: "a", state: statemachine.StateCreating})
	if fault.Of(err) != fault.Panic || fault.Details(err)["stack"] == nil {
		t.Errorf("%v with %v", err, fault.Details(err))
	}
	// The lock was released.
	if err := sm.DoStateMainEnter(&object{name: "a", state: statemachine.StateCreating}); fault.Of(err) != fault.Panic {
		t.Error(err)
	}
}
