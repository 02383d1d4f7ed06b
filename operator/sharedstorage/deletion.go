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

// RunStoreState tells whether runs of a cluster can be stored.
type RunStoreState int

// The results of Options.ClassifyRunError.
const (
	RunStoreAvailable   RunStoreState = iota // runs can be stored; the failed call is repeated
	RunStoreMissing                          // runs cannot be stored: no CRD, no quota or no permission
	RunStoreTerminating                      // the namespace is being deleted, and with it everything of the cluster
)

// DataNotKept is the reason of the Event that the data are lost although spec.storage.onDelete
// keeps them.
const DataNotKept = "DataNotKept"

// missingFor is how long runs cannot be stored before the operator deletes a cluster without a
// run.
const missingFor = time.Minute

// deleteWithoutRun deletes a cluster whose DeleteCluster run cannot be stored. It does the same
// steps, one per pass. In a namespace that is being deleted it only removes the finalizer, because
// Kubernetes removes the rest.
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
	o.options.Logger.Info("a cluster is deleted without a run", "cluster", c.Ref.String(), "because", fault.Message(why))
	before := snap(c)
	c.Finalized = false
	if err := o.save(ctx, c, before); err != nil && !errors.Is(err, control.NotFound) {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// cleanUp does the steps of DeleteCluster up to the finalizer. It is Done when only the data that
// shall stay are left.
func (o *Operator) cleanUp(ctx context.Context, c *Cluster) outcome.Outcome {
	o.restore(ctx, c) // the restored record names the claim of the writer
	ports, ref := o.options.Ports, c.Ref
	ask := func(call func(ctx context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, 2*o.options.CallTimeout)
		defer cancel()
		return port.Guard(func() error { return call(limited) })
	}
	for _, what := range []string{factInstances, factVolume} {
		if err := c.Facts.Unknown[what]; err != nil {
			return outcome.Fail(err)
		}
	}
	if err := o.removePoolers(ctx, c); err != nil {
		return outcome.Fail(err)
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
	return outcome.Fail(ask(func(ctx context.Context) error { return ports.Storage.Release(ctx, ref, c.keeps()) })) // a nil error is Done
}

// keeps reports whether the data stay when the cluster is deleted.
func (c *Cluster) keeps() bool { return c.Spec.Storage.OnDelete != "Delete" }
