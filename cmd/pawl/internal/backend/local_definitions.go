package backend

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// Flows implements Definitions.
func (l *Local) Flows(context.Context) ([]view.Flow, error) {
	_, engine := l.now()
	flows := []view.Flow{}
	for _, f := range engine.Flows() {
		v, err := view.OfFlow(f)
		if err != nil {
			return nil, err
		}
		flows = append(flows, v)
	}
	return flows, nil
}

// flowName splits KIND/FLOW, the flow that serves subjects of that kind.
func flowName(name string) (kind, flow string) {
	if kind, flow, ok := strings.Cut(name, "/"); ok {
		return kind, flow
	}
	return "", name
}

// Flow implements Definitions.
func (l *Local) Flow(_ context.Context, name string) (view.Flow, error) {
	_, engine := l.now()
	kind, kindsWithoutSpec := flowName(name)
	if f := workflow.FlowFor(engine.Flows(), kindsWithoutSpec, kind); f != nil {
		return view.OfFlow(*f)
	}
	return view.Flow{}, workflow.FlowUnknown.Errorf("no flow %q is loaded", name)
}

// Faults implements Definitions.
func (l *Local) Faults(context.Context) ([]view.Kind, error) {
	kinds := []view.Kind{}
	for _, k := range fault.All() {
		kinds = append(kinds, l.kind(k))
	}
	return kinds, nil
}

// Fault implements Definitions.
func (l *Local) Fault(_ context.Context, code string) (view.Kind, error) {
	k, ok := fault.Lookup(code)
	if !ok {
		return view.Kind{}, unknownFault(code)
	}
	return l.kind(k), nil
}

func unknownFault(code string) error {
	hint := ""
	if near := view.Similar(code); len(near) > 0 {
		hint = ": did you mean " + strings.Join(near, ", ") + "?"
	}
	return route.FaultNotFound.Errorf("no fault %s%s", code, hint)
}

func (l *Local) kind(k *fault.Kind) view.Kind {
	if h, ok := l.library.Healers[k.Code]; ok {
		return view.OfKind(k, &h)
	}
	return view.OfKind(k, nil)
}

// Machines implements Definitions.
func (l *Local) Machines(context.Context) ([]machine.Standalone, error) {
	return l.library.Machines, nil
}

// PlanFlow implements Definitions.
func (l *Local) PlanFlow(_ context.Context, flow string, input []byte) (view.Plan, error) {
	_, engine := l.now()
	p, err := engine.Plan(flow, input)
	return view.OfPlan(p), err
}

// PlanObject implements Definitions.
func (l *Local) PlanObject(ctx context.Context, ref control.Ref, manifest *control.Object) (machine.Plan, error) {
	objects, err := l.Objects()
	if err != nil {
		return machine.Plan{}, err
	}
	_, engine := l.now()
	d, err := driver.New(driver.Options{Objects: objects, Engine: engine, Machines: l.library.Machines, Actions: l.actions, Logger: l.options.Logger})
	if err != nil {
		return machine.Plan{}, err
	}
	kinds, err := d.Kinds()
	if err != nil {
		return machine.Plan{}, err
	}
	kinds = append(kinds, l.options.Kinds...)
	if _, err := driver.Serves(kinds, ref.Kind); err != nil {
		return machine.Plan{}, err
	}
	var before *control.Object
	old, err := objects.Get(ctx, ref)
	switch {
	case manifest == nil && err != nil:
		return machine.Plan{}, err
	case manifest == nil:
		return driver.Plan(ctx, kinds, old)
	case err == nil:
		before = &old
	case fault.Of(err) != control.NotFound:
		return machine.Plan{}, err
	}
	next, _, err := control.DecideApply(time.Now().UTC(), before, *manifest)
	if err != nil {
		return machine.Plan{}, err
	}
	return driver.Plan(ctx, kinds, next)
}
