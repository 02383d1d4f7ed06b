package workflow

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Send stores a signal for a run. The signal is durable when Send returns.
func (e *Engine) Send(ctx context.Context, id string, s runtype.Signal) error {
	if err := checkSignal(s); err != nil {
		return err
	}
	r, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	return e.post(ctx, r.ID, s)
}

// Post is Send for a run that the caller has already loaded.
func (e *Engine) Post(ctx context.Context, to runstore.Loaded, s runtype.Signal) error {
	if err := checkSignal(s); err != nil {
		return err
	}
	return e.post(ctx, to.Run.ID, s)
}

func checkSignal(s runtype.Signal) error {
	if err := reservedName(s.Name); err != nil || s.Name == "" {
		return runtype.InputInvalid.Errorf("the signal has no name of its own: %v", err)
	}
	if !validName(s.Name) || !validName(s.ID) {
		return runtype.InputInvalid.Errorf("the signal's name or id is not valid: at most %d bytes of UTF-8 without control characters", maxName)
	}
	if len(s.Payload) > runtype.MaxSignal {
		return runtype.OutputTooLarge.Errorf("the payload has %d bytes, the limit is %d", len(s.Payload), runtype.MaxSignal)
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		return runtype.InputInvalid.Errorf("the payload of signal %s is not valid JSON", s.Name)
	}
	return nil
}

// post stores a signal for the run with exactly this id.
func (e *Engine) post(ctx context.Context, id string, s runtype.Signal) error {
	if s.ID == "" {
		s.ID = newID()
	}
	if s.At.IsZero() {
		s.At = now()
	}
	if err := e.store.Send(ctx, id, s); err != nil {
		return runError(id, err)
	}
	e.server().notify(id, false)
	return nil
}

// Touch reports a change of a subject: its active runs check their conditions.
func (e *Engine) Touch(ctx context.Context, subject string) error {
	lister, ok := e.store.(runstore.Lister)
	if !ok {
		return nil
	}
	runs, _, err := lister.List(ctx, runstore.Query{Subject: subject, Phases: []runtype.Phase{runtype.Waiting, runtype.Running}, Limit: 100})
	for _, r := range runs {
		if e.server().notify(r.ID, true) {
			continue
		}
		if r.Phase == runtype.Waiting {
			e.server().claimAt(r.ID, time.Now())
		}
	}
	return err
}

// Report sets the progress of a step whose work happens outside of the engine.
func (e *Engine) Report(ctx context.Context, id, step string, p runtype.Progress) error {
	if p.At.IsZero() {
		p.At = now()
	}
	return e.sendRequest(ctx, id, runtype.VerbProgress, RunRequest{Step: step, Progress: &p})
}

// Pause waits for the running attempts and then pauses the run.
func (e *Engine) Pause(ctx context.Context, id string, by Actor) error {
	return e.sendRequest(ctx, id, runtype.VerbPause, RunRequest{Actor: by})
}

// Resume continues a paused run. Definition is "", "old" or "new" (after FLOW_CHANGED).
func (e *Engine) Resume(ctx context.Context, id string, from From, definition string, by Actor) error {
	return e.sendRequest(ctx, id, runtype.VerbResume, RunRequest{Actor: by, From: from, Definition: definition})
}

// Cancel stops a run with mode Hold, Undo or Drop. With giveUp, a failed undo is not retried.
func (e *Engine) Cancel(ctx context.Context, id string, mode runtype.Mode, giveUp bool, by Actor) error {
	return e.sendRequest(ctx, id, runtype.VerbCancel, RunRequest{Actor: by, Mode: mode, GiveUp: giveUp})
}

// Skip marks a failed or waiting step as skipped. If output is nil, the step has no output.
func (e *Engine) Skip(ctx context.Context, id, step string, output any, force bool, by Actor) error {
	request := RunRequest{Actor: by, Step: step, Force: force}
	if output != nil {
		data, err := encode(output)
		if err != nil {
			return runtype.InputInvalid.Errorf("the output: %w", err)
		}
		request.Output = data
	}
	return e.sendRequest(ctx, id, runtype.VerbSkip, request)
}

// sendRequest is SendRequest for a run id.
func (e *Engine) sendRequest(ctx context.Context, id string, verb runtype.Verb, request RunRequest) error {
	found, err := e.Find(ctx, id)
	if err != nil {
		return err
	}
	return e.SendRequest(ctx, found, verb, request)
}

// SendRequest sends a request to a run that the caller has already loaded. It changes found.
//
// The engine decides the request against the state that the run will have when all requests before
// it, including those in the mailbox, have been carried out. SendRequest returns the refusal, or
// stores the request for the worker of the run. It stores an accepted request even if it will
// change nothing.
func (e *Engine) SendRequest(ctx context.Context, found runstore.Loaded, verb runtype.Verb, request RunRequest) error {
	r, mail := found.Run, found.Signals
	if request.RequestID != "" && slices.ContainsFunc(mail, func(m runtype.Signal) bool { return m.ID == request.RequestID }) {
		return nil // the request was delivered before and is not read yet
	}
	if last := r.State.Last; last != nil && request.RequestID != "" && last.ID == request.RequestID && last.Code == "" && !r.Phase.Final() {
		return nil // the request was delivered before and is carried out
	}
	final := r.Phase.Final()
	if err := e.admitRequest(ctx, r, mail, verb, request); err != nil || final {
		if err != nil && final && request.RequestID != "" && e.store.Send(ctx, r.ID, runtype.Signal{ID: request.RequestID, Name: reserved + string(verb)}) == nil {
			return nil // the request was delivered before and was carried out before the run ended
		}
		return err
	}
	request.Revision = 0 // the revision was right when the request was accepted; later saves of the worker do not make it invalid
	payload, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return e.post(ctx, r.ID, runtype.Signal{ID: request.RequestID, Name: reserved + string(verb), Payload: payload, Actor: request.Name})
}

// admitRequest decides a request for a run that was just loaded, with its unread mail. It changes
// r.
func (e *Engine) admitRequest(ctx context.Context, r *runtype.Run, mail []runtype.Signal, verb runtype.Verb, request RunRequest) error {
	p, flowErr := e.catalog.planOf(ctx, r)
	if flowErr != nil && p == nil {
		p = noPlan
	}
	s := newState(r, p, mail)
	s.now = now()
	if d := e.server().driver(r.ID); d != nil { // shows which attempts are abandoned
		d.mu.RLock()
		defer d.mu.RUnlock()
		s.open = d.s.open
	}
	s.requests().simulateMail()
	return s.admission().admit(verb, request)
}
