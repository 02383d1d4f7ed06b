package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// initMeta adds the finalizer before the run creates anything, so that a deletion finds it all.
func initMeta(ctx context.Context, w *work) outcome.Outcome {
	if err := w.c.refusal(); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(w.save(ctx, func(c *Cluster) {
		c.Finalized = true
		c.Status.NextID = max(c.Status.NextID, w.in.Next)
	}))
}

// createRwPod creates the writer of a new cluster, or makes the instance that ChooseSurvivor has
// chosen the writer of a rebuilt one.
func createRwPod(ctx context.Context, w *work) outcome.Outcome {
	var s survivor
	if err := w.t.Output("ChooseSurvivor", &s); err == nil && s.Name != "" {
		return w.revive(ctx, s)
	}
	if w.f.Volume.State == "" { // somebody deleted the volume after PrepareStorage
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

// removeUnwritten removes a first writer that never got the grant: it holds no data. An instance
// that had the grant stays, and the next creation adopts it.
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

// removeFinalizer removes the finalizer, so that the object disappears.
func removeFinalizer(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.save(ctx, func(c *Cluster) { c.Finalized = false }))
}
