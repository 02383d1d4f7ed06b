package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/files"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/view"
)

// garden is a kind that a chain serves.
func garden() driver.ServedKind {
	type plants struct{ want, have int }
	table := chain.Chain[*plants]{
		{Name: "Plant", Decide: func(p *plants) (d chain.Decision[*plants]) {
			if p.have < p.want {
				d.Acts = []chain.Act[*plants]{{Name: "plant", Targets: []string{"rose"}, Assume: func(p *plants) { p.have++ },
					Do: func(context.Context, *plants) outcome.Outcome { panic("a plan acts") }}}
			}
			return d
		}},
		{Name: "Water", Decide: func(p *plants) (d chain.Decision[*plants]) {
			if p.have > 0 {
				d.Outcome = outcome.Wait(0, "Dry", "it rains tomorrow")
			}
			return d
		}},
		{Name: "Report", Run: func(context.Context, *plants) outcome.Outcome { panic("a plan runs") }},
	}
	return driver.ServedKind{Kind: "garden", Plan: func(_ context.Context, o control.Object) (machine.Plan, error) {
		var spec struct{ Plants int }
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return machine.Plan{}, err
		}
		return machine.PlanOfLinks(o.Ref.String(), table.Plan(&plants{want: spec.Plants})), nil
	}}
}

const gardenPlan = `garden/default/g  work
  why: Plant: plant rose
  LINK    VERDICT  ACTS        WHY
  Plant   done     plant rose
  Water   wait                 Dry: it rains tomorrow
  Report  unknown              it says what it does only by doing it; behind Water
`

// A store that is opened directly has the same plan.
func TestPlanOfAKindWithAChainInAStore(t *testing.T) {
	local, err := backend.OpenLocal(t.Context(), backend.LocalOptions{Store: backend.StoreOptions{Kind: "memory"}, Kinds: []driver.ServedKind{garden()}})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	want := control.Object{Ref: control.Ref{Kind: "garden", Namespace: "default", Name: "g"}, Spec: []byte(`{"plants":1}`)}
	p, err := local.PlanObject(t.Context(), want.Ref, &want)
	if err != nil || files.MachinePlanText(p, view.Style{}) != gardenPlan {
		t.Errorf("the plan of a manifest: %v\n%s", err, files.MachinePlanText(p, view.Style{}))
	}
	objects, err := local.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if p, err = local.PlanObject(t.Context(), want.Ref, nil); err != nil || files.MachinePlanText(p, view.Style{}) != gardenPlan {
		t.Errorf("the plan of the object: %v\n%s", err, files.MachinePlanText(p, view.Style{}))
	}
}
