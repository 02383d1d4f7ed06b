package wfengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// ResourceWorkflow runs the flows of one resource. Calls for one resource take
// turns, through however many of these they come.
type ResourceWorkflow struct {
	Logger    logr.Logger
	Resource  statemachine.StateResource
	WfManager *WfManager

	subject string
	engine  *workflow.Engine
	tells   announcer
}

// CreateResourceWorkflow gives the flows of one resource. The first call for a
// resource takes over what the PolarDB Stack engine has left of its flows.
func CreateResourceWorkflow(resource statemachine.StateResource, wfManager *WfManager) (*ResourceWorkflow, error) {
	switch {
	case resource == nil:
		return nil, errors.New("resource is nil")
	case wfManager == nil:
		return nil, errors.New("WfManager is nil")
	}
	store, err := wfManager.storeOf(resource)
	if err != nil {
		return nil, err
	}
	m := &ResourceWorkflow{
		Logger:   wfManager.Logger.WithValues("namespace", resource.GetNamespace(), "name", resource.GetName()),
		Resource: resource, WfManager: wfManager, subject: wfManager.subject(resource),
	}
	if told, ok := store.(announcedStore); ok {
		store, m.tells = told.Store, told.announcer
	}
	m.engine, err = wfManager.engine(store)
	return m, err
}

// announced is a store, and whom to tell of its flows.
type announcedStore struct {
	runstore.Store
	announcer
}

// base is the context of reads and writes that no caller bounds.
func (m *ResourceWorkflow) background() context.Context { return context.Background() }

// turn waits until no other call works on the resource.
func (m *ResourceWorkflow) lock(ctx context.Context) (leave func(), err error) {
	return m.WfManager.turns.Take(ctx, m.subject)
}

// Run begins a flow and works on it until it rests: nil when it has ended or
// waits. An earlier flow that has not ended is worked on first; if it does not
// end the new one is not begun (FLOW_UNFINISHED). One that is interrupted is
// dropped.
func (m *ResourceWorkflow) Run(ctx context.Context, flowName string, initContext map[string]interface{}) (err error) {
	leave, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if m.WfManager.flow(flowName) == nil {
		return fmt.Errorf("flowName: %v not found", flowName)
	}
	for found, err := m.unfinished(ctx); found != nil || err != nil; found, err = m.unfinished(ctx) {
		if err != nil {
			return err
		}
		if found.interrupted() {
			if err := m.drop(ctx, found.run, flowName); err != nil {
				return err
			}
			continue
		}
		waiting, err := m.follow(ctx, found)
		if err != nil {
			return fmt.Errorf("flow %s has to end before %s: %w", found.run.Flow, flowName, err)
		}
		if waiting {
			return Unfinished.Errorf("flow %s waits, and %s was not begun", found.run.Flow, flowName)
		}
	}
	_, err = m.start(ctx, flowName, initContext)
	return err
}

// start stores a run and works on it. The resource has no unfinished one.
func (m *ResourceWorkflow) start(ctx context.Context, flowName string, initContext map[string]interface{}) (waiting bool, err error) {
	flow := m.WfManager.flow(flowName)
	if flow == nil {
		return false, fmt.Errorf("flowName: %v not found", flowName)
	}
	input := utils.MapMerge(map[string]interface{}{
		m.WfManager.GetConfItem(define.WorkFlowResourceName):      m.Resource.GetName(),
		m.WfManager.GetConfItem(define.WorkFlowResourceNameSpace): m.Resource.GetNamespace(),
	}, initContext)
	data, err := json.Marshal(input)
	if err != nil {
		return false, fmt.Errorf("the context of flow %s: %w", flowName, err)
	}
	view := &WfRuntime{FlowStatus: FlowStatusPrepared, FlowName: flowName, StartTime: time.Now().Format(startTimeForm), InitContext: input, RunningSteps: stepsOf(flow)}
	s, err := m.begin(ctx, view)
	if err != nil {
		return false, err
	}
	run, err := m.engine.Start(ctx, workflow.Request{Flow: flowName, Subject: m.subject, Input: data, Actor: workflow.Actor{Name: actor}})
	if err != nil {
		return false, err
	}
	return m.work(ctx, s, &unfinished{run: run})
}

// actor is who asks, for history.
const actor = "operator"

