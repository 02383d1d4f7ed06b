package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// prepareStorage creates or adopts the volume.
func prepareStorage(ctx context.Context, w *work) outcome.Outcome {
	s := w.c.Spec.Storage
	var v port.Volume
	err := w.call(ctx, func(ctx context.Context) (err error) {
		v, err = w.ports().Storage.Ensure(ctx, w.ref, port.Volume{ID: s.Volume, Claim: s.Claim, Adopt: s.AdoptClaims, Size: max(w.in.Size, w.f.Volume.Size)}, w.t.Key())
		return
	})
	if err != nil {
		return outcome.Fail(err)
	}
	for _, claim := range v.Adopted {
		w.o.emit(w.c, Event{Warning: true, Reason: "ClaimAdopted", Message: "the data of claim " + claim + ", which an earlier cluster of this name has left, are taken over"})
	}
	if v.State != port.VolumeReady {
		return w.await(pollSoon, port.StorageFailed, "Volume"+string(v.State), "the volume is %s", v.State)
	}
	return outcome.Done()
}

// checkSource rejects a source cluster that cannot be copied.
func checkSource(ctx context.Context, w *work) outcome.Outcome {
	from := port.Ref{Namespace: w.ref.Namespace, Name: w.in.Source}
	if w.f.Volume.State != "" {
		return outcome.Done() // the copy has begun already
	}
	if from.Name == w.ref.Name {
		return outcome.Fail(port.CloneSourceMissing.Errorf("a cluster cannot be copied from itself"))
	}
	var v port.Volume
	if err := w.call(ctx, func(ctx context.Context) (err error) { v, err = w.ports().Storage.Observe(ctx, from); return }); err != nil {
		return outcome.Fail(err)
	}
	if v.State != port.VolumeReady {
		return outcome.Fail(port.CloneSourceMissing.Errorf("cluster %s has no volume that is ready", from).With("source", from.Name))
	}
	return outcome.Fail(w.o.checkArchive(ctx, w.c))
}

// cloneStorage fills the volume with the data of the source.
func cloneStorage(ctx context.Context, w *work) outcome.Outcome {
	from := port.Ref{Namespace: w.ref.Namespace, Name: w.in.Source}
	var v port.Volume
	err := w.call(ctx, func(ctx context.Context) (err error) {
		v, err = w.ports().Storage.Clone(ctx, from, w.ref, w.ref.String())
		return
	})
	if err != nil {
		return outcome.Fail(err)
	}
	if v.State == port.VolumeReady && v.Size < w.in.Size {
		err = w.call(ctx, func(ctx context.Context) (err error) {
			v, err = w.ports().Storage.Ensure(ctx, w.ref, port.Volume{Size: w.in.Size}, w.t.Key())
			return
		})
		if err != nil {
			return outcome.Fail(err)
		}
	}
	if v.State != port.VolumeReady {
		return w.await(pollSlow, port.StorageFailed, "Volume"+string(v.State), "the data of %s are being copied", from.Name)
	}
	return outcome.Done()
}

// uncloneStorage deletes the copy if nobody has written to it.
func uncloneStorage(ctx context.Context, w *work) outcome.Outcome {
	if len(w.f.Instances) > 0 || w.f.Volume.Writer != "" {
		return outcome.Done()
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Storage.Release(ctx, w.ref, false) }))
}

// expandVolume makes the volume larger.
func expandVolume(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Storage.Ensure(ctx, w.ref, port.Volume{Size: max(w.in.Size, w.f.Volume.Size)}, w.t.Key())
		return err
	}))
}

func awaitSize(_ context.Context, w *work) outcome.Outcome {
	if w.f.Volume.Size >= w.in.Size {
		return outcome.Done()
	}
	return w.await(pollSlow, port.StorageFailed, "VolumeGrowing", "the volume is to have %d bytes", w.in.Size)
}

// growFileSystem extends the file system to the size of the volume, and starts the engines that
// had stopped because the volume was full.
func growFileSystem(ctx context.Context, w *work) outcome.Outcome {
	var v port.Volume
	err := w.call(ctx, func(ctx context.Context) (err error) {
		v, err = w.ports().Storage.Ensure(ctx, w.ref, port.Volume{Size: max(w.in.Size, w.f.Volume.Size)}, w.t.Key())
		return
	})
	if err != nil {
		return outcome.Fail(err)
	}
	if v.State != port.VolumeReady {
		return w.await(pollSoon, port.StorageFailed, "FileSystemGrowing", "the file system grows")
	}
	for _, i := range w.f.Instances {
		if st, asked := w.f.Engines[i.Name]; asked && st.Installed && !st.Running && st.Code == string(port.StorageFull.Code) {
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
				return outcome.Fail(withInstance(err, i.Name))
			}
		}
	}
	return outcome.Done()
}

// releaseStorage releases the volume. The data stay unless spec.storage.onDelete deletes them.
func releaseStorage(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Storage.Release(ctx, w.ref, w.c.keeps()) }))
}
