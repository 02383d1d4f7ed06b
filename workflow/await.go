package workflow

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Await blocks until a run has ended, or is paused and no healer works on it, and returns the run.
// A save of this engine wakes it. If another engine executes the run, Await polls its head: at
// first after 50 ms, later every 2 s. It returns the error of ctx or of the store, or
// RUN_NOT_FOUND.
func (e *Engine) Await(ctx context.Context, id string) (*runtype.Run, error) {
	r, err := e.Get(ctx, id)
	if err != nil || isIdle(r) {
		return r, err
	}
	saved, stop := e.awaiting.add(r.ID)
	defer stop()
	began := time.Now()
	timer := time.NewTimer(e.options.PollInterval)
	defer timer.Stop()
	for {
		head, err := e.Head(ctx, r.ID) // check again: the run may have ended before it was added
		if err != nil || isIdle(head) {
			if r, err = e.Get(ctx, r.ID); err != nil || isIdle(r) {
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
func (e *Engine) awaitFor(r *runtype.Run, awaited time.Duration) time.Duration {
	e.mu.Lock()
	ours := e.serving && r.Owner == e.options.Worker
	e.mu.Unlock()
	if ours || e.Executes(r.ID) {
		return e.options.PollInterval
	}
	return min(max(awaited/8, awaitFirst), awaitLongest)
}

// Executes reports whether this engine executes a run now.
func (e *Engine) Executes(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, parked := e.parks[id]
	return parked || e.drivers[id] != nil
}

const (
	awaitFirst   = 50 * time.Millisecond
	awaitLongest = 2 * time.Second
)

// isIdle reports whether a run does nothing until somebody acts.
func isIdle(r *runtype.Run) bool {
	if r.Phase != runtype.Paused || r.Fault == nil {
		return r.Phase.Final() || r.Phase == runtype.Paused
	}
	for _, h := range r.State.Healing {
		if h.Code == r.Fault.Code && h.Ended == "" && (h.Open || !h.NextAt.IsZero()) {
			return false
		}
	}
	return true
}

// awaiting holds those who wait for something of a run, by its id.
type awaiting struct {
	count atomic.Int64 // of all that wait
	mu    sync.Mutex
	calls map[string]map[chan struct{}]struct{}
}

// add returns a channel that receives when wake is called for the run.
func (w *awaiting) add(id string) (saved <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[string]map[chan struct{}]struct{}{}
	}
	if w.calls[id] == nil {
		w.calls[id] = map[chan struct{}]struct{}{}
	}
	w.calls[id][c] = struct{}{}
	w.count.Add(1)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count.Add(-1)
		if delete(w.calls[id], c); len(w.calls[id]) == 0 {
			delete(w.calls, id)
		}
	}
}

// wake wakes those who wait for a run.
func (w *awaiting) wake(id string) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// ResultOf decodes the result of a run. If the run has not succeeded, it returns the error of
// OutcomeOf; if the run has no result, INPUT_INVALID.
func ResultOf[T any](r *runtype.Run) (T, error) {
	var v T
	if r.Phase != runtype.Succeeded {
		if err := OutcomeOf(r).Err(); err != nil {
			return v, err
		}
		return v, RequestInvalid.Errorf("run %s is %s: it has no result yet", r.ID, r.Phase)
	}
	if r.State.Result == nil {
		return v, runtype.InputInvalid.Errorf("flow %s has no result", r.Flow)
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
