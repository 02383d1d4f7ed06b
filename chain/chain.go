// Package chain runs subreconcilers: small idempotent pieces of a reconciliation, in order.
//
//	var cluster = chain.Chain[*scope]{
//		{Name: "UpdateStatus", Run: updateStatus},
//		{Name: "Network", Subs: chain.Chain[*scope]{
//			{Name: "AddServices", Run: addServices},
//			{Name: "RemoveServices", Run: removeServices},
//		}},
//		{Name: "AddPods", Run: addPods},
//	}
//
//	return cluster.Reconcile(ctx, s).Outcome()
//
// Done goes on, Later is remembered and goes on, Wait and Fail stop the chain.
//
// A link that has Decide instead of Run says what it would do before it does it. From the same
// table come the pass (Reconcile), the plan (Plan), and a pass in which some links must not
// act (Hold).
package chain

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// MaxStack is the maximum size of the stack of a panic in the details of its fault, in bytes.
const MaxStack = 16 << 10

// saveGrace is the time limit of save when the context has ended.
const saveGrace = 10 * time.Second

// Sub is one link. It has one of Run, Decide and Subs.
type Sub[S any] struct {
	Name string
	// Run decides and acts.
	Run func(context.Context, S) outcome.Outcome
	// Decide decides from the scope alone, without effects: so the link can be planned, and
	// its acts can be held.
	Decide func(S) Decision[S]
	// Subs is a chain in the place of the link. Its links are reported as Name/link.
	Subs Chain[S]

	held bool
}

// Chain is a list of links in order.
type Chain[S any] []Sub[S]

// Reconcile runs the links in order. A panic is Fail with PANIC. When the context has
// ended, the next link does not run and is reported as failed with the cause. To nest a
// chain with another scope, call it in a Run and return Report.Outcome.
func (c Chain[S]) Reconcile(ctx context.Context, scope S) Report {
	r := Report{Started: time.Now()}
	c.run(ctx, scope, "", &r)
	r.Took = time.Since(r.Started)
	return r
}

// ReconcileAndSave calls Reconcile, then save once, which writes the status. It calls save
// also after Fail, and when the context has ended (with a limit of 10 s). The returned
// report has the error of save in Save.
func (c Chain[S]) ReconcileAndSave(ctx context.Context, scope S, save func(context.Context, S, Report) error) Report {
	r := c.Reconcile(ctx, scope)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), saveGrace)
		defer cancel()
	}
	r.Save = guarded("the status write", func() outcome.Outcome { return outcome.Fail(save(ctx, scope, r)) }).Err()
	r.Took = time.Since(r.Started)
	return r
}

func (c Chain[S]) run(ctx context.Context, scope S, prefix string, r *Report) {
	for _, sub := range c {
		name := prefix + sub.Name
		switch {
		case sub.Subs != nil:
			sub.Subs.run(ctx, scope, name+"/", r)
		case r.stopped():
			r.NotReached = append(r.NotReached, name)
		default:
			r.Links = append(r.Links, runLink(ctx, scope, name, sub))
		}
	}
}

func runLink[S any](ctx context.Context, scope S, name string, sub Sub[S]) Link {
	link := Link{Name: name, Started: time.Now()}
	if ctx.Err() != nil {
		link.Outcome = outcome.Fail(context.Cause(ctx))
		return link
	}
	link.Outcome = guarded(name, func() (out outcome.Outcome) {
		link.Acts, link.Held, out = sub.run(ctx, scope)
		return out
	})
	link.Took = time.Since(link.Started)
	return link
}

func guarded(name string, run func() outcome.Outcome) (out outcome.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			err := fault.Panic.Errorf("%s: %v", name, p)
			if cause, ok := p.(error); ok {
				err = fault.Panic.Errorf("%s: %w", name, cause)
			}
			out = outcome.Fail(err.With("stack", string(stack[:min(len(stack), MaxStack)])))
		}
	}()
	return run()
}

// Link is the result of one link that was reached.
type Link struct {
	Name    string
	Outcome outcome.Outcome
	Acts    int  // carried out; of links with Decide
	Held    bool // it would have acted, and was held
	Started time.Time
	Took    time.Duration
}

// Report is the result of a chain.
type Report struct {
	Links      []Link   // the links that were reached, in order
	NotReached []string // the links after the one that stopped the chain
	Save       error    // error of save in ReconcileAndSave
	Started    time.Time
	Took       time.Duration
}

func (r Report) stopped() bool {
	if len(r.Links) == 0 {
		return false
	}
	last := r.Links[len(r.Links)-1].Outcome
	return last.IsWait() || last.IsFail()
}

// Blocker returns the link that stopped the chain, or else the first that reported Later.
// Its reason and message go into the condition Progressing. It returns false if all links
// are done.
func (r Report) Blocker() (Link, bool) {
	if r.stopped() {
		return r.Links[len(r.Links)-1], true
	}
	for _, link := range r.Links {
		if link.Outcome.IsLater() {
			return link, true
		}
	}
	return Link{}, false
}

// Requeue returns the shortest delay of a Wait or Later; false if no link has a delay.
func (r Report) Requeue() (time.Duration, bool) {
	var soonest time.Duration
	for _, link := range r.Links {
		if after := link.Outcome.After(); after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	return soonest, soonest > 0
}

// Err returns the error of the link that failed, else the error of save.
func (r Report) Err() error {
	if b, ok := r.Blocker(); ok && b.Outcome.IsFail() {
		return b.Outcome.Err()
	}
	return r.Save
}

// Outcome returns the outcome of the whole chain: Fail with Err; Wait or Later with the
// blocker's reason and message and the delay of Requeue; else Done.
func (r Report) Outcome() outcome.Outcome {
	if err := r.Err(); err != nil {
		return outcome.Fail(err)
	}
	b, ok := r.Blocker()
	if !ok {
		return outcome.Done()
	}
	again, _ := r.Requeue()
	if b.Outcome.IsWait() {
		return outcome.Wait(again, b.Outcome.Reason(), "%s", b.Outcome.Message())
	}
	return outcome.Later(again, b.Outcome.Reason(), "%s", b.Outcome.Message())
}

// String returns one line for logs.
func (r Report) String() string {
	b, ok := r.Blocker()
	if !ok {
		return fmt.Sprintf("%d links done in %s", len(r.Links), r.Took)
	}
	return fmt.Sprintf("%s: %s (%d links reached, %d not) in %s", b.Name, b.Outcome, len(r.Links), len(r.NotReached), r.Took)
}
