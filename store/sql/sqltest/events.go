package sqltest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// CheckEventsOf checks that EventsOf finds what a reader of all events finds, in the same order, by pages of each size, and its cursors
// and those of Events are the same ones.
func CheckEventsOf(t *testing.T, store sql.Store) {
	t.Helper()
	flow := workflow.Flow{Name: "F"}
	for i := range 5 {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("S", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const runs = 30
	for i := range runs {
		if _, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: fmt.Sprint("s/default/", i)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- engine.Serve(ctx) }()
	kinds := []runtype.EventKind{runtype.StepDoneEvent, runtype.RunSucceeded}
	var all []string
	for cursor := ""; len(all) < runs*6; { // until all runs have ended
		events, next, err := store.Events(t.Context(), cursor, 7)
		if err != nil {
			t.Fatal(err)
		}
		cursor = next
		for _, e := range events {
			if slices.Contains(kinds, e.Kind) {
				all = append(all, fmt.Sprint(e))
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 3, 100, 1000} {
		var got []string
		for cursor := ""; ; {
			events, next, err := store.EventsOf(t.Context(), cursor, limit, kinds)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) > limit {
				t.Fatalf("%d events, limit %d", len(events), limit)
			}
			for _, e := range events {
				got = append(got, fmt.Sprint(e))
			}
			if next == cursor {
				break
			}
			cursor = next
		}
		if !slices.Equal(got, all) {
			t.Errorf("limit %d: %d events, not %d", limit, len(got), len(all))
		}
	}
	_, end, err := store.Events(t.Context(), "now", 1)
	if err != nil {
		t.Fatal(err)
	}
	if events, next, err := store.EventsOf(t.Context(), end, 10, kinds); err != nil || len(events) > 0 || next != end {
		t.Errorf("%d events, cursor %s, %v", len(events), next, err)
	}
}
