// Package statemachine is the state machine of the PolarDB Stack workflow
// library, on Pawl's: stable states look for events, the others work.
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

// StateMachine holds the states of one type of resource. It is safe for
// concurrent use; resources of one name in one namespace take turns.
type StateMachine struct {
	ResourceType string
	Logger       logr.Logger

	mu          sync.RWMutex
	ignored     []string
	enters      map[State]StateMainEnter
	transitions map[State][]transition
}

// turns are shared by all machines, as two may be made for one type.
var turns turn.Turns

// CreateStateMachineInstance makes the machine of a type of resource.
func CreateStateMachineInstance(resourceType string) *StateMachine {
	return &StateMachine{
		ResourceType: resourceType,
		Logger:       logr.FromSlogHandler(slog.Default().Handler()).WithName("statemachine").WithName(resourceType),
		enters:       map[State]StateMainEnter{}, transitions: map[State][]transition{},
	}
}

// RegisterIgnoreEvents names the events that are not acted on, in place of
// those that were named before.
func (sm *StateMachine) RegisterIgnoreEvents(ignoreEvents []string) *StateMachine {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.ignored = slices.Clone(ignoreEvents)
	return sm
}

// RegisterLogger sets where the machine logs to.
func (sm *StateMachine) RegisterLogger(logger logr.Logger) *StateMachine {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	sm.Logger = logger.WithName("statemachine")
	return sm
}

// RegisterStableState adds states that rest until an event is due.
func (sm *StateMachine) RegisterStableState(states ...State) {
	for _, state := range states {
		sm.register(state, &rest{machine: sm, state: state})
	}
}

// RegisterStateMainEnter says what is done in a state that works.
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

// RegisterStateTranslate adds a way out of a stable state. The ways are tried in
// the order in which they were added.
func (sm *StateMachine) RegisterStateTranslate(beforeState State, eventChecker EventChecker, afterState State) {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	if sm.transitions == nil {
		sm.transitions = map[State][]transition{}
	}
	sm.transitions[beforeState] = append(sm.transitions[beforeState], transition{eventChecker, afterState})
}

// RegisterStateTranslateMainEnter adds a way out of a stable state, and what is
// done where it leads.
func (sm *StateMachine) RegisterStateTranslateMainEnter(beforeState State, eventChecker EventChecker, afterState State, action func(obj StateResource) error) {
	sm.RegisterStateTranslate(beforeState, eventChecker, afterState)
	sm.RegisterStateMainEnter(afterState, action)
}

// DoStateMainEnter does what the resource's state asks for: one pass, on the
// newest version of it. A resource that is gone is no error. Passes over one
// resource do not overlap.
func (sm *StateMachine) DoStateMainEnter(obj StateResource) (err error) {
	leave, err := turns.Take(context.Background(), sm.ResourceType+"/"+obj.GetNamespace()+"/"+obj.GetName())
	if err != nil {
		return err
	}
	defer leave()
	defer turn.Guard(&err)
	newest, err := obj.Fetch()
	if apierrors.IsNotFound(err) {
		return nil // whatever was wanted of it is moot
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

// CheckSetStateTranslate looks for a due event of a stable state and writes the
// state it leads to. StateNil: none is due, or the first one is ignored.
//
// A checker that fails, or panics, does not keep those behind it from being
// asked. Its error is the answer if no event is found.
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

// choose lets Pawl's machine take the first way whose event is due. A way leads
// to a place of its own there, for two of them may lead to one state, and one
// back to where it began.
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
