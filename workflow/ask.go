package workflow

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Send gives a signal to a run; durable on return.
func (e *Engine) Send(ctx context.Context, id string, s Signal) error {
	if err := checkSignal(s); err != nil {
		return err
	}
	r, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	return e.post(ctx, r.ID, s)
}

// Post is Send for a run that the caller has just found: it is not loaded again.
func (e *Engine) Post(ctx context.Context, to Loaded, s Signal) error {
	if err := checkSignal(s); err != nil {
		return err
	}
	return e.post(ctx, to.Run.ID, s)
}

func checkSignal(s Signal) error {
	if err := reservedName(s.Name); err != nil || s.Name == "" {
		return InputInvalid.Errorf("the signal has no name of its own: %v", err)
	}
	if !validName(s.Name) || !validName(s.ID) {
		return InputInvalid.Errorf("the signal's name or id is no name: at most %d bytes of UTF-8 without control characters", maxName)
	}
	if len(s.Payload) > MaxSignal {
		return OutputTooLarge.Errorf("the payload has %d bytes, the limit is %d", len(s.Payload), MaxSignal)
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		return InputInvalid.Errorf("the payload of signal %s is not valid JSON", s.Name)
	}
	return nil
}

// post stores a signal for the run that has exactly this id.
func (e *Engine) post(ctx context.Context, id string, s Signal) error {
	if s.ID == "" {
		s.ID = newID()
	}
	if s.At.IsZero() {
		s.At = now()
	}
	if err := e.store.Send(ctx, id, s); err != nil {
		return runError(id, err)
	}
	e.notify(id, false)
	return nil
}

// Touch says that the subject changed: its active runs look at their conditions.
func (e *Engine) Touch(ctx context.Context, subject string) error {
	lister, ok := e.store.(Lister)
	if !ok {
		return nil
	}
	runs, _, err := lister.List(ctx, Query{Subject: subject, Phases: []Phase{Waiting, Running}, Limit: 100})
	for _, r := range runs {
		if e.notify(r.ID, true) {
			continue
		}
		if r.Phase == Waiting {
			e.claimAt(r.ID, time.Now())
		}
	}
	return err
}

// Report tells the progress of a step that works outside.
func (e *Engine) Report(ctx context.Context, id, step string, p Progress) error {
	if p.At.IsZero() {
		p.At = now()
	}
	return e.sendRequest(ctx, id, VerbProgress, RunRequest{Step: step, Progress: &p})
}

// Pause lets the running attempts finish and pauses the run.
func (e *Engine) Pause(ctx context.Context, id string, by Actor) error {
	return e.sendRequest(ctx, id, VerbPause, RunRequest{Actor: by})
}

// Resume goes on with a paused run. Definition is "", "old" or "new" (after FLOW_CHANGED).
func (e *Engine) Resume(ctx context.Context, id string, from From, definition string, by Actor) error {
	return e.sendRequest(ctx, id, VerbResume, RunRequest{Actor: by, From: from, Definition: definition})
}

// Cancel stops a run: Hold, Undo or Drop. giveUp leaves a failed undo as it is.
func (e *Engine) Cancel(ctx context.Context, id string, mode Mode, giveUp bool, by Actor) error {
	return e.sendRequest(ctx, id, VerbCancel, RunRequest{Actor: by, Mode: mode, GiveUp: giveUp})
}

// Skip marks a failed or waiting step as skipped. A nil output gives none.
func (e *Engine) Skip(ctx context.Context, id, step string, output any, force bool, by Actor) error {
	request := RunRequest{Actor: by, Step: step, Force: force}
	if output != nil {
		data, err := encode(output)
		if err != nil {
			return InputInvalid.Errorf("the output: %w", err)
		}
		request.Output = data
	}
	return e.sendRequest(ctx, id, VerbSkip, request)
}

// ask is Ask for a run by its id.
func (e *Engine) sendRequest(ctx context.Context, id string, verb Verb, request RunRequest) error {
	found, err := e.Find(ctx, id)
	if err != nil {
		return err
	}
	return e.SendRequest(ctx, found, verb, request)
}

// Ask sends a request to a run that the caller has just found: it is not loaded
// again, and is changed.
//
// It is decided against what the run will be once the requests before it,
// those in the mailbox included, have been carried out. What is refused then is
// refused now; the rest is stored for the run's worker, even if it will change
// nothing: a request that was accepted is in the mailbox.
func (e *Engine) SendRequest(ctx context.Context, found Loaded, verb Verb, request RunRequest) error {
	r, mail := found.Run, found.Signals
	if request.RequestID != "" && slices.ContainsFunc(mail, func(m Signal) bool { return m.ID == request.RequestID }) {
		return nil // delivered again, and not read yet
	}
	if last := r.State.Last; last != nil && request.RequestID != "" && last.ID == request.RequestID && last.Code == "" && !r.Phase.Final() {
		return nil // delivered again, and carried out
	}
	final := r.Phase.Final()
	if err := e.admitRequest(ctx, r, mail, verb, request); err != nil || final {
		if err != nil && final && request.RequestID != "" && e.store.Send(ctx, r.ID, Signal{ID: request.RequestID, Name: reserved + string(verb)}) == nil {
			return nil // a request that was carried out before the run ended, delivered again
		}
		return err
	}
	request.Revision = 0 // it was as expected when the request was accepted; what the worker saves meanwhile refuses it no more
	payload, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return e.post(ctx, r.ID, Signal{ID: request.RequestID, Name: reserved + string(verb), Payload: payload, Actor: request.Name})
}

// judge decides a request on a run that was just read, with its unread mail. It changes r.
func (e *Engine) admitRequest(ctx context.Context, r *Run, mail []Signal, verb Verb, request RunRequest) error {
	p, flowErr := e.planOf(ctx, r)
	if flowErr != nil && p == nil {
		p = noPlan
	}
	s := newState(r, p, mail)
	s.now = now()
	if d := e.driver(r.ID); d != nil { // which attempts ignore their cancelled context
		d.mu.RLock()
		defer d.mu.RUnlock()
		s.open = d.s.open
	}
	s.simulateMail()
	return s.admit(verb, request)
}
