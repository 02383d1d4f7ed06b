package main

import (
	"context"
	"fmt"
	"time"
)

// patience is the time limit of a flow; then the measure fails.
const patience = time.Minute

// completions notifies the clients of the flows that have ended.
type completions []chan struct{}

func newCompletions(flows int) completions {
	e := make(completions, flows)
	for i := range e {
		e[i] = make(chan struct{}, 1)
	}
	return e
}

func (e completions) notify(flow int) {
	select {
	case e[flow] <- struct{}{}:
	default: // it has ended before
	}
}

func (e completions) wait(ctx context.Context, flow int) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-e[flow]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("flow %d did not end for %s", flow, patience)
	}
}
