package chain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"pgregory.net/rapid"
)

// pods is a scope: the pods that are there and that are desired.
type pods struct {
	there, desired int
	ready          bool
	broken         bool
	calls          []string
}

func (p *pods) create(name string) chain.Act[*pods] {
	return chain.Act[*pods]{
		Name: "create pod", Targets: []string{name},
		Do: func(_ context.Context, p *pods) outcome.Outcome {
			if p.broken {
				return outcome.Fail(full.Errorf("%s", name))
			}
			p.there++
			p.calls = append(p.calls, "create "+name)
			return outcome.Done()
		},
		Assume: func(p *pods) { p.there++ },
	}
}

var podChain = chain.Chain[*pods]{
	{Name: "AddPods", Decide: func(p *pods) (d chain.Decision[*pods]) {
		for i := p.there; i < p.desired; i++ {
			d.Acts = append(d.Acts, p.create(fmt.Sprintf("a-%d", i)))
		}
		return d
	}},
	{Name: "Await", Subs: chain.Chain[*pods]{
		{Name: "Ready", Decide: func(p *pods) (d chain.Decision[*pods]) {
			if !p.ready {
				d.Outcome = outcome.Wait(10*time.Second, "PodsNotReady", "%d pods are there", p.there)
			}
			return d
		}},
	}},
	{Name: "RemovePods", Decide: func(p *pods) (d chain.Decision[*pods]) {
		if n := p.there - p.desired; n > 0 {
			d.Acts = []chain.Act[*pods]{{Name: "delete pods", Do: func(_ context.Context, p *pods) outcome.Outcome {
				p.there -= n
				p.calls = append(p.calls, fmt.Sprintf("delete %d", n))
				return outcome.Done()
			}}}
		}
		return d
	}},
	{Name: "Old", Run: func(_ context.Context, p *pods) outcome.Outcome {
		p.calls = append(p.calls, "old")
		return outcome.Done()
	}},
}

