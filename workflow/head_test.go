package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// listed is a store that records the queries of its lists.
type listed struct {
	*runstore.Memory
	queries []runstore.Query
}

func (l *listed) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	l.queries = append(l.queries, q)
	return l.Memory.List(ctx, q)
}

// A client that polls a run reads only its row, by its full id. A search by prefix would cost more
// with every run.
func TestFinding13HeadReadsOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &listed{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}, workflow.Options{})
		defer stop()
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		store.queries = nil
		got, err := e.Head(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, got.ID, run.ID)
		if len(store.queries) != 1 || store.queries[0].Prefix != "" || len(store.queries[0].IDs) != 1 {
			t.Errorf("it was asked for %+v", store.queries)
		}
		if got, err = e.Head(t.Context(), run.ID[:8]); err != nil || got.ID != run.ID {
			t.Errorf("by its beginning: %v, %v", got, err)
		}
		_, err = e.Head(t.Context(), "zzzzzzzzzzzzzzzzzzzzzzzzzz")
		want(t, fault.Of(err), workflow.RunNotFound)
	})
}
