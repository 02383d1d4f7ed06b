package sharedstorage_test

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Example makes one pass over one cluster. A controller does this whenever the cluster, one of its
// runs or something it observes has changed.
func Example() {
	pass := func(ctx context.Context, store sharedstorage.ClusterStore, ports port.Ports, runs runstore.Store) (outcome.Outcome, error) {
		o, err := sharedstorage.New(sharedstorage.Options{Store: store, Ports: ports})
		if err != nil {
			return outcome.Done(), err
		}
		if _, err := o.Engine(runs, workflow.Options{}); err != nil { // its flows, steps, healers and hook
			return outcome.Done(), err
		}
		return o.Reconcile(ctx, o.Key("default", "blue")), nil // one pass; Options and Listen say when to make the next
	}
	_ = pass
	// Output:
}
