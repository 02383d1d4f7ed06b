package workflow

import (
	"context"
	"encoding/json"
	"time"
)

// Send gives a signal to a run; durable on return.
func (e *Engine) Send(ctx context.Context, id string, s Signal) error {
	if err := reservedName(s.Name); err != nil || s.Name == "" {
		return InputInvalid.Errorf("the signal has no name of its own: %v", err)
	}
	if !legible(s.Name) || !legible(s.ID) {
		return InputInvalid.Errorf("the signal's name or id is no name: at most %d bytes of UTF-8 without control characters", maxName)
	}
	if len(s.Payload) > MaxSignal {
		return OutputTooLarge.Errorf("the payload has %d bytes, the limit is %d", len(s.Payload), MaxSignal)
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		return InputInvalid.Errorf("the payload of signal %s is not valid JSON", s.Name)
	}
	return e.post(ctx, id, s)
}

func (e *Engine) post(ctx context.Context, id string, s Signal) error {
	if s.ID == "" {
		s.ID = newID()
	}
	if s.At.IsZero() {
		s.At = now()
	}
	r, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := e.store.Send(ctx, r.ID, s); err != nil {
		return runError(id, err)
	}
	e.notify(r.ID, false)
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
			e.lookAt(r.ID, time.Now())
		}
	}
	return err
}

// Report tells the progress of a step that works outside.
func (e *Engine) Report(ctx context.Context, id, step string, p Progress) error {
	if p.At.IsZero() {
		p.At = now()
	}
	return e.ask(ctx, id, VerbProgress, Ask{Step: step, Progress: &p})
}

// Pause lets the running attempts finish and pauses the run.
func (e *Engine) Pause(ctx context.Context, id string, by Actor) error {
	return e.ask(ctx, id, VerbPause, Ask{Actor: by})
}

// Resume goes on with a paused run. Definition is "", "old" or "new" (after FLOW_CHANGED).
func (e *Engine) Resume(ctx context.Context, id string, from From, definition string, by Actor) error {
	return e.ask(ctx, id, VerbResume, Ask{Actor: by, From: from, Definition: definition})
}

// Cancel stops a run: Hold, Undo or Drop. giveUp leaves a failed undo as it is.
func (e *Engine) Cancel(ctx context.Context, id string, mode Mode, giveUp bool, by Actor) error {
	return e.ask(ctx, id, VerbCancel, Ask{Actor: by, Mode: mode, GiveUp: giveUp})
}

// Skip marks a failed or waiting step as skipped. A nil output gives none.
func (e *Engine) Skip(ctx context.Context, id, step string, output any, force bool, by Actor) error {
	ask := Ask{Actor: by, Step: step, Force: force}
	if output != nil {
		data, err := encode(output)
		if err != nil {
			return InputInvalid.Errorf("the output: %w", err)
		}
		ask.Output = data
	}
	return e.ask(ctx, id, VerbSkip, ask)
}

// ask refuses what is refused now, and stores the rest for the run's worker.
func (e *Engine) ask(ctx context.Context, id string, verb Verb, ask Ask) error {
	r, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	if d := e.driver(r.ID); d != nil {
		d.mu.RLock()
		err = d.s.admit(verb, ask)
		d.mu.RUnlock()
	} else {
		p, flowErr := e.planOf(ctx, r)
		if flowErr != nil && p == nil {
			p = noPlan
		}
		err = newState(r, p, nil).admit(verb, ask)
	}
	if r.Phase.Final() {
		if err != nil && ask.RequestID != "" && e.store.Send(ctx, r.ID, Signal{ID: ask.RequestID, Name: reserved + string(verb)}) == nil {
			return nil // a request that was carried out before the run ended, delivered again
		}
		return err
	}
	if err != nil {
		return err
	}
	if verb == VerbResume && r.Phase != Paused && r.State.Stop == nil && e.driver(r.ID) == nil {
		return nil // it goes on already
	}
	payload, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return e.post(ctx, r.ID, Signal{ID: ask.RequestID, Name: reserved + string(verb), Payload: payload, Actor: ask.Name})
}
