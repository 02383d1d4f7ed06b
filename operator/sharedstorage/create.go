package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// initMeta holds the cluster until DeleteCluster has ended, before anything is made.
func initMeta(ctx context.Context, w *work) outcome.Outcome {
	if err := w.c.refusal(); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(w.save(ctx, func(c *Cluster) {
		c.Finalized = true
		c.Status.NextID = max(c.Status.NextID, w.in.Next)
	}))
}

// createRwPod makes the writer: of a new cluster, or of one that is made anew
// from the instance that ChooseSurvivor has chosen.
func createRwPod(ctx context.Context, w *work) outcome.Outcome {
	var s survivor
	if err := w.t.Output("ChooseSurvivor", &s); err == nil && s.Name != "" {
		return w.revive(ctx, s)
	}
	if w.f.Volume.State == "" { // its record was deleted since it was prepared
		prepare := prepareStorage
		if w.in.Source != "" {
			prepare = cloneStorage
		}
		if out := prepare(ctx, w); !out.IsDone() {
			return out
		}
	}
	place := w.in.ID
	name := w.nameOf(place)
	for _, i := range w.f.holders(place) {
		name = i.Name
	}
	_, out := w.bringUp(ctx, w.want(name, place, port.Writer, nil), "")
	return out
}

// removeUnwritten takes a first writer back that was never let write: it holds
// no data. Any other stays, and the next creation takes it over.
func removeUnwritten(ctx context.Context, w *work) outcome.Outcome {
	if w.f.Volume.Writer != "" {
		return outcome.Done()
	}
	for _, i := range w.f.holders(w.in.ID) {
		if !w.madeByRun(i, w.in.ID) {
			continue
		}
		if out := w.remove(ctx, i.Name); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

// removeFinalizer lets the object go.
func removeFinalizer(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.save(ctx, func(c *Cluster) { c.Finalized = false }))
}
