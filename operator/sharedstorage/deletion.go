package sharedstorage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// RunStoreState is where runs of a cluster can be kept.
type RunStoreState int

// What Options.Place can say.
const (
	RunStoreAvailable   RunStoreState = iota // there is one; what failed is tried again
	RunStoreMissing                          // there is none: no kind of runs, no quota, no right
	RunStoreTerminating                      // it goes, with everything of the cluster: a namespace that is being deleted
)

// DataNotKept is the reason of the Event about data that were to be kept, and
// cannot be.
const DataNotKept = "DataNotKept"

// missingFor is how long a place of runs must be missing until a deletion does without.
const missingFor = time.Minute

// deleteWithoutRun takes a cluster away whose deletion has no place for its run: step by step,
// one look after the other, as DeleteCluster does. In a namespace that is being
// deleted nothing needs to be taken away: all of it goes with the namespace.
func (o *Operator) deleteWithoutRun(ctx context.Context, ref control.Ref, why error) outcome.Outcome {
	place := RunStoreAvailable
	if o.options.ClassifyRunError != nil {
		place = o.options.ClassifyRunError(why)
	}
	c, err := o.load(ctx, ref)
	switch {
	case errors.Is(err, control.NotFound):
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case place == RunStoreAvailable, c.DeletedAt.IsZero(), !c.Finalized, place == RunStoreMissing && o.now().Sub(c.DeletedAt) < missingFor:
		return outcome.Fail(why)
	}
	if c.Facts = o.observe(ctx, c); place == RunStoreMissing {
		if out := o.cleanUp(ctx, c); !out.IsDone() {
			return out
		}
	} else if c.keeps() && (c.Status.Storage.Volume != "" || len(c.Facts.Instances) > 0) {
		o.emit(c, Event{Warning: true, Reason: DataNotKept, Message: fmt.Sprintf("cluster %s: storage.onDelete is Retain, but its namespace is being deleted, and its claims go with it. "+
			"Its data stay only on volumes whose reclaim policy is Retain", c.Ref)})
	}
	o.options.Logger.Info("a cluster is let go without a run", "cluster", c.Ref.String(), "because", fault.Message(why))
	before := snap(c)
	c.Finalized = false
	if err := o.save(ctx, c, before); err != nil && !errors.Is(err, control.NotFound) {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// cleanUp does what DeleteCluster does before it lets go. Done: nothing is left that
// is not to stay.
func (o *Operator) cleanUp(ctx context.Context, c *Cluster) outcome.Outcome {
	o.restore(ctx, c) // it says which claim is that of the writer
	ports, ref := o.options.Ports, c.Ref
	ask := func(call func(ctx context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, 2*o.options.CallTimeout)
		defer cancel()
		return guarded(func() error { return call(limited) })
	}
	for _, what := range []string{factInstances, factVolume} {
		if err := c.Facts.Unknown[what]; err != nil {
			return outcome.Fail(err)
		}
	}
	if err := ask(func(ctx context.Context) error {
		_, err := ports.Manager.Ensure(ctx, ref, port.ManagerSpec{})
		return err
	}); err != nil {
		return outcome.Fail(err)
	}
	for _, i := range c.Facts.Instances {
		if err := ask(func(ctx context.Context) error { return ports.Instances.Remove(ctx, ref, i.Name) }); err != nil {
			return outcome.Fail(err)
		}
	}
	if len(c.Facts.Instances) > 0 {
		return outcome.Wait(2*time.Second, "InstancesLeaving", "%d instances are going away", len(c.Facts.Instances))
	}
	return outcome.Fail(ask(func(ctx context.Context) error { return ports.Storage.Release(ctx, ref, c.keeps()) })) // nil: Done
}

// keeps reports data that are to stay when the cluster is deleted.
func (c *Cluster) keeps() bool { return c.Spec.Storage.OnDelete != "Delete" }
