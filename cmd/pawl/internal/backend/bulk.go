package backend

import (
	"context"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/view"
)

// Bulks are requests to many runs: their plans. Stores and servers have them, Kubernetes clusters have not.
type Bulks interface {
	PlanBulk(ctx context.Context, spec bulk.Spec) (view.BulkPlan, error)
}

var (
	_ Bulks = (*Remote)(nil)
	_ Bulks = (*Local)(nil)
)

// PlanBulk implements Bulks.
func (r *Remote) PlanBulk(ctx context.Context, spec bulk.Spec) (view.BulkPlan, error) {
	answer, err := r.API.Plan(ctx, client.PlanRequest{Bulk: &spec}, client.PlanParams{})
	if err != nil || answer.Bulk == nil {
		return view.BulkPlan{}, err
	}
	return *answer.Bulk, nil
}

// CarryOut carries out a bulk in this process, which owns the store. Each run that accepts its request is worked
// on until it rests.
func (l *Local) CarryOut(ctx context.Context, ref control.Ref) error {
	store, engine := l.now()
	w := bulk.New(bulk.Options{
		Objects: store.Objects(), Engine: engine, Runs: store, Alone: !l.options.Store.Shared(), Logger: l.options.Logger,
		Accepted: func(ctx context.Context, run string) {
			if _, err := l.Run(ctx, run); err == nil { // loads the file of its flow
				_ = l.Advance(ctx, run) // how it goes is told by the run
			}
		},
	})
	_, err := w.Pass(ctx, ref)
	return err
}
