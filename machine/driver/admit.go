package driver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// PlanFunc says what the next pass over an object would do. The object need not be stored. It
// writes nothing.
type PlanFunc func(ctx context.Context, o control.Object) (machine.Plan, error)

// ServedKind is a kind of objects that a machine or an operator serves.
type ServedKind struct {
	Kind    string          `json:"kind"`
	Machine string          `json:"machine,omitempty"`
	Spec    json.RawMessage `json:"spec,omitempty" doc:"JSON Schema of specs; absent: any spec is taken"`

	Schema workflow.Schema `json:"-"` // compiled; nil: specs are not checked
	Plan   PlanFunc        `json:"-"` // nil: objects of the kind have no plan
	Graph  *machine.Graph  `json:"-"` // of the machine; nil: it cannot be drawn
	File   string          `json:"-"` // that defines the machine; may be empty
}

// KindsOf are the kinds that machines serve.
func KindsOf(machines []machine.Standalone) ([]ServedKind, error) {
	var kinds []ServedKind
	for _, m := range machines {
		graph := m.Table.Graph()
		k := ServedKind{Kind: m.Table.Kind, Machine: m.Table.Name, Schema: m.Schema, Graph: &graph, File: m.File}
		if m.Schema != nil {
			var err error
			if k.Spec, err = m.Schema.MarshalJSON(); err != nil {
				return nil, err
			}
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// Kinds are the kinds of the driver's machines, with their plans.
func (d *Driver) Kinds() ([]ServedKind, error) {
	kinds, err := KindsOf(d.options.Machines)
	for i := range kinds {
		kinds[i].Plan = d.PlanFor
	}
	return kinds, err
}

// Plan plans an object by the plan of its kind: MACHINE_NOT_FOUND if nothing serves the kind,
// KIND_UNPLANNED if it has no plan.
func Plan(ctx context.Context, kinds []ServedKind, o control.Object) (machine.Plan, error) {
	kind, err := Serves(kinds, o.Kind)
	if err != nil {
		return machine.Plan{}, err
	}
	if kind.Plan == nil {
		return machine.Plan{}, machine.Unplanned.Errorf("objects of kind %s have no plan", o.Kind).With("kind", o.Kind)
	}
	return kind.Plan(ctx, o)
}

// Plain are kinds that no machine has to serve: machines and steps read them.
var Plain = []string{"ConfigMap", "Secret"}

// Serves says why objects of a kind are not taken: MACHINE_NOT_FOUND.
func Serves(kinds []ServedKind, kind string) (ServedKind, error) {
	if i := slices.IndexFunc(kinds, func(k ServedKind) bool { return k.Kind == kind }); i >= 0 {
		return kinds[i], nil
	}
	if slices.Contains(Plain, kind) {
		return ServedKind{Kind: kind}, nil
	}
	var names []string
	for _, k := range kinds {
		names = append(names, k.Kind)
	}
	return ServedKind{}, machine.Unserved.Errorf("no machine serves objects of kind %s%s", kind, machine.DidYouMean(kind, names)).With("kind", kind)
}

// Admit refuses to create objects of a kind that no machine serves, and specs
// that do not fit the schema of their machine: MACHINE_NOT_FOUND, SPEC_UNFIT.
// kinds is asked each time. What is there already may be changed and deleted.
func Admit(objects control.Objects, kinds func() ([]ServedKind, error)) control.Objects {
	return control.Admit(objects, func(_ context.Context, want control.Object, stored func() (*control.Object, error)) error {
		all, err := kinds()
		if err != nil {
			return err
		}
		k, refused := Serves(all, want.Kind)
		if refused == nil && (k.Schema == nil || want.Spec == nil) {
			return nil
		}
		before, err := stored()
		switch {
		case err != nil:
			return err
		case before != nil && (refused != nil || same(before.Spec, want.Spec)):
			return nil //nolint:nilerr // what is there already may be changed, whoever serves it
		case refused != nil:
			return refused
		}
		if err := k.Schema.Check(want.Spec); err != nil {
			return machine.SpecUnfit.Errorf("spec of %s: %w", want.Ref, err).With("machine", k.Machine)
		}
		return nil
	})
}
