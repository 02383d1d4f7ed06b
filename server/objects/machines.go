package objects

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// machines are the machines of the served kinds, without counts.
func (s *Service) machines() ([]view.Machine, error) {
	if s.Kinds == nil {
		return nil, route.NotServed.Errorf("this server runs no machines")
	}
	kinds, err := s.Kinds()
	return view.OfMachines(kinds), err
}

func (s *Service) listMachines(ctx context.Context, _ *struct{}) (*route.One[view.Machines], error) {
	machines, err := s.machines()
	if err != nil {
		return nil, err
	}
	for i, m := range machines {
		if machines[i], err = s.counted(ctx, m); err != nil {
			return nil, err
		}
		machines[i] = machines[i].Brief()
	}
	return route.OneOf(view.Machines{Items: machines}, nil)
}

func (s *Service) getMachine(ctx context.Context, in *struct {
	Kind   string `path:"kind"`
	Counts bool   `query:"counts" default:"true" doc:"count its objects: that reads them all"`
}) (*route.One[view.Machine], error) {
	machines, err := s.machines()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(machines, func(m view.Machine) bool { return m.Kind == in.Kind })
	switch {
	case i < 0:
		var kinds []string
		for _, m := range machines {
			kinds = append(kinds, m.Kind)
		}
		return nil, machine.Unserved.Errorf("no machine serves objects of kind %s%s", in.Kind, machine.DidYouMean(in.Kind, kinds)).With("kind", in.Kind)
	case !in.Counts:
		return route.OneOf(machines[i], nil)
	}
	return route.OneOf(s.counted(ctx, machines[i]))
}

// counted adds the counts of a machine's objects.
func (s *Service) counted(ctx context.Context, m view.Machine) (view.Machine, error) {
	if s.Store == nil {
		return m, nil
	}
	states := map[machine.State]int{}
	for q := (control.Query{Kind: m.Kind, Limit: control.MaxPage}); ; {
		page, err := s.Store.List(ctx, q)
		if err != nil {
			return m, err
		}
		for _, o := range page.Items {
			states[machine.State(view.StateOf(o).State)]++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			m.Objects = m.CountObjects(states)
			return m, nil
		}
	}
}
