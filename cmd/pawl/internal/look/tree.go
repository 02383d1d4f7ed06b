package look

import (
	"context"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// treeChildren is the number of runs that --tree shows below a run.
const treeChildren = 100

// readTree reads the attempts of a run and the runs that it started, the oldest first.
func readTree(ctx context.Context, b backend.Runs, r view.Run, allSteps bool) (view.RunTree, error) {
	t := view.RunTree{Run: r, Children: []view.RunTree{}}
	events, err := wholeHistory(ctx, b, r.ID)
	if err != nil {
		return t, err
	}
	t.Attempts = view.AttemptsOf(events)
	page, err := b.List(ctx, runstore.Query{Parent: r.ID, OldestFirst: true, Limit: treeChildren})
	if err != nil {
		return t, err
	}
	t.More = page.Next != ""
	for _, listed := range page.Items { // a list has only the current step of each
		child, err := b.Run(ctx, listed.ID)
		if err == nil && allSteps {
			child, err = wholeRun(ctx, b, child)
		}
		if err != nil {
			return t, err
		}
		below, err := readTree(ctx, b, child, allSteps)
		if err != nil {
			return t, err
		}
		t.Children = append(t.Children, below)
	}
	return t, nil
}
