// Package statemachine is the state machine of the PolarDB Stack workflow library, implemented
// with Pawl's: stable states check for events, the others do work.
//
//	sm := statemachine.CreateStateMachineInstance("dbcluster")
//	sm.RegisterStableState(statemachine.StateRunning, statemachine.StateInterrupt, statemachine.StateInit)
//	sm.RegisterStateTranslateMainEnter(statemachine.StateInit, checkInstall, statemachine.StateCreating, installMainEnter)
//	err := sm.DoStateMainEnter(resource) // in Reconcile
package statemachine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/machine"
)

// transition leads from a stable state to another one.
type transition struct {
	check EventChecker
	to    State
}

// StateMachine has the states of one type of resource. It is safe for concurrent use. Calls for
// resources with the same name and namespace run one after the other.
type StateMachine struct {
	ResourceType string
	Logger       logr.Logger

	mu          sync.RWMutex
	ignored     []string
	enters      map[State]StateMainEnter
	transitions map[State][]transition
}

// turns are shared by all machines, because there may be two for one type.
var turns turn.Turns

// CreateStateMachineInstance returns the machine of a type of resource.
func CreateStateMachineInstance(resourceType string) *StateMachine {
	return &StateMachine{
		ResourceType: resourceType,
		Logger:       logr.FromSlogHandler(slog.Default().Handler()).WithName("statemachine").WithName(resourceType),
		enters:       map[State]StateMainEnter{}, transitions: map[State][]transition{},
	}
}

// RegisterIgnoreEvents sets the events that the machine ignores. It replaces earlier ones.
func (sm *StateMachine) RegisterIgnoreEvents(ignoreEvents []string) *StateMachine {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.ignored = slices.Clone(ignoreEvents)
	return sm
}

// RegisterLogger sets the logger of the machine.
func (sm *StateMachine) RegisterLogger(logger logr.Logger) *StateMachine {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.Logger = logger.WithName("statemachine")
	return sm
}

// RegisterStableState adds stable states.
func (sm *StateMachine) RegisterStableState(states ...State) {
	for _, state := range states {
		sm.register(state, &rest{machine: sm, state: state})
	}
}

// RegisterStateMainEnter sets the work of an unstable state.
func (sm *StateMachine) RegisterStateMainEnter(state State, action func(obj StateResource) error) {
	sm.register(state, &work{name: string(state), enter: action})
}

func (sm *StateMachine) register(state State, enter StateMainEnter) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.enters == nil {
		sm.enters = map[State]StateMainEnter{}
	}
	sm.enters[state] = enter
}

// RegisterStateTranslate adds a transition from a stable state. Transitions are checked in the
// order in which they were added.
func (sm *StateMachine) RegisterStateTranslate(beforeState State, eventChecker EventChecker, afterState State) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.transitions == nil {
		sm.transitions = map[State][]transition{}
	}
	sm.transitions[beforeState] = append(sm.transitions[beforeState], transition{eventChecker, afterState})
}

// RegisterStateTranslateMainEnter adds a transition from a stable state, and the work of the state
// to which it leads.
func (sm *StateMachine) RegisterStateTranslateMainEnter(beforeState State, eventChecker EventChecker, afterState State, action func(obj StateResource) error) {
	sm.RegisterStateTranslate(beforeState, eventChecker, afterState)
	sm.RegisterStateMainEnter(afterState, action)
}

// DoStateMainEnter makes one pass for the state of the resource, on its newest version. A missing
// resource is not an error. Passes over one resource do not overlap.
func (sm *StateMachine) DoStateMainEnter(obj StateResource) (err error) {
	leave, err := turns.Take(context.Background(), sm.ResourceType+"/"+obj.GetNamespace()+"/"+obj.GetName())
	if err != nil {
		return err
	}
	defer leave()
	defer turn.Guard(&err)
	newest, err := obj.Fetch()
	if apierrors.IsNotFound(err) {
		return nil // the resource is gone
	}
	if err != nil {
		return err
	}
	state := newest.GetState()
	if state == StateNil {
		state = StateCreating
	}
	sm.mu.RLock()
	enter, known := sm.enters[state]
	sm.mu.RUnlock()
	log := sm.log(newest)
	if !known {
		err := fmt.Errorf("%s: %v status is not registered", sm.ResourceType, state)
		log.Error(err, "the state of the resource is unknown", "state", state)
		return err
	}
	log.V(1).Info("main enter", "state", state, "enter", enter.GetName())
	return enter.MainEnter(newest)
}

// CheckSetStateTranslate checks for a due event of a stable state and writes the state to which it
// leads. It returns StateNil if no event is due, or if the first one is ignored.
//
// If a checker fails or panics, the later ones are still called. Its error is returned if no event
// is found.
func (sm *StateMachine) CheckSetStateTranslate(nowState State, obj StateResource) (State, error) {
	sm.mu.RLock()
	ways := slices.Clone(sm.transitions[nowState])
	ignored := sm.ignored
	sm.mu.RUnlock()
	log := sm.log(obj)
	found, failures := choose(nowState, ways, obj)
	failed := errors.Join(failures...)
	switch {
	case found == nil && failed != nil:
		log.Error(failed, "no event could be found", "state", nowState)
		return StateNil, failed
	case found == nil:
		return StateNil, nil
	case failed != nil:
		log.Error(failed, "a checker failed; another one has found an event", "state", nowState, "event", found.event.Name)
	}
	if slices.Contains(ignored, string(found.event.Name)) {
		log.Info("the event is ignored", "state", nowState, "event", found.event.Name)
		return StateNil, nil
	}
	log.Info("state", "from", nowState, "to", found.to, "event", found.event.Name)
	if _, err := obj.UpdateState(found.to); err != nil {
		return StateNil, fmt.Errorf("state %s was not written: %w", found.to, err)
	}
	return found.to, nil
}

type finding struct {
	event *Event
	to    State
}

// choose makes Pawl's machine take the first transition whose event is due. In that machine each
// transition leads to a state of its own, because two of them may lead to one state, and one may
// lead back to where it began.
func choose(from State, ways []transition, obj StateResource) (found *finding, failures []error) {
	const here = machine.State("here")
	table := machine.Table[StateResource]{Name: "classic", Initial: here, States: map[machine.State]machine.StateSpec[StateResource]{}}
	place := machine.StateSpec[StateResource]{Rests: true}
	for i, way := range ways {
		to := machine.State(strconv.Itoa(i))
		table.States[to] = machine.StateSpec[StateResource]{Rests: true}
		place.On = append(place.On, machine.Transition[StateResource]{To: to, Event: string(to), When: func(obj StateResource) (bool, error) {
			event, err := check(way.check, obj)
			if err != nil {
				failures = append(failures, fmt.Errorf("the way from %s to %s: %w", from, way.to, err))
				return false, nil
			}
			if event != nil {
				found = &finding{event: event, to: way.to}
			}
			return event != nil, nil
		}})
	}
	table.States[here] = place
	machine.Decide(table, obj, machine.Facts{Position: machine.Position{State: here, Visit: 1}, Now: time.Now()})
	return found, failures
}

func check(checker EventChecker, obj StateResource) (event *Event, err error) {
	defer turn.Guard(&err)
	return checker(obj)
}

func (sm *StateMachine) log(obj StateResource) logr.Logger {
	sm.mu.RLock()
	defer sm.mu.RUnlock()
	return sm.Logger.WithValues("namespace", obj.GetNamespace(), "name", obj.GetName())
}
