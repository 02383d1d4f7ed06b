package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// RetriesExhausted is the fault of a key that a controller has given up until its next event or resync.
var RetriesExhausted = fault.Declare(fault.Kind{
	Code: "RETRIES_EXHAUSTED", Class: fault.Blocked,
	Title:  "reconciling failed too often in a row",
	Remedy: "Fix what the message names. The next change of the object, or the next resync, tries again.",
})

// ErrStopped is the cause of the contexts of passes that take longer than Drain.
var ErrStopped = errors.New("control: the controller stops")

const (
	// DefaultWorkers is the number of keys that are reconciled concurrently.
	DefaultWorkers = 4
	// DefaultMaxRetries is the number of retries in a row until a key is given up.
	DefaultMaxRetries = 15
	// DefaultDrain is how long a stopped controller may take to finish the ready and running passes.
	DefaultDrain = 25 * time.Second
)

// Controller calls Reconcile with the keys of changed items.
//
//	demos := control.NewShared(store.Feed("demo"), control.SharedOptions[control.Object]{Name: "demo"})
//	c := control.Controller{
//		Name:      "demo",
//		Triggers:  []control.Trigger{control.For(demos, control.DesiredChanged)},
//		Reconcile: func(ctx context.Context, key string) outcome.Outcome { … },
//	}
//	return control.Run(ctx, []control.Runner{demos}, []control.Runner{c})
//
// The outcome of Reconcile decides what follows:
//
//	Done                        the failures of the key are reset
//	Wait, Later with a delay    the same, and the key is reconciled again after the delay
//	Fail                        the key is retried at a growing delay; after MaxRetries in a row it is
//	                            given up with RETRIES_EXHAUSTED until the next event or resync
//	Fail, Kind.Uncharged        the same, but it uses up no retry (docs/promises.md, promise 12)
//	panic                       Fail with PANIC
//	any, the object is deleted  Done: the key is forgotten
type Controller struct {
	Name      string
	Reconcile func(ctx context.Context, key string) outcome.Outcome
	Triggers  []Trigger
	// Report is called for a key that was given up (err is RETRIES_EXHAUSTED and
	// wraps the last failure), and with a nil err after each pass that did not
	// fail. It writes the fault to the object or removes it: see ReportFault. If it
	// fails, the key is not given up but retried. nil: none.
	Report     func(ctx context.Context, key string, err error) error
	Workers    int           // 0: DefaultWorkers
	MaxRetries int           // 0: DefaultMaxRetries; less: none
	Drain      time.Duration // 0: DefaultDrain
	Queue      QueueOptions  // delays and bucket; Name and Metrics are set from the controller
	Metrics    Metrics       // nil: none
	Log        *slog.Logger  // nil: slog.Default
}

// Trigger adds keys to the queue of a controller: For, On or Signals.
type Trigger interface {
	synced(ctx context.Context) error
	// start adds keys until stop is called; stop waits for its goroutines.
	start(ctx context.Context, c *Controller, add func(key string)) (stop func())
	// has reports whether the object of a key exists; known: this trigger knows that.
	has(key string) (exists, known bool)
}

// Runner runs until its context ends: Shared and Controller.
type Runner interface {
	Run(ctx context.Context) error
}

// Run runs sources and controllers until the context ends or one of them fails. Then it
// stops the sources and after them the controllers, and waits for all of them. It returns
// the first error.
func Run(ctx context.Context, sources, controllers []Runner) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	later, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var first, second sync.WaitGroup
	start := func(wg *sync.WaitGroup, ctx context.Context, r Runner) {
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				end(err)
			}
		})
	}
	for _, c := range controllers {
		start(&second, later, c)
	}
	for _, s := range sources {
		start(&first, ctx, s)
	}
	<-ctx.Done()
	first.Wait()
	stop()
	second.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Run waits until the triggers are synced, then reconciles until the context ends. It then
