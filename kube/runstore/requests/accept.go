package requests

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Verbs is what an engine does on request; *workflow.Engine has it.
type Verbs interface {
	Pause(ctx context.Context, id string, by workflow.Actor) error
	Resume(ctx context.Context, id string, from workflow.From, definition string, by workflow.Actor) error
	Cancel(ctx context.Context, id string, mode runtype.Mode, giveUp bool, by workflow.Actor) error
	Skip(ctx context.Context, id, step string, output any, force bool, by workflow.Actor) error
	Send(ctx context.Context, id string, s runtype.Signal) error
	Report(ctx context.Context, id, step string, p runtype.Progress) error
}

// Acceptor accepts what annotations of an object ask for, in three steps: a value without an
// id is stamped, then the request is accepted under its id, then the annotation is
// removed if it still has that value. A crash between any two changes nothing in
// the end: the same id is accepted once. It serves a Run and its subject alike.
type Acceptor struct {
	Engine Verbs
	Ended  []string         // runs that have ended: what one of them has accepted is not asked of another
	Actor  string           // who asks; default "annotation"
	Now    func() time.Time // default time.Now
	NewID  func() string    // default a random one
}

// Answer is what became of a request.
type Answer struct {
	Request
	Err error // nil: accepted; else a refusal
}

// Record is the answer as it stands in status.lastRequest.
func (a Answer) Record(now time.Time) api.RunRequest {
	r := api.RunRequest{ID: a.ID, Verb: string(a.Verb), State: "Accepted"}
	if !now.IsZero() {
		r.At = now.UTC().Format(time.RFC3339Nano)
	}
	if a.Err != nil {
		kind := fault.Of(a.Err)
		r.State, r.Code, r.Message, r.Remedy = "Refused", string(kind.Code), fault.Message(a.Err), kind.Remedy
	}
	return r
}

// Accept carries the requests among annotations out on a run ("": there is none) and
// tells what became of them. answered is called between acceptance and removal,
// so that an answer is never lost; it may be called again for the same id. An
// error is trouble: nothing is refused for it, and the call is to be repeated.
func (a Acceptor) Accept(ctx context.Context, run string, annotations map[string]string, guard request.Guard, answered func(Answer) error) error {
	var errs []error
	for _, asked := range ReadRequests(annotations) {
		if err := a.accept(ctx, run, asked, guard, answered); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a Acceptor) accept(ctx context.Context, run string, asked Request, guard request.Guard, answered func(Answer) error) error {
	annotation := request.Annotation{Key: asked.Key, Value: asked.Value, Stamped: asked.ID != "" || asked.Err != nil}
	return request.Accept(ctx, annotation, guard, func(value string) string { return readRequest(asked.Key, value).Stamp(a.newID()) }, func(ctx context.Context, value string) error {
		asked = readRequest(asked.Key, value)
		err := asked.Err
		if err == nil {
			err = a.deliver(ctx, run, asked)
		}
		if err != nil && !IsRefusal(err) {
			return err
		}
		return answered(Answer{Request: asked, Err: err})
	})
}

func (a Acceptor) newID() string {
	if a.NewID != nil {
		return a.NewID()
	}
	return request.NewID()
}

// IsRefusal tells an answer from trouble: trouble is tried again.
func IsRefusal(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	kind := fault.Of(err)
	return kind == runstore.QueueFull || kind.Class != fault.Transient && !errors.Is(err, runstore.ErrConflict)
}

// deliver asks the run, unless an earlier one has accepted the same request: who
// asked it died before the annotation was removed.
func (a Acceptor) deliver(ctx context.Context, run string, asked Request) error {
	for _, ended := range a.Ended {
		if asked.Verb == runtype.VerbProgress {
			break // it has no id
		}
		// A run that has ended takes nothing but what it knows already.
		err := a.Engine.Send(ctx, ended, runtype.Signal{ID: asked.requestID(), Name: "known"})
		if err == nil {
			return nil
		}
		if !IsRefusal(err) {
			return err
		}
	}
	if run == "" {
		return workflow.RunNotFound.Errorf("no run is active here")
	}
	return a.carryOut(ctx, run, asked)
}

// requestID is the id a run knows the request by: two verbs with one id are two requests.
func (a Request) requestID() string {
	if a.Verb == Signal {
		return a.ID
	}
	return string(a.Verb) + "/" + a.ID
}

func (a Acceptor) carryOut(ctx context.Context, run string, asked Request) error {
	name := a.Actor
	if name == "" {
		name = "annotation"
	}
	by := workflow.Actor{Name: name, RequestID: asked.requestID()}
	switch asked.Verb {
	case runtype.VerbPause:
		return a.Engine.Pause(ctx, run, by)
	case runtype.VerbResume:
		return a.Engine.Resume(ctx, run, asked.From, "", by)
	case runtype.VerbCancel:
		return a.Engine.Cancel(ctx, run, asked.Mode, false, by)
	case runtype.VerbSkip:
		return a.Engine.Skip(ctx, run, asked.Step, nil, false, by)
	case runtype.VerbProgress:
		p := asked.Progress
		p.At = a.now()
		return a.Engine.Report(ctx, run, asked.Step, p)
	default:
		return a.Engine.Send(ctx, run, runtype.Signal{ID: asked.ID, Name: asked.Step, Payload: asked.Payload, Actor: name, At: a.now()})
	}
}

func (a Acceptor) now() time.Time {
	if a.Now != nil {
		return a.Now().UTC()
	}
	return time.Now().UTC()
}

// PatchGuard guards by JSON patches (RFC 6902) that test a value first. patch sends one
// to the object, with the content type application/json-patch+json.
type PatchGuard func(ctx context.Context, patch []byte) error

// Set implements request.Guard.
func (g PatchGuard) Set(ctx context.Context, key, old, value string) (bool, error) {
	return g.send(ctx, key, old, map[string]any{"op": "replace", "value": value})
}

// Remove implements request.Guard.
func (g PatchGuard) Remove(ctx context.Context, key, old string) (bool, error) {
	return g.send(ctx, key, old, map[string]any{"op": "remove"})
}

func (g PatchGuard) send(ctx context.Context, key, old string, act map[string]any) (bool, error) {
	path := "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	act["path"] = path
	data, err := client.Encode([]map[string]any{{"op": "test", "path": path, "value": old}, act})
	if err != nil {
		return false, err
	}
	switch err := g(ctx, data); {
	case err == nil:
		return true, nil
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return false, nil // it has another value by now, or is gone
	default:
		return false, client.StoreError(ctx, "changing the annotation "+key, err)
	}
}