func describe(all []chain.Planned) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%s:", p.Link)
		for _, act := range p.Acts {
			fmt.Fprintf(&b, " %s;", act)
		}
		switch {
		case p.Unknown:
			b.WriteString(" unknown")
		case p.Held:
			b.WriteString(" held")
		}
		if !p.Outcome.IsDone() {
			fmt.Fprintf(&b, " %s", p.Outcome)
		}
		if p.Behind != "" {
			fmt.Fprintf(&b, " (behind %s)", p.Behind)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// A plan says what each link would do, those behind a Wait too, each as if the links before it
// had been carried out; nothing is done.
func TestPlan(t *testing.T) {
	p := &pods{there: 1, desired: 3}
	want := `AddPods: create pod a-1; create pod a-2;
Await/Ready: wait 10s PodsNotReady: 3 pods are there
RemovePods: (behind Await/Ready)
Old: unknown (behind Await/Ready)
`
	if got := describe(podChain.Plan(p)); got != want {
		t.Errorf("plan\n%swant\n%s", got, want)
	}
	if len(p.calls) > 0 {
		t.Errorf("a plan did %v", p.calls)
	}
	broken := chain.Chain[*pods]{{Name: "Bad", Decide: func(*pods) chain.Decision[*pods] { panic("p") }}}
	if got := broken.Plan(p); fault.Of(got[0].Outcome.Err()) != fault.Panic {
		t.Errorf("a decision that panics: %v", got[0].Outcome)
	}
	if got := podChain.Names(); !slices.Equal(got, []string{"AddPods", "Await/Ready", "RemovePods", "Old"}) {
		t.Errorf("names %v", got)
	}
}

// A held link decides and does not act; later links run.
func TestHold(t *testing.T) {
	hold := func(names ...string) chain.Chain[*pods] {
		return podChain.Hold(func(link string) bool { return slices.Contains(names, link) })
	}
	p := &pods{there: 1, desired: 2, ready: true}
	r := hold("AddPods", "Old").Reconcile(t.Context(), p)
	if len(p.calls) > 0 || r.Links[0].Acts != 0 || !r.Links[0].Held || r.Links[2].Held || !r.Links[3].Held {
		t.Errorf("held links did %v: %+v", p.calls, r.Links)
	}
	if got, want := r.Outcome().String(), "later 0s Held: held: create pod a-1"; got != want {
		t.Errorf("outcome %q, want %q", got, want)
	}
	want := "AddPods: create pod a-1; held later 0s Held: its acts are held\nAwait/Ready:\nRemovePods:\nOld: unknown\n"
	if got := describe(hold("AddPods").Plan(&pods{there: 1, desired: 2, ready: true})); got != want {
		t.Errorf("plan\n%swant\n%s", got, want)
	}
	p = &pods{there: 2, desired: 2, ready: true}
	if r := hold("AddPods").Reconcile(t.Context(), p); !r.Outcome().IsDone() || r.Links[0].Held {
		t.Errorf("a held link that has nothing to do is not held up: %v", r.Outcome())
	}
	if r := hold("Await").Reconcile(t.Context(), &pods{desired: 0}); r.Links[1].Held {
		t.Errorf("a link that only waits has no act to hold: %+v", r.Links[1])
	}
	if podChain.Reconcile(t.Context(), &pods{desired: 1, ready: true}).Links[0].Held {
		t.Error("Hold changed the chain it was called on")
	}
}

// The first act that is not Done ends the link; a context that ended reaches no further act.
func TestActs(t *testing.T) {
	p := &pods{desired: 2, ready: true, broken: true}
	r := podChain.Reconcile(t.Context(), p)
	if fault.Of(r.Err()) != full || r.Links[0].Acts != 0 || len(p.calls) > 0 {
		t.Errorf("%v, calls %v", r.Err(), p.calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	two := chain.Chain[*pods]{{Name: "Two", Decide: func(*pods) chain.Decision[*pods] {
		first := chain.Act[*pods]{Name: "first", Do: func(context.Context, *pods) outcome.Outcome { cancel(); return outcome.Done() }}
		return chain.Decision[*pods]{Acts: []chain.Act[*pods]{first, p.create("b")}}
	}}}
	if r := two.Reconcile(ctx, p); r.Links[0].Acts != 1 || len(p.calls) > 0 || r.Err() == nil {
		t.Errorf("after the end of the context: %+v, calls %v", r.Links[0], p.calls)
	}
}

// A pass does exactly what the plan before it says, up to the link that stops it.
func TestPlanIsWhatThePassDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() *pods {
			return &pods{there: rapid.IntRange(0, 4).Draw(t, "there"), desired: rapid.IntRange(0, 4).Draw(t, "desired"), ready: rapid.Bool().Draw(t, "ready")}
		}
		p := draw()
		held := rapid.SampledFrom([]string{"", "AddPods", "RemovePods", "Await"}).Draw(t, "held")
		c := podChain.Hold(func(link string) bool { return link == held })
		planned := *p
		plan := c.Plan(&planned)
		r := c.Reconcile(t.Context(), p)
		for i, link := range r.Links {
			if plan[i].Link != link.Name || plan[i].Behind != "" {
				t.Fatalf("link %s was planned as %+v", link.Name, plan[i])
			}
			if want := len(plan[i].Acts); !plan[i].Unknown && !plan[i].Held && link.Acts != want {
				t.Fatalf("%s did %d acts, planned %d", link.Name, link.Acts, want)
			}
			if plan[i].Held && link.Acts > 0 {
				t.Fatalf("%s is held and did %d acts", link.Name, link.Acts)
			}
		}
		for i := len(r.Links); i < len(plan); i++ {
			if plan[i].Behind == "" {
				t.Fatalf("%s was not reached, and planned as %+v", plan[i].Link, plan[i])
			}
		}
	})
}
