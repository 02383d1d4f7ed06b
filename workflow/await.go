package workflow

import (
	"context"
	"encoding/json"
	"time"
)

// Await blocks until a run has ended, or is paused and no healer works on it, and returns the run.
// A save of this engine wakes it. If another engine executes the run, Await polls its head: at
// first after 50 ms, later every 2 s. It returns the error of ctx or of the store, or
// RUN_NOT_FOUND.
func (e *Engine) Await(ctx context.Context, id string) (*Run, error) {
	r, err := e.Get(ctx, id)
	if err != nil || r.isIdle() {
		return r, err
	}
	saved, stop := e.await(r.ID)
	defer stop()
	began := time.Now()
	timer := time.NewTimer(e.options.PollInterval)
	defer timer.Stop()
	for {
		head, err := e.Head(ctx, r.ID) // check again: the run may have ended before await was called
		if err != nil || head.isIdle() {
			if r, err = e.Get(ctx, r.ID); err != nil || r.isIdle() {
				return r, err
			}
			head = r
		}
		timer.Reset(e.awaitFor(head, time.Since(began)))
		select {
		case <-saved:
		case <-timer.C:
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// awaitFor returns the time until the next poll of a run that has been awaited for the given time.
// If another process executes the run, that is an eighth of this time, within limits.
func (e *Engine) awaitFor(r *Run, awaited time.Duration) time.Duration {
	e.mu.Lock()
	_, parked := e.parks[r.ID]
	ours := parked || e.drivers[r.ID] != nil || e.serving && r.Owner == e.options.Worker
	e.mu.Unlock()
	if ours {
		return e.options.PollInterval
	}
	return min(max(awaited/8, awaitFirst), awaitLongest)
}

const (
	awaitFirst   = 50 * time.Millisecond
	awaitLongest = 2 * time.Second
)

// isIdle reports whether a run does nothing until somebody acts.
func (r *Run) isIdle() bool {
	if r.Phase != Paused || r.Fault == nil {
		return r.Phase.Final() || r.Phase == Paused
	}
	for _, h := range r.State.Healing {
		if h.Code == r.Fault.Code && h.Ended == "" && (h.Open || !h.NextAt.IsZero()) {
			return false
		}
	}
	return true
}

// await returns a channel that receives when the run was saved and is idle.
func (e *Engine) await(id string) (saved <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiters == nil {
		e.waiters = map[string]map[chan struct{}]struct{}{}
	}
	if e.waiters[id] == nil {
		e.waiters[id] = map[chan struct{}]struct{}{}
	}
	e.waiters[id][c] = struct{}{}
	e.awaited.Add(1)
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.awaited.Add(-1)
		if delete(e.waiters[id], c); len(e.waiters[id]) == 0 {
			delete(e.waiters, id)
		}
	}
}

// notifyAwaiting wakes the callers of Await for a run that was just saved.
func (e *Engine) notifyAwaiting(r *Run) {
	if e.awaited.Load() == 0 || !r.isIdle() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.waiters[r.ID] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// ResultOf decodes the result of a run. If the run has not succeeded, it returns the error of
// OutcomeOf; if the run has no result, INPUT_INVALID.
func ResultOf[T any](r *Run) (T, error) {
	var v T
	if r.Phase != Succeeded {
		if err := OutcomeOf(r).Err(); err != nil {
			return v, err
		}
		return v, RequestInvalid.Errorf("run %s is %s: it has no result yet", r.ID, r.Phase)
	}
	if r.State.Result == nil {
		return v, InputInvalid.Errorf("flow %s has no result", r.Flow)
	}
	err := decode(r.State.Result, &v, "result")
	return v, err
}

// Result makes a Flow.Result of a function that returns any value that encodes as JSON.
func Result[T any](of func(View) (T, error)) func(View) (json.RawMessage, error) {
	return func(v View) (json.RawMessage, error) {
		value, err := of(v)
		if err != nil {
			return nil, err
		}
		return encode(value)
	}
}

// OutputOf decodes the output of a step, for a Result, a condition or a predicate.
func OutputOf[T any](v View, step string) (T, error) {
	var value T
	s, ok := v.Step(step)
	if !ok || s.Output == nil {
		return value, ExpressionFailed.Errorf("step %q has set no output", step)
	}
	err := decode(s.Output, &value, "output of "+step)
	return value, err
}

// result computes the result of a run whose steps are all done.
func (s *state) result() (err error) {
	if s.plan.flow.Result == nil {
		return nil
	}
	defer recovered(&err)
	data, err := s.plan.flow.Result(s.view(""))
	if err != nil {
		return err
	}
	if len(data) > MaxOutput {
		return OutputTooLarge.Errorf("the result has %d bytes, the limit is %d", len(data), MaxOutput)
	}
	s.run.State.Result, s.changed = data, true
	return nil
}
