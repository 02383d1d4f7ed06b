package workflow

import (
	"context"
	"encoding/json"
	"time"
)

// Await blocks until a run has ended, or is paused and no healer is at work on it, and
// gives it as it is then. A save of this engine wakes it. While the run is not this engine's, its head
// is read again, soon at first and then every 2 s. The error is that of ctx, of the store, or RUN_NOT_FOUND.
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
		head, err := e.Head(ctx, r.ID) // once more: it may have ended before it was awaited
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

// awaitFor is when a run is looked at again that has been awaited for so long. Nobody tells of
// the end of a run that another process executes: it is looked at after an eighth of the time
// that it has taken, within limits.
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

// rested reports a run that does not go on before somebody acts.
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

// await gives a channel that says when a run was saved and has come to rest.
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

// tellAwaiting wakes those who await a run that was just saved.
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

// ResultOf decodes the result of a run. One that has not succeeded, or has none, gives the
// failure of OutcomeOf, or INPUT_INVALID.
func ResultOf[T any](r *Run) (T, error) {
	var v T
	if r.Phase != Succeeded {
		if err := OutcomeOf(r).Err(); err != nil {
			return v, err
		}
		return v, RequestInvalid.Errorf("run %s is %s: it has no result yet", r.ID, r.Phase)
	}
	if r.State.Result == nil {
		return v, InputInvalid.Errorf("flow %s says no result", r.Flow)
	}
	err := decode(r.State.Result, &v, "result")
	return v, err
}

// Result makes the result of a flow written in Go of any value that encodes as JSON.
func Result[T any](of func(View) (T, error)) func(View) (json.RawMessage, error) {
	return func(v View) (json.RawMessage, error) {
		value, err := of(v)
		if err != nil {
			return nil, err
		}
		return encode(value)
	}
}

// OutputOf decodes the output of a step for a Result, a condition or a predicate.
func OutputOf[T any](v View, step string) (T, error) {
	var value T
	s, ok := v.Step(step)
	if !ok || s.Output == nil {
		return value, ExpressionFailed.Errorf("step %q has set no output", step)
	}
	err := decode(s.Output, &value, "output of "+step)
	return value, err
}

// result makes the result of a run whose steps are all done.
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
