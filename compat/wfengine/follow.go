package wfengine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Signals with which this package records facts about a run.
const (
	shownSignal      = "classic.told"                       // the resource was marked as interrupted
	resumeSignal     = "pawl/" + string(runtype.VerbResume) // the engine's own signal
	skipSignal       = "pawl/" + string(runtype.VerbSkip)
	markedSuffix     = "/marked"  // end of a resume's id: the cancel mark was present already
	ownRequestPrefix = "classic/" // begin of the ids of requests that the operator itself sends
)

// unfinished is the unfinished run of a resource.
type unfinished struct {
	run  *runtype.Run
	mail []runtype.Signal
}

// unfinished finds the unfinished run of the resource; nil: there is none.
func (m *ResourceWorkflow) unfinished(ctx context.Context) (*unfinished, error) {
	store := m.engine.Store()
	lister, ok := store.(runstore.Lister)
	if !ok {
		return nil, fmt.Errorf("the store %T cannot be asked for the runs of a resource", store)
	}
	runs, _, err := lister.List(ctx, runstore.Query{Subject: m.subject, Active: true, OldestFirst: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	var first *runtype.Run
	for _, run := range runs {
		if run.Parent == "" && (first == nil || first.Phase == runtype.Queued && run.Phase != runtype.Queued) {
			first = run
		}
	}
	if first == nil {
		return nil, nil
	}
	run, mail, err := store.Load(ctx, first.ID)
	switch {
	case errors.Is(err, runstore.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case run.Phase.Final(): // the list was out of date
		return nil, nil
	}
	return &unfinished{run, mail}, nil
}

// interrupted reports whether the run is interrupted and nobody has resumed it.
func (u *unfinished) interrupted() bool { return u.run.Phase == runtype.Paused && !u.resumed() }

// resumed reports whether somebody has resumed the run, at the failed step or after it, and that
// has not taken effect yet.
func (u *unfinished) resumed() bool {
	return slices.ContainsFunc(u.mail, func(s runtype.Signal) bool { return s.Name == resumeSignal || s.Name == skipSignal })
}

// shownID returns the id of an interruption of a run.
func shownID(run *runtype.Run) string { return fmt.Sprintf("told/%d", run.State.PausedAt.UnixNano()) }

// shown reports whether the resource was marked as interrupted.
func (u *unfinished) shown() bool {
	for _, s := range u.mail {
		if s.Name == shownSignal && s.ID == shownID(u.run) {
			return true
		}
	}
	return false
}

// maxShown limits the records of a run that is interrupted again and again without a completed
// step in between, because the number of its signals is limited.
const maxShown = 100

// shownCount returns how many interruptions are recorded.
func (u *unfinished) shownCount() (n int) {
	for _, s := range u.mail {
		if s.Name == shownSignal {
			n++
		}
	}
	return n
}

type shownPayload struct {
	Previous statemachine.State `json:"previous"`
}

// previous returns the state of the resource at the newest interruption.
func (u *unfinished) previous() (previous statemachine.State) {
	for _, s := range u.mail {
		var told shownPayload
		if s.Name == shownSignal && json.Unmarshal(s.Payload, &told) == nil && told.Previous != "" {
			previous = told.Previous
		}
	}
	return previous
}

// markUsed reports whether the run was resumed although its resource had a cancel mark: that mark
// has had its effect.
func (u *unfinished) markUsed() bool {
	if last := u.run.State.Last; last != nil && last.Verb == runtype.VerbResume && strings.HasSuffix(last.ID, markedSuffix) {
		return true
	}
	for _, s := range u.mail {
		if s.Name == resumeSignal && strings.HasSuffix(s.ID, markedSuffix) {
			return true
		}
	}
	return false
}

// cancelled reports whether a resource has a cancel mark.
func (m *ResourceWorkflow) cancelled(resource statemachine.StateResource) (is bool) {
	err := func() (err error) {
		defer turn.Guard(&err)
		is = resource.IsCancelled()
		return nil
	}()
	if err != nil {
		m.Logger.Error(err, "whether the flow is cancelled could not be read")
		return false
	}
	return is
}

// patience is how long a call waits for what happens soon: the next attempt, or the end of another
// worker's lease.
const patience = 5 * time.Second

// follow works on an unfinished run.
func (m *ResourceWorkflow) follow(ctx context.Context, found *unfinished) (waiting bool, err error) {
	view := viewOf(found.run, m.WfManager.flow(found.run.Flow))
	if err := m.awaitRetry(ctx, found.run); err != nil {
		return false, err
	}
	s, err := m.begin(ctx, view)
	if err != nil {
		return false, err
	}
	return m.work(ctx, s, found)
}

// awaitRetry waits for the next attempt if it is soon. Otherwise the call returns the failure of
// the last one.
func (m *ResourceWorkflow) awaitRetry(ctx context.Context, run *runtype.Run) error {
	cur := run.Current()
	if run.Phase != runtype.Running || cur == nil || cur.Phase != runtype.StepRetrying {
		return nil
	}
	delay := time.Until(run.NextAt)
	if delay <= 0 || m.cancelled(m.Resource) {
		return nil
	}
	if delay > patience {
		return fmt.Errorf("%w; the next attempt begins in %s", failureOf(run, nil), delay.Round(time.Second))
	}
	return sleep(ctx, delay)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// work advances a run as far as possible, and returns its state.
func (m *ResourceWorkflow) work(ctx context.Context, s *session, found *unfinished) (waiting bool, err error) {
	id, until := found.run.ID, time.Now().Add(patience)
	m.WfManager.open(s, found.run)
	var given, returned bool
	for {
		var out outcome.Outcome
		out, returned = m.advance(ctx, s, found)
		given = returned && out.IsWait() && (out.Reason() == "Owned" || out.Reason() == "Lost")
		if !given || time.Now().After(until) || sleep(ctx, patience/20) != nil {
			break
		}
	}
	if returned { // otherwise its goroutine closes the session
		defer m.WfManager.close(s)
	}
	switch {
	case given && ctx.Err() != nil: // the step was cancelled by the caller: it is not charged, and starts again
		return false, context.Cause(ctx)
	case given:
		return false, Busy.Errorf("flow %s: another worker has it", found.run.Flow)
	}
	found.run, found.mail, err = m.engine.Store().Load(context.WithoutCancel(ctx), id)
	if err != nil {
		return false, err
	}
	s.settle(found.run.Seq)
	return m.conclude(ctx, s, found)
}

// conclude returns the result of a call.
func (m *ResourceWorkflow) conclude(ctx context.Context, s *session, found *unfinished) (waiting bool, err error) {
	switch run := found.run; run.Phase {
	case runtype.Succeeded:
		m.forget(ctx, run)
		return false, nil
	case runtype.Cancelled:
		m.forget(ctx, run)
		return false, workflow.CancelledByPerson.Errorf("flow %s was cancelled", run.Flow)
	case runtype.Waiting:
		return true, nil
	case runtype.Paused:
		if !found.interrupted() {
			return false, Unfinished.Errorf("flow %s is about to go on", run.Flow)
		}
		return false, m.interrupt(ctx, found)
	case runtype.Queued:
		return false, Unfinished.Errorf("flow %s waits until an earlier one has ended", run.Flow)
	default:
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, failureOf(run, s)
	}
}

// failureOf returns the error of a step that will be retried later.
func failureOf(run *runtype.Run, s *session) error {
	cur := run.Current()
	if cur == nil || cur.Fault == nil {
		return Unfinished.Errorf("flow %s is %s", run.Flow, strings.ToLower(string(run.Phase)))
	}
	if s != nil {
		if err := s.failure(cur.Name); err != nil {
			return fmt.Errorf("flow %s: step %s: %w", run.Flow, cur.Name, err)
		}
	}
	return fmt.Errorf("flow %s: step %s: %s: %s", run.Flow, cur.Name, cur.Fault.Code, cur.Fault.Message)
}

// advance lets the engine work on the run, and polls for the cancel mark meanwhile. returned is
// false if the run is paused while an attempt ignores its cancelled context: the engine keeps the
// run until the attempt returns, so that no second copy of the step starts.
func (m *ResourceWorkflow) advance(ctx context.Context, s *session, found *unfinished) (out outcome.Outcome, returned bool) {
	id, spent, stopped := found.run.ID, found.markUsed() && !m.WfManager.seenWithoutMark(found.run.ID), false
	obey := func() {
		switch {
		case stopped:
		case !m.cancelled(m.Resource):
			spent = false
			m.WfManager.noteWithoutMark(id)
		case !spent:
			err := m.engine.Cancel(context.WithoutCancel(ctx), id, runtype.Hold, false, workflow.Actor{Name: actor, Reason: "the resource is marked as cancelled", RequestID: ownRequestPrefix + rand.Text()})
			stopped = err == nil
			if err != nil && !errors.Is(err, workflow.RunFinished) {
				m.Logger.Error(err, "the flow could not be cancelled")
			}
		}
	}
	obey()
	done := make(chan outcome.Outcome, 1)
	go func() {
		done <- m.engine.Advance(ctx, id)
	}()
	p, _ := policyOf(m.WfManager.conf())
	ticker := time.NewTicker(p.cancelEvery)
	defer ticker.Stop()
	paused := false
	for {
		select {
		case out = <-done:
			return out, true
		case <-ticker.C:
		}
		obey()
		if !stopped {
			continue
		}
		run, _, err := m.engine.Store().Load(context.WithoutCancel(ctx), id)
		if err != nil || run.Phase != runtype.Paused {
			continue
		}
		if paused { // it was paused at the last tick, too, so it is not about to return
			go func() {
				<-done
				m.WfManager.close(s)
			}()
			return out, false
		}
		paused = true
	}
}

func (m *WfManager) seenWithoutMark(run string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.withoutMark[run]
}

// noteWithoutMark records that the resource had no cancel mark, so that a later one is new.
func (m *WfManager) noteWithoutMark(run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.withoutMark == nil {
		m.withoutMark = map[string]bool{}
	}
	m.withoutMark[run] = true
}

// forget drops the state of a run that has ended, and removes old runs from time to time.
func (m *ResourceWorkflow) forget(ctx context.Context, run *runtype.Run) {
	m.WfManager.mu.Lock()
	delete(m.WfManager.withoutMark, run.ID)
	m.WfManager.mu.Unlock()
	store, ok := m.engine.Store().(runstore.Retainer)
	if !ok || !m.WfManager.retentionDue() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	ids, err := store.Expired(ctx, time.Now(), m.WfManager.retained, 100)
	if err == nil && len(ids) > 0 {
		err = store.Remove(ctx, ids)
	}
	if err != nil {
		m.Logger.Error(err, "old runs could not be removed")
	}
}

// drop ends an unfinished run, so that another one can take its place.
func (m *ResourceWorkflow) drop(ctx context.Context, run *runtype.Run, next string) error {
	err := m.engine.Cancel(ctx, run.ID, runtype.Drop, false, workflow.Actor{Name: actor, Reason: "flow " + next + " takes its place", RequestID: ownRequestPrefix + rand.Text()})
	if err != nil && !errors.Is(err, workflow.RunFinished) {
		return fmt.Errorf("flow %s could not be ended for %s: %w", run.Flow, next, err)
	}
	m.engine.Advance(ctx, run.ID)
	after, _, err := m.engine.Store().Load(ctx, run.ID)
	switch {
	case errors.Is(err, runstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !after.Phase.Final():
		return Unfinished.Errorf("flow %s is being ended, and %s was not begun", run.Flow, next)
	}
	m.forget(ctx, after)
	return nil
}

// interrupt marks the resource of a paused run, and returns the InterruptError.
func (m *ResourceWorkflow) interrupt(ctx context.Context, found *unfinished) error {
	stop := interruption(found.run)
	if err := m.showInterruption(context.WithoutCancel(ctx), found, stop); err != nil {
		return fmt.Errorf("%w; the resource was not marked, the next call does it: %w", stop, err)
	}
	return stop
}

func (m *ResourceWorkflow) showInterruption(ctx context.Context, found *unfinished, stop *define.InterruptError) error {
	m.WfManager.mu.Lock()
	recover := m.WfManager.recover
	m.WfManager.mu.Unlock()
	if found.shown() && m.Resource.GetState() == statemachine.StateInterrupt {
		return nil
	}
	conf := m.WfManager.conf()
	var told shownPayload
	err := rewrite(m.Resource, func(newest statemachine.StateResource) error {
		if newest.GetState() == statemachine.StateInterrupt {
			return nil
		}
		told.Previous = newest.GetState()
		if told.Previous == statemachine.StateNil {
			told.Previous = statemachine.StateCreating
		}
		if recover != nil {
			if err := recover.SaveResourceInterruptInfo(newest, conf, stop.Reason, stop.ErrorMsg, string(told.Previous)); err != nil {
				return err
			}
			var err error
			if newest, err = m.Resource.Fetch(); err != nil {
				return err
			}
		}
		_, err := newest.UpdateState(statemachine.StateInterrupt)
		return err
	})
	if err != nil {
		return err
	}
	if found.shownCount() >= maxShown {
		return nil
	}
	payload, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return m.engine.Send(ctx, found.run.ID, runtype.Signal{ID: shownID(found.run), Name: shownSignal, Payload: payload, Actor: actor})
}
