package controller

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/outcome"
)

// maxStack is the maximum size of the stack of a panic in its fault, in bytes.
const maxStack = 16 << 10

// worker makes the passes of one controller.
type worker[T client.Object] struct {
	name, kind      string
	reconcile       func(ctx context.Context, ref control.Ref) outcome.Outcome
	conditions      func(T) *[]metav1.Condition
	condition       string // type of the condition that reports RetriesExhausted
	givenUp         func(control.Ref, error)
	runs            *Runs
	last            func(T) **v1alpha1.RunRequest
	acceptsRequests func(T) bool
	cached          client.Reader // has the change that triggered the pass
	live            client.Reader
	client          client.Client
	newObject       func() T
	passes          context.Context // of the manager; ends later than the controller's
	retries         *retries
	events          Events
	metrics         *metrics
	log             *slog.Logger
	now             func() time.Time
}

// Reconcile makes one pass. Its outcome decides what follows, as in control.Controller:
//
//	Done                        the failures of the key are reset
//	Wait, Later with a delay    the same, and the key is reconciled again after the delay
//	Fail                        the key is retried at a growing delay, and given up after MaxRetries in a row
//	Fail, Kind.Uncharged        the same, but it uses up no retry
//	panic                       Fail with PANIC
//	any, the object is deleted  the key is forgotten
//
// Reconcile never returns an error to controller-runtime, which would count, delay and log
// it by its own rules.
func (w *worker[T]) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	ctx = passContext{w.passes, ctx}
	ref := control.Ref{Kind: w.kind, Namespace: key.Namespace, Name: key.Name}
	start := w.now()
	out := w.runPass(ctx, ref)
	if ctx.Err() == nil {
		w.metrics.pass(w.name, w.now().Sub(start), out)
	}
	obj := w.newObject()
	err := w.cached.Get(ctx, key.NamespacedName, obj)
	if isNotFound(err) {
		w.retries.forget(key)
		return reconcile.Result{}, nil
	}
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, nil //nolint:nilerr // cancelled by the stop: says nothing about the key
	case err != nil: // the object is unknown
		after := w.retries.delay(key)
		w.log.Warn("the object cannot be read", "controller", w.name, "key", ref.String(), "error", err, "again", after)
		return reconcile.Result{RequeueAfter: after}, nil
	case out.IsFail():
		return w.failed(ctx, key, ref, obj, out.Err()), nil
	}
	return w.succeeded(ctx, key, ref, obj, out), nil
}

func (w *worker[T]) runPass(ctx context.Context, ref control.Ref) (out outcome.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			err := fault.Panic.Errorf("reconcile of %s: %v", ref, p)
			if cause, ok := p.(error); ok {
				err = fault.Panic.Errorf("reconcile of %s: %w", ref, cause)
			}
			out = outcome.Fail(err.With("stack", string(stack[:min(len(stack), maxStack)])))
		}
	}()
	requestErr := w.acceptRequests(ctx, ref) // an error of a request does not prevent the pass
	out = w.reconcile(ctx, ref)
	if out.IsFail() {
		return outcome.Fail(faultOf(out.Err()))
	}
	if requestErr != nil {
		return outcome.Fail(faultOf(requestErr))
	}
	return out
}

func (w *worker[T]) succeeded(ctx context.Context, key reconcile.Request, ref control.Ref, obj T, out outcome.Outcome) reconcile.Result {
	if err := w.revive(ctx, obj, out); err != nil {
		after := w.retries.delay(key)
		w.log.Log(ctx, control.LogLevel(err), "the object's state could not be reported", "controller", w.name, "key", ref.String(), "error", err, "again", after)
		return reconcile.Result{RequeueAfter: after}
	}
	w.retries.forget(key)
	return reconcile.Result{RequeueAfter: out.After()}
}

func (w *worker[T]) failed(ctx context.Context, key reconcile.Request, ref control.Ref, obj T, err error) reconcile.Result {
	kind := fault.Of(err)
	exhausted, newCode := w.retries.failed(key, string(kind.Code), kind.Uncharged)
	if newCode {
		w.events.Fault(obj, err)
	}
	if exhausted {
		given := control.RetriesExhausted.Errorf("%s failed %d times in a row, at last with %w", ref, w.retries.limit+1, err).
			With("object", ref.String()).With("cause", string(kind.Code))
		w.log.Error("given up until the next change", "controller", w.name, "key", ref.String(), "error", given)
		reportErr := w.giveUp(ctx, obj, given)
		if reportErr == nil {
			w.metrics.givenUp.WithLabelValues(w.name, string(kind.Code)).Inc()
			w.events.Fault(obj, given)
			if w.givenUp != nil {
				w.givenUp(ref, given)
			}
			w.retries.forget(key)
			return reconcile.Result{}
		}
		err = reportErr // the fault was not written: retry the key, then write it again
	}
	after := w.retries.delay(key)
	w.log.Log(ctx, control.LogLevel(err), "reconcile failed", "controller", w.name, "key", ref.String(), "code", kind.Code, "error", err, "again", after)
	return reconcile.Result{RequeueAfter: after}
}

// passContext ends with the passes of a manager, and also has the values of the
// controller's context. The values of the first come first: they include its cause.
type passContext struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c passContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
