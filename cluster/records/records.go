// Package records is the store of clusters as the parts of the service use it:
// with the times of one shared clock, events that are passed on after each write,
// and amendments that survive write conflicts.
package records

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/lock"
)

// WithSharedClock returns a store that keeps the times of journal rows and nodes
// by the clock of the lock backend, and the backend to use with it. Servers may
// have different clocks.
func WithSharedClock(store cluster.Store, locks lock.Backend, now func() time.Time) (cluster.Store, lock.Backend) {
	c := &clock{local: now}
	shared := clockBackend{locks, c}
	return &clockStore{store, shared, c}, shared
}

// WithEvents returns a store that passes the events of each change to onEvent
// after the write.
func WithEvents(store cluster.Store, onEvent func(cluster.Event)) cluster.Store {
	return eventStore{store, onEvent}
}

type eventStore struct {
	cluster.Store
	onEvent func(cluster.Event)
}

// Commit implements cluster.Records.
func (s eventStore) Commit(ctx context.Context, change *cluster.Change) error {
	if err := s.Store.Commit(ctx, change); err != nil {
		return err
	}
	for _, e := range change.Events {
		s.onEvent(*e)
	}
	return nil
}
