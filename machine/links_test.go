package machine

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/outcome"
)

type pods struct{ want, have int }

// replicas is a chain that judges pods.
var replicas = chain.Chain[*pods]{
	{Name: "Add", Decide: func(p *pods) (d chain.Decision[*pods]) {
		for n := p.have; n < p.want; n++ {
			d.Acts = append(d.Acts, chain.Act[*pods]{Name: "create", Targets: []string{string(rune('a' + n))}, Assume: func(p *pods) { p.have++ },
				Do: func(context.Context, *pods) outcome.Outcome { panic("a plan acts") }})
		}
		return d
	}},
	{Name: "Check", Subs: chain.Chain[*pods]{
		{Name: "Limit", Decide: func(p *pods) (d chain.Decision[*pods]) {
			if p.have > 3 {
				d.Outcome = outcome.Wait(0, "TooMany", "%d pods are too many", p.have)
			}
			return d
		}},
		{Name: "Sane", Decide: func(p *pods) (d chain.Decision[*pods]) {
			if p.want < 0 {
				d.Outcome = outcome.Fail(Invalid.Errorf("%d pods", p.want))
			}
			return d
		}},
	}},
	{Name: "Tell", Run: func(context.Context, *pods) outcome.Outcome { return outcome.Fail(errors.New("a plan runs")) }},
}

// The plan of a chain is its table: what each link would do, and as its act and reason the
// first that acts or stops.
func TestPlanOfLinks(t *testing.T) {
	table := replicas[:2]
	for _, c := range []struct {
		name  string
		chain chain.Chain[*pods]
		scope pods
		want  Plan
	}{
		{"at rest", table, pods{1, 1}, Plan{Act: Rest, Why: "no link has anything to do", Links: []PlannedLink{
			{Link: "Add", Verdict: LinkDone}, {Link: "Check/Limit", Verdict: LinkDone}, {Link: "Check/Sane", Verdict: LinkDone}}}},
		{"acts and stops", table, pods{5, 3}, Plan{Act: Work, Why: "Add: create d and 1 more", Links: []PlannedLink{
			{Link: "Add", Verdict: LinkDone, Acts: []string{"create d", "create e"}},
			{Link: "Check/Limit", Verdict: LinkWait, Reason: "TooMany", Message: "5 pods are too many"},
			{Link: "Check/Sane", Verdict: LinkDone, Behind: "Check/Limit"}}}},
		{"fails", table, pods{-1, 1}, Plan{Act: Rest, Why: "Check/Sane: -1 pods", Code: Invalid.Code, Remedy: Invalid.Remedy, Links: []PlannedLink{
			{Link: "Add", Verdict: LinkDone}, {Link: "Check/Limit", Verdict: LinkDone},
			{Link: "Check/Sane", Verdict: LinkFail, Code: Invalid.Code, Message: "-1 pods"}}}},
		{"is held", table.Hold(func(name string) bool { return name == "Add" }), pods{2, 1}, Plan{Act: Rest, Why: "Add: its acts are held", Links: []PlannedLink{
			{Link: "Add", Verdict: LinkLater, Acts: []string{"create b"}, Held: true, Reason: chain.ReasonHeld, Message: "its acts are held"},
			{Link: "Check/Limit", Verdict: LinkDone}, {Link: "Check/Sane", Verdict: LinkDone}}}},
		{"cannot say", replicas[2:], pods{}, Plan{Act: Work, Why: "Tell: it says what it does only by doing it", Links: []PlannedLink{
			{Link: "Tell", Verdict: LinkUnknown, Message: "it says what it does only by doing it"}}}},
	} {
		c.want.Object = "pods/default/p"
		if got := PlanOfLinks("pods/default/p", c.chain.Plan(&c.scope)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v\nnot\n%+v", c.name, got, c.want)
		}
	}
}
