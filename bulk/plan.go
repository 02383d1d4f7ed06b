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

// Lister lists runs. A runstore.Lister is one.
type Lister interface {
	List(ctx context.Context, q runstore.Query) (runs []*runtype.Run, cursor string, err error)
}

// MakePlan reads the runs of a spec page by page and counts them. It changes nothing.
func MakePlan(ctx context.Context, runs Lister, s Spec, now time.Time) (Plan, error) {
	p := Plan{At: now.UTC()}
	if err := s.Check(); err != nil {
		return p, Invalid.Errorf("%w", err)
	}
	if s.CreatedBefore.IsZero() {
		s.CreatedBefore = p.At
	}
	counts := map[Group]int{}
	for cursor := ""; ; {
		q, err := s.query(cursor)
		if err != nil {
			return p, err
		}
		q.Limit = planPage
		page, next, err := runs.List(ctx, q)
		if err != nil {
			return p, err
		}
		for _, r := range page {
			if !s.matches(r) {
				continue
			}
			if p.Runs++; len(p.First) < MaxFirst {
				p.First = append(p.First, r)
			}
			g := Group{Flow: r.Flow, Phase: r.Phase}
			if r.Fault != nil {
				g.Fault = r.Fault.Code
			}
			counts[g]++
		}
		if cursor = next; next == "" {
			break
		}
	}
	p.Groups = []Group{}
	for g, n := range counts {
		g.Runs = n
		p.Groups = append(p.Groups, g)
	}
	slices.SortFunc(p.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Fault, b.Fault))
	})
	return p, nil
}

// planPage is the number of runs that a plan holds at once: the most that a store gives.
const planPage = 1000