// takes no new keys, reconciles the ready ones for up to Drain, cancels the remaining
// passes, and returns when the last has ended.
func (c Controller) Run(ctx context.Context) error {
	if c.Reconcile == nil || c.Name == "" {
		return fmt.Errorf("control: controller %q: set its Name and Reconcile", c.Name)
	}
	c.Log, c.Metrics = orDefault(c.Log), orNoMetrics(c.Metrics)
	c.Queue.Name, c.Queue.Metrics = c.Name, c.Metrics
	queue := NewQueue(c.Queue)
	defer queue.Discard()
	for _, t := range c.Triggers {
		defer t.start(ctx, &c, queue.Add)()
	}
	for _, t := range c.Triggers {
		if t.synced(ctx) != nil {
			return nil // stopped before the first pass
		}
	}
	passes, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var workers sync.WaitGroup
	for range max(cmp.Or(c.Workers, DefaultWorkers), 1) {
		workers.Go(func() {
			for key, ok := queue.Get(); ok; key, ok = queue.Get() {
				c.pass(passes, queue, key)
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	limit := time.AfterFunc(cmp.Or(c.Drain, DefaultDrain), func() {
		queue.Discard()
		cancel(ErrStopped)
	})
	defer limit.Stop()
	workers.Wait()
	return nil
}

func (c *Controller) pass(ctx context.Context, queue *Queue, key string) {
	start := time.Now()
	var out outcome.Outcome
	if err := guarded("reconcile of "+key, func() { out = c.Reconcile(ctx, key) }); err != nil {
		out = outcome.Fail(err)
	}
	c.Metrics.Work(c.Name, time.Since(start), out)
	switch {
	case c.objectDeleted(key):
		queue.Forget(key)
	case ctx.Err() != nil: // cancelled by the shutdown: says nothing about the key
	case out.IsFail():
		c.failed(ctx, queue, key, out.Err())
	default:
		c.succeeded(ctx, queue, key, out)
	}
}

func (c *Controller) succeeded(ctx context.Context, queue *Queue, key string, out outcome.Outcome) {
	if err := c.report(ctx, key, nil); err != nil {
		c.Log.Log(ctx, LogLevel(err), "the object's state could not be reported", "controller", c.Name, "key", key, "error", err)
		queue.Retry(key)
		return
	}
	queue.Forget(key)
	if out.After() > 0 {
		queue.AddAfter(key, out.After())
	}
}

// LogLevel is the level at which a failure that is tried again is logged. That somebody else wrote in between is
// ordinary, and the next try reads what they wrote: Debug. All else is Warn.
func LogLevel(err error) slog.Level {
	if fault.Of(err) == fault.WriteConflict {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (c *Controller) failed(ctx context.Context, queue *Queue, key string, err error) {
	kind := fault.Of(err)
	most := max(cmp.Or(c.MaxRetries, DefaultMaxRetries), 0)
	exhausted := !kind.Uncharged && queue.Charge(key) > most
	c.Metrics.Retry(c.Name, kind.Code, exhausted)
	if exhausted {
		exhaustedErr := RetriesExhausted.Errorf("%s failed %d times in a row, at last with %w", key, most+1, err).
			With("object", key).With("cause", string(kind.Code))
		c.Log.Error("given up until the next change", "controller", c.Name, "key", key, "error", exhaustedErr)
		reportErr := c.report(ctx, key, exhaustedErr)
		if reportErr == nil {
			queue.Forget(key)
			return
		}
		err = reportErr // the report failed: retry the key, then report again
	}
	c.Log.Log(ctx, LogLevel(err), "reconcile failed", "controller", c.Name, "key", key, "code", kind.Code, "error", err, "again", queue.Retry(key))
}

func (c *Controller) report(ctx context.Context, key string, exhaustedErr error) (err error) {
	if c.Report == nil {
		return nil
	}
	panicked := guarded("report of "+key, func() { err = c.Report(ctx, key, exhaustedErr) })
	return cmp.Or(panicked, err)
}

// objectDeleted reports whether a cache knows that the object of a key does not exist.
func (c *Controller) objectDeleted(key string) bool {
	answer := false
	for _, t := range c.Triggers {
		exists, known := t.has(key)
		if exists {
			return false
		}
		answer = answer || known
	}
	return answer
}
