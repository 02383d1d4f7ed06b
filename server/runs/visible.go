package runs

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Lister returns the run store's Lister. NOT_SERVED if it has none.
func (s *Service) Lister() (runstore.Lister, error) {
	lister, ok := s.Engine.Store().(runstore.Lister)
	if !ok {
		return nil, route.NotServed.Errorf("the store of this server cannot list runs")
	}
	return lister, nil
}

// uidOf returns the uid of the object that a subject names; empty: the subject has it already, or there is no such object.
func (s *Service) uidOf(ctx context.Context, subject string) (string, error) {
	ref, uid, err := driver.Ref(subject)
	if err != nil || uid != "" || s.Objects == nil {
		return "", nil //nolint:nilerr // a subject need not be an object
	}
	o, err := s.Objects.Get(ctx, ref)
	if fault.Of(err) == control.NotFound {
		return "", nil
	}
	return o.UID, err
}

// Flow returns the loaded flow with a name that serves a subject; nil if there is none.
func (s *Service) Flow(name, subject string) *workflow.Flow {
	return workflow.FlowFor(s.Engine.Flows(), name, subject)
}

// Waiting returns what a run waits for; for a run of a cluster with the present
// counts of nodes and resources.
func (s *Service) Waiting(ctx context.Context, r *runtype.Run) (*api.Waiting, error) {
	if s.Clusters != nil {
		if _, ok := cluster.FromSubject(r.Subject); ok {
			return s.Clusters.Awaited(ctx, r)
		}
	}
	return view.WaitingOf(r, s.Flow(r.Flow, r.Subject)), nil
}

// MaySee reports whether a caller may see the runs of a subject.
func (s *Service) MaySee(ctx context.Context, who cluster.Caller, subject string) (bool, error) {
	if who.Operator {
		return true, nil
	}
	uuid, ok := cluster.FromSubject(subject)
	if !ok || s.Clusters == nil {
		return false, nil
	}
	_, err := s.Clusters.Get(ctx, who, uuid)
	if errors.Is(err, cluster.NotFound) || errors.Is(err, cluster.AccessRefused) {
		return false, nil
	}
	return err == nil, err
}

// Visible returns a run that the caller may see, with its unread signals. All but
// operators must give the full id: an id prefix would reveal the runs of others.
func (s *Service) Visible(ctx context.Context, id string) (runstore.Loaded, error) {
	if err := s.fullID(ctx, id); err != nil {
		return runstore.Loaded{}, err
	}
	l, err := s.Engine.Find(ctx, id)
	if err == nil {
		err = s.mayRead(ctx, id, l.Run.Subject)
	}
	if err != nil {
		return runstore.Loaded{}, err
	}
	return l, nil
}

// Head is Visible without the steps of the run.
func (s *Service) Head(ctx context.Context, id string) (*runtype.Run, error) {
	if err := s.fullID(ctx, id); err != nil {
		return nil, err
	}
	r, err := s.Engine.Head(ctx, id)
	if err == nil {
		err = s.mayRead(ctx, id, r.Subject)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Service) fullID(ctx context.Context, id string) error {
	if route.CallOf(ctx).Who.Role < route.Operator && len(id) != runtype.IDLength {
		return workflow.RunNotFound.Errorf("no run has the id %s", id)
	}
	return nil
}

func (s *Service) mayRead(ctx context.Context, id, subject string) error {
	if route.CallOf(ctx).Who.Role >= route.Operator {
		return nil
	}
	may, err := s.MaySee(ctx, s.Callers.Of(ctx), subject)
	if err == nil && !may {
		err = workflow.RunNotFound.Errorf("no run has the id %s", id)
	}
	return err
}
