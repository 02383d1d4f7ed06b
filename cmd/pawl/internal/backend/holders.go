package backend

import (
	"context"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// Holders are those who hold leases: workers on runs, and whoever holds a lock. NOT_SERVED.
type Holders interface {
	Workers(ctx context.Context) ([]view.Worker, error)
	Locks(ctx context.Context) ([]view.Lock, error)
}

// lockPage is how many locks are read at once.
const lockPage = 500

// Workers implements Holders.
func (r *Remote) Workers(ctx context.Context) ([]view.Worker, error) {
	list, err := r.API.ListWorkers(ctx)
	return list.Items, err
}

// Locks implements Holders.
func (r *Remote) Locks(ctx context.Context) (all []view.Lock, err error) {
	for next := ""; ; {
		page, err := r.API.ListLocks(ctx, client.ListLocksParams{Limit: lockPage, Cursor: next})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if next = page.Next; next == "" {
			return all, nil
		}
	}
}

// Workers implements Holders.
func (k *Kube) Workers(context.Context) ([]view.Worker, error) {
	return nil, route.NotServed.Errorf("the runs of a cluster are worked on by the leader of its operator: kubectl get lease -A")
}

// Locks implements Holders.
func (k *Kube) Locks(context.Context) ([]view.Lock, error) {
	return nil, route.NotServed.Errorf("the locks of a cluster are objects: kubectl get lease -A")
}
