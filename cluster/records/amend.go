package records

import (
	"context"
	"errors"
	"maps"
	"reflect"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

const maxRewrites = 10 // of an amendment that loses its compare-and-set

// Amendment edits a cluster and its details, and reports whether there is
// anything to write. It may be called again.
type Amendment func(c *cluster.Cluster, d *cluster.Details) bool

// Pair is a cluster with its details, read in this order. Details are only
// written together with their cluster: if the revision of the cluster has not
// changed, the details are the newest.
type Pair struct {
	Cluster *cluster.Cluster
	Details *cluster.Details // nil: not needed
}

// Copy returns a copy that may be edited.
func (p Pair) Copy() Pair {
	c := *p.Cluster
	if p.Details == nil {
		return Pair{Cluster: &c}
	}
	d := *p.Details
	d.Credentials = maps.Clone(d.Credentials)
	return Pair{&c, &d}
}

// Changed returns the details to write; nil if they have not changed.
func Changed(before, after *cluster.Details) *cluster.Details {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return after
}

// Amend edits a cluster and its details in one write. After a write conflict it
// repeats the edit.
func Amend(ctx context.Context, store cluster.Records, uuid string, edit Amendment) error {
	_, err := AmendFrom(ctx, store, uuid, Pair{}, edit)
	return err
}

// AmendFrom is Amend that begins with a pair that was read before; an empty pair
// is read first. It returns the stored pair.
func AmendFrom(ctx context.Context, store cluster.Records, uuid string, p Pair, edit Amendment) (Pair, error) {
	for try := 1; ; try++ {
		if p.Cluster == nil {
			var err error
			if p, err = read(ctx, store, uuid); err != nil {
				return Pair{}, err
			}
		}
		next := p.Copy()
		if !edit(next.Cluster, next.Details) {
			return p, nil
		}
		err := store.Commit(ctx, &cluster.Change{Cluster: next.Cluster, Details: Changed(p.Details, next.Details)})
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, fault.WriteConflict) || try == maxRewrites {
			return Pair{}, err
		}
		p = Pair{}
	}
}

// read reads a cluster and its details.
func read(ctx context.Context, store cluster.Records, uuid string) (Pair, error) {
	found, _, err := store.List(ctx, cluster.ClusterQuery{Scope: cluster.Scope{All: true}, UUID: uuid, WithDestroyed: true, Limit: 1})
	if err != nil {
		return Pair{}, err
	}
	if len(found) == 0 {
		return Pair{}, cluster.NotFound.Errorf("no cluster has the id %q", uuid)
	}
	d, err := store.Details(ctx, uuid)
	return Pair{&found[0], d}, err
}