// RunLastUnCompletedRuntime goes on with the unfinished flow of the resource, if
// there is one, and gives its name and whether it waits now. One that is
// interrupted is none. With ignoreOtherUnCompleted a flow of another name than
// flowName is left alone: the next Run ends it.
func (m *ResourceWorkflow) RunLastUnCompletedRuntime(ctx context.Context, flowName string, ignoreOtherUnCompleted bool) (oldWfName string, isWaiting bool, err error) {
	leave, err := m.lock(ctx)
	if err != nil {
		return "", false, err
	}
	defer leave()
	return m.continueLast(ctx, flowName, ignoreOtherUnCompleted)
}

func (m *ResourceWorkflow) continueLast(ctx context.Context, flowName string, ignoreOther bool) (name string, waiting bool, err error) {
	found, err := m.unfinished(ctx)
	if err != nil || found == nil {
		return "", false, err
	}
	name = found.run.Flow
	if found.interrupted() {
		// A process that died before it could mark the resource leaves it in the
		// state whose flow was interrupted.
		if name == flowName && !found.shown() && m.Resource.GetState() != statemachine.StateInterrupt {
			return name, false, m.interrupt(ctx, found)
		}
		return "", false, nil
	}
	if ignoreOther && name != flowName {
		return name, false, nil
	}
	waiting, err = m.follow(ctx, found)
	return name, waiting, err
}

// GetLastUnCompletedRuntime gives the unfinished flow of the resource; nil if
// there is none, or if it is interrupted.
func (m *ResourceWorkflow) GetLastUnCompletedRuntime() (*WfRuntime, error) {
	found, err := m.unfinished(m.background())
	if err != nil || found == nil || found.interrupted() {
		return nil, err
	}
	view := viewOf(found.run, m.WfManager.flow(found.run.Flow))
	view.ResourceWorkflow, view.Logger = m, m.Logger.WithName(view.FlowName)
	return view, nil
}

// RetryInterruptedStep lets the interrupted flow of the resource go on where it
// stopped, or at its first step if its file says recoverFromFirstStep, with full
// budgets. The next call works on it. Without such a flow nothing happens.
func (m *ResourceWorkflow) RetryInterruptedStep() error {
	ctx := m.background()
	leave, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer leave()
	found, err := m.unfinished(ctx)
	if err != nil || found == nil || !found.interrupted() {
		return err
	}
	// A cancel mark that was obeyed must not cancel the flow that goes on.
	id := fmt.Sprintf(ownRequestPrefix+"resume/%d", found.run.State.PausedAt.UnixNano())
	if m.cancelled(m.Resource) {
		id += markedSuffix
	}
	return m.engine.Resume(ctx, found.run.ID, "", "", workflow.Actor{Name: actor, Reason: "the resource asks for it", RequestID: id})
}

// CommonWorkFlowMainEnter is the main enter of a state whose work is a flow. It
// goes on with an unfinished flow first; then the event is looked at once more:
// if it is no longer due the resource goes to Running, else the flow is run with
// its parameters. The last step of the flow writes the state that follows.
//
// ignoreUnCompleted lets the flow take the place of an unfinished one of another
// name, which is dropped then.
func (m *ResourceWorkflow) CommonWorkFlowMainEnter(ctx context.Context, resource statemachine.StateResource, flowName string, ignoreUnCompleted bool, eventChecker statemachine.EventChecker) (err error) {
	leave, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer leave()
	defer turn.Guard(&err)
	if resource != nil {
		m.Resource = resource
	}
	log := m.Logger.WithName(flowName)
	_, waiting, err := m.continueLast(ctx, flowName, ignoreUnCompleted)
	if err != nil || waiting {
		return err
	}
	newest, err := m.Resource.Fetch()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the resource could not be read: %w", err)
	}
	m.Resource = newest
	event, err := eventChecker(newest)
	if err != nil {
		return err
	}
	if event == nil {
		log.Info("the event is no longer due: the resource goes to Running")
		_, err := newest.UpdateState(statemachine.StateRunning)
		return err
	}
	found, err := m.unfinished(ctx)
	if err != nil {
		return err
	}
	if m.WfManager.flow(flowName) == nil {
		return fmt.Errorf("flowName: %v not found", flowName)
	}
	if found != nil {
		if err := m.drop(ctx, found.run, flowName); err != nil {
			return err
		}
	}
	log.Info("the event is due", "event", event.Name)
	_, err = m.start(ctx, flowName, event.Params)
	return err
}
