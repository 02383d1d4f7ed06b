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

// ResourceWorkflow runs the flows of one resource. Calls for one resource run one after the other,
// even through several ResourceWorkflows.
type ResourceWorkflow struct {
	Logger    logr.Logger
	Resource  statemachine.StateResource
	WfManager *WfManager

	subject string
	engine  *workflow.Engine
	tells   announcer
}

// CreateResourceWorkflow returns the flows of one resource. The first call for a resource takes
// over its unfinished flow of the PolarDB Stack engine.
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

// announcedStore is a store, and the announcer of its flows.
type announcedStore struct {
	runstore.Store
	announcer
}

// background is the context of reads and writes without a caller's context.
func (m *ResourceWorkflow) background() context.Context { return context.Background() }

// lock waits until no other call works on the resource.
func (m *ResourceWorkflow) lock(ctx context.Context) (leave func(), err error) {
	return m.WfManager.turns.Take(ctx, m.subject)
}

// Run starts a flow and works on it as far as possible. It returns nil when the flow has ended or
// waits. It first works on an earlier unfinished flow; if that does not end, the new one is not
// started (FLOW_UNFINISHED). An interrupted flow is dropped.
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

// start stores a run and works on it. The resource must not have an unfinished one.
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

// actor is the actor in the history.
const actor = "operator"

// RunLastUnCompletedRuntime continues the unfinished flow of the resource, if there is one, and
// returns its name and whether it waits now. An interrupted flow does not count. With
// ignoreOtherUnCompleted it leaves a flow with another name than flowName alone: the next Run ends
// it.
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
		// If a process dies before it has marked the resource, the resource stays in the state
		// whose flow was interrupted.
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

// GetLastUnCompletedRuntime returns the unfinished flow of the resource; nil if there is none, or
// if it is interrupted.
func (m *ResourceWorkflow) GetLastUnCompletedRuntime() (*WfRuntime, error) {
	found, err := m.unfinished(m.background())
	if err != nil || found == nil || found.interrupted() {
		return nil, err
	}
	view := viewOf(found.run, m.WfManager.flow(found.run.Flow))
	view.ResourceWorkflow, view.Logger = m, m.Logger.WithName(view.FlowName)
	return view, nil
}

// RetryInterruptedStep resumes the interrupted flow of the resource at its failed step, or at its
// first step if its file says recoverFromFirstStep, with full retry budgets. The next call works
// on it. Without an interrupted flow it does nothing.
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
	// A cancel mark that took effect already must not cancel the resumed flow.
	id := fmt.Sprintf(ownRequestPrefix+"resume/%d", found.run.State.PausedAt.UnixNano())
	if m.cancelled(m.Resource) {
		id += markedSuffix
	}
	return m.engine.Resume(ctx, found.run.ID, "", "", workflow.Actor{Name: actor, Reason: "the resource asks for it", RequestID: id})
}

// CommonWorkFlowMainEnter is the main enter of a state whose work is a flow. It continues an
// unfinished flow first. Then it checks the event once more: if it is no longer due, the resource
// goes to Running; otherwise the flow runs with its parameters. The last step of the flow writes
// the next state.
//
// With ignoreUnCompleted, the flow replaces an unfinished one of another name, which is dropped.
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
