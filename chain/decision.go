package chain

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// Decision is what a link would do and what it reports when that is done. The zero Decision
// does nothing and is Done.
type Decision[S any] struct {
	Acts    []Act[S]        // carried out in order; one that is not Done ends the link with its outcome
	Outcome outcome.Outcome // of the link, once all acts are Done
	// Opens is how long a link that does not act has to wait at least; 0: that is not known. Outcome.After tells when
	// it is looked at again, which may be later or earlier.
	Opens time.Duration
}

// Act is one effect of a link.
type Act[S any] struct {
	Name    string   // what it does, for people: "create pod"
	Targets []string // what it does it to
	Do      func(context.Context, S) outcome.Outcome
	// Assume changes the scope of a plan as Do would change the world, so that the decisions
	// of later links are those after it. nil: later links see no difference.
	Assume func(S)
}

// String returns the act as text: "create pod a-1, a-2".
func (a Act[S]) String() string { return PlannedAct{a.Name, a.Targets}.String() }

// act carries out what a link has decided.
func (d Decision[S]) act(ctx context.Context, scope S) (done int, out outcome.Outcome) {
	for i, act := range d.Acts {
		if ctx.Err() != nil {
			return i, outcome.Fail(context.Cause(ctx))
		}
		if out := act.Do(ctx, scope); !out.IsDone() {
			return i, out
		}
	}
	return len(d.Acts), d.Outcome
}

// ReasonHeld is the reason of a link whose acts are held.
const ReasonHeld = "Held"

// Hold returns the chain with the links held whose names holds reports; the name of a link
// with Subs holds all links below it. A held link decides, and does nothing: it reports Later
// with the reason Held, and so later links still run. A held link without Decide cannot say
// what it would do; it is not run, and reports Later too.
//
//	held := strings.Split(annotations["pawl.dev/hold"], ",")
//	report := cluster.Hold(func(link string) bool { return slices.Contains(held, link) }).Reconcile(ctx, s)
func (c Chain[S]) Hold(holds func(name string) bool) Chain[S] { return c.hold("", holds) }

func (c Chain[S]) hold(prefix string, holds func(name string) bool) Chain[S] {
	all := make(Chain[S], len(c))
	for i, sub := range c {
		name := prefix + sub.Name
		below := holds
		if holds(name) {
			sub.held, below = true, func(string) bool { return true }
		}
		if sub.Subs != nil {
			sub.Subs = sub.Subs.hold(name+"/", below)
		}
		all[i] = sub
	}
	return all
}

// run makes one pass over a link that has no Subs.
func (s Sub[S]) run(ctx context.Context, scope S) (acts int, held bool, out outcome.Outcome) {
	switch {
	case s.Decide == nil && s.held:
		return 0, true, outcome.Later(0, ReasonHeld, "it is held, and not run")
	case s.Decide == nil:
		return 0, false, s.Run(ctx, scope)
	}
	decision := s.Decide(scope)
	if s.held && len(decision.Acts) > 0 {
		texts := make([]string, len(decision.Acts))
		for i, act := range decision.Acts {
			texts[i] = act.String()
		}
		return 0, true, outcome.Later(0, ReasonHeld, "held: %s", strings.Join(texts, "; "))
	}
	acts, out = decision.act(ctx, scope)
	return acts, false, out
}
