package runstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// starter starts the runs that new objects ask for, and answers requests in annotations.
type starter struct {
	*shared
	requests chan struct{} // receives when an object has a request
}

// Starter is an engine that starts runs too; *workflow.Engine is one.
type Starter interface {
	requests.Verbs
	Start(ctx context.Context, req workflow.Request) (*runtype.Run, error)
}

// retryRefused is the delay before a refused start is tried again if the reason may end
// by itself: the flow gets loaded, the queue gets shorter.
const retryRefused = time.Minute

// ServeRequests serves the requests in objects of the kind Run until ctx ends: it starts
// a Run that a person has created, and accepts annotations (see requests.Request). It sends
// nothing while there are no requests. One process of those that share the store is
// enough; several do no harm.
func (s *Store) ServeRequests(ctx context.Context, engine Starter) error {
	acceptor := requests.Acceptor{Engine: engine}
	wait := time.Duration(0)
	for {
		next, err := s.starter.serveOnce(ctx, engine, acceptor)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller has ended ctx
		}
		switch {
		case err != nil:
			s.log.Warn("kube/runstore: requests could not be accepted yet", "error", err)
			wait = min(max(2*wait, 100*time.Millisecond), 10*time.Second)
			next = wait
		default:
			wait = 0
		}
		if !s.starter.awaitRequests(ctx, next) {
			return nil
		}
	}
}

// awaitRequests blocks until an object has a request or d has passed; 0: no limit. It
// returns false when ctx ends or the store is closed.
func (s *starter) awaitRequests(ctx context.Context, d time.Duration) bool {
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.requests:
	case <-due:
	case <-s.ctx.Done():
		return false
	}
	return true
}

// serveOnce serves all present requests. It returns when to try again; 0: when the next
// request comes.
func (s *starter) serveOnce(ctx context.Context, engine Starter, acceptor requests.Acceptor) (next time.Duration, err error) {
	s.mu.Lock()
	var requesting []*entry
	for _, e := range s.cache.objects {
		if len(e.Annotations) > 0 || !e.Accepted() {
			requesting = append(requesting, e)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, e := range requesting {
		s.mu.Lock()
		started, run := e.Accepted(), e.ID()
		annotations := e.Annotations
		s.mu.Unlock()
		if !started {
			wait, err := s.startObject(ctx, engine, e)
			errs = append(errs, err)
			if wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
			continue
		}
		r := s.runRef(e.key.namespace, e.key.name)
		guard := requests.PatchGuard(func(ctx context.Context, patch []byte) error { return s.client.PatchTested(ctx, r, patch) })
		err := acceptor.Accept(ctx, run, annotations, guard, func(a requests.Answer) error { return s.answer(ctx, e, a.Record(time.Now())) })
		if err == nil {
			err = s.refresh(ctx, e) // the watch may be slower than the next pass
		}
		if errors.Is(err, runstore.ErrNotFound) {
			err = nil
		}
		errs = append(errs, err)
	}
	return next, errors.Join(errs...)
}

// answer writes the result of a request into the status of its run, and posts an Event
// about a refusal.
func (s *starter) answer(ctx context.Context, e *entry, record api.RunRequest) error {
	if record.State == "Refused" {
		s.history.postEvent(ctx, e, notice{
			id: record.ID + record.Verb + record.Code, warning: true, reason: fault.Camel(fault.Code(record.Code)),
			message: fmt.Sprintf("%s %s was refused: %s %s", record.Verb, record.ID, record.Message, record.Remedy), at: time.Now(),
		})
	}
	err := s.write(ctx, e, "answering request "+record.ID, func(e *entry) (*format.Edit, error) {
		if last := e.Status.LastRequest; last != nil && last.ID == record.ID && last.Verb == record.Verb && last.State == record.State && last.Code == record.Code {
			return nil, nil
		}
		ed := &format.Edit{Head: format.Head(&e.Status)}
		ed.Head.LastRequest = &record
		if !e.Accepted() {
			ed.Head.Message = record.Message
		}
		return ed, nil
	})
	if errors.Is(err, runstore.ErrNotFound) {
		return nil
	}
	return err
}

const objectRequestPrefix = "object/"

// startObject starts the run that an object requests, or writes the refusal into its
// status. It returns when to try again; 0: never.
func (s *starter) startObject(ctx context.Context, engine Starter, e *entry) (wait time.Duration, err error) {
	s.mu.Lock()
	o := *e.Object
	s.mu.Unlock()
	id := fmt.Sprintf("start-%d", o.Generation)
	last := o.Status.LastRequest
	if last != nil && last.ID == id && last.State == "Refused" {
		at := (&format.Decoder{}).Time(last.At)
		mayEnd := last.Code == string(workflow.FlowUnknown.Code) || last.Code == string(runstore.QueueFull.Code)
		if !mayEnd {
			return 0, nil
		}
		if left := time.Until(at.Add(retryRefused)); left > 0 && time.Since(e.startRequestedAt) < retryRefused {
			return left, nil
		}
	}
	input := []byte(o.Spec.InputText)
	if len(input) == 0 {
		input = o.Spec.Input
	}
	s.mu.Lock()
	e.startRequestedAt = time.Now()
	s.mu.Unlock()
	_, err = engine.Start(ctx, workflow.Request{
		Flow: o.Spec.Flow, Subject: o.Subject(), RequestID: objectRequestPrefix + o.Namespace + "/" + o.Name + "/" + o.UID, Input: input, Labels: o.Spec.Labels,
		Actor: workflow.Actor{Name: o.Spec.Actor, Reason: o.Spec.Reason},
	})
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, runstore.ErrNotFound):
		return 0, nil // it was deleted meanwhile
	case !requests.IsRefusal(err):
		return 0, err
	}
	answer := requests.Answer{Request: requests.Request{ID: id, Verb: requests.VerbStart}, Err: err}
	wait = retryRefused
	if kind := fault.Of(err); kind != workflow.FlowUnknown && kind != runstore.QueueFull {
		wait = 0
	}
	return wait, s.answer(ctx, e, answer.Record(time.Now()))
}

// requestedObject returns the object that has requested a start under a request id; nil:
// the run needs a new object.
func (s *starter) requestedObject(requestID string) *entry {
	rest, ours := strings.CutPrefix(requestID, objectRequestPrefix)
	parts := strings.Split(rest, "/")
	if !ours || len(parts) != 3 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.cache.objects[objectKey{parts[0], parts[1]}]; e != nil && e.UID == parts[2] && !e.Accepted() {
		return e
	}
	return nil
}

// adopt makes a run of an object that a person has created. It takes the slot first, then
// writes the whole status at once. After a crash in between, the next try repairs it.
func (s *starter) adopt(ctx context.Context, e *entry, r *runtype.Run, events []runtype.Event) error {
	n, err := s.slots.takeSlot(ctx, e.key.namespace, e.key.name, r.Subject)
	if err != nil {
		return err
	}
	return s.write(ctx, e, "starting run "+e.key.name, func(e *entry) (*format.Edit, error) {
		if e.Accepted() {
			return nil, nil
		}
		initial := initialStatus(r, events)
		h := format.Head(initial)
		h.ID, h.InputText, h.RequestID, h.CreatedAt = r.ID, string(r.Input), r.RequestID, format.TimeText(r.CreatedAt)
		h.LastRequest = nil
		if n > 0 {
			queue(&h, n)
		}
		ed := &format.Edit{Head: h, Steps: initial.Steps, Events: map[string]*api.RunEvent{}}
		for key, event := range initial.Events {
			ed.Events[key] = &event
		}
		return ed, nil
	})
}
