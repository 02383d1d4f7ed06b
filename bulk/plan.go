package bulk

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// MaxFirst is how many runs a plan names at most.
const MaxFirst = 20

// Plan tells which runs a bulk would ask now.
type Plan struct {
	At     time.Time // when it was read: runs that are created later do not belong to it
	Runs   int
	Groups []Group        // largest first
	First  []*runtype.Run // the oldest, at most MaxFirst
}

// Group are the runs of a plan with the same flow, phase and fault.
type Group struct {
	Flow  string        `json:"flow"`
	Phase runtype.Phase `json:"phase"`
	Fault fault.Code    `json:"fault,omitempty"`
	Runs  int           `json:"runs"`
}

// Lister lists and counts runs. A runstore.Lister is one.
type Lister interface {
	Count(ctx context.Context, q runstore.Query) ([]runstore.RunCount, error)
	List(ctx context.Context, q runstore.Query) (runs []*runtype.Run, cursor string, err error)
}

// MakePlan counts the runs of a spec and reads the oldest. It changes nothing.
func MakePlan(ctx context.Context, runs Lister, s Spec, now time.Time) (Plan, error) {
	p := Plan{At: now.UTC()}
	if err := s.Check(); err != nil {
		return p, Invalid.Errorf("%w", err)
	}
	if s.CreatedBefore.IsZero() {
		s.CreatedBefore = p.At
	}
	q, err := s.query("")
	if err != nil {
		return p, err
	}
	counts, err := runs.Count(ctx, q)
	if err != nil {
		return p, err
	}
	q.Limit = MaxFirst
	if p.First, _, err = runs.List(ctx, q); err != nil {
		return p, err
	}
	p.Groups = []Group{}
	for _, c := range counts {
		p.Runs += c.Runs
		p.Groups = append(p.Groups, Group{Flow: c.Flow, Phase: c.Phase, Fault: c.Fault, Runs: c.Runs})
	}
	slices.SortFunc(p.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Fault, b.Fault))
	})
	return p, nil
}
