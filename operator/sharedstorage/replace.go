package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// createTemporary creates the temporary reader of a replacement. An instance that has already
// taken over the place keeps it.
func createTemporary(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip {
		return outcome.Fail(err)
	}
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	if turned, out := w.promotedMeanwhile(ctx, a); turned {
		return out
	}
	writer := w.f.writer()
	if writer.Name == a.Name {
		return outcome.Done()
	}
	like := w.f.named(a.Old)
	want := w.want(a.Name, a.ID, port.Temporary, like)
	if made := w.f.named(a.Name); made != nil {
		want.ID, want.Type = made.ID, made.Type
	}
	_, out := w.bringUp(ctx, want, writer.Name)
	return out
}

// removeTemporary removes a temporary reader. One that a failover has promoted is the writer: it
// takes over the place instead.
func removeTemporary(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip {
		return outcome.Done() // nothing was allocated, so nothing was created
	}
	made := w.f.named(a.Name)
	if made == nil || made.Type != port.Temporary {
		return outcome.Done()
	}
	if len(w.f.primaries()) > 0 && w.f.primaries()[0].Name == made.Name || w.f.Volume.Writer == made.Name {
		if out := adoptID(ctx, w); !out.IsDone() {
			return out
		}
		return finishReplace(ctx, w)
	}
	return w.remove(ctx, a.Name)
}

// detachReader removes a reader from the cluster manager and stops sending clients to it.
func detachReader(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	name := ""
	if a, err := w.allocated(); err == nil {
		if a.Skip || a.Old == "" {
			return outcome.Done()
		}
		if turned, out := w.promotedMeanwhile(ctx, a); turned {
			return out
		}
		name = a.Old
	} else {
		holders := w.f.holders(w.placeID())
		if len(holders) == 0 {
			return outcome.Done()
		}
		if out := w.onlyReader(holders[0]); !out.IsDone() {
			return out
		}
		name = holders[0].Name
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.Remove(ctx, w.ref, name) }))
}

// attachReader adds a detached reader again, unless another instance took over its place.
func attachReader(ctx context.Context, w *work) outcome.Outcome {
	var i *port.Instance
	if a, err := w.allocated(); err == nil {
		made := w.f.named(a.Name)
		if i = w.f.named(a.Old); a.Skip || made != nil && made.ID == a.Place {
			return outcome.Done()
		}
	} else if holders := w.f.holders(w.placeID()); len(holders) > 0 {
		i = holders[0]
	}
	if i == nil {
		return outcome.Done()
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.Add(ctx, w.ref, memberOf(i)) }))
}

// adoptID gives the place to the temporary reader. From here on no undo removes that reader.
func adoptID(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip {
		return outcome.Fail(err)
	}
	if turned, out := w.promotedMeanwhile(ctx, a); turned {
		return out
	}
	made := w.f.named(a.Name)
	if made == nil {
		return outcome.Fail(w.temporaryLost(a, a.Name))
	}
	want := *made
	want.ID, want.Type = a.Place, port.Reader
	if writer := w.f.writer(); writer != nil && writer.Name == made.Name {
		want.Type = port.Writer
	}
	if err := w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Instances.Ensure(ctx, w.ref, want)
		return err
	}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.Add(ctx, w.ref, memberOf(&want)) }))
}

// finishReplace is the undo of AdoptId. An adoption is not undone: it removes the instance that
// lost its place.
func finishReplace(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip || a.Old == "" {
		return outcome.Done() // nothing was allocated, so nothing was taken over
	}
	if err := w.observe(ctx); err != nil {
		return outcome.Fail(err)
	}
	made := w.f.named(a.Name)
	if made == nil || made.ID != a.Place || w.f.Volume.Writer == a.Old {
		return outcome.Done()
	}
	return w.remove(ctx, a.Old)
}

// stopReader stops the engine of a reader that is being rebuilt.
func stopReader(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	for _, i := range w.f.holders(w.placeID()) {
		if w.madeByRun(i, i.ID) || i.State != port.Up || !w.onlyReader(i).IsDone() {
			continue
		}
		if _, asked := w.f.Engines[i.Name]; !asked {
			continue // it does not answer, and the replacement does not need it
		}
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// checkTargetNode rejects a node that cannot take the instance.
func checkTargetNode(ctx context.Context, w *work) outcome.Outcome {
	var nodes []port.Node
	err := w.call(ctx, func(ctx context.Context) (err error) { nodes, err = w.ports().Instances.Nodes(ctx, w.ref); return })
	if err != nil {
		return outcome.Fail(err)
	}
	holders := w.f.holders(w.in.ID)
	for _, i := range holders {
		if w.madeByRun(i, i.ID) {
			return outcome.Done() // the instance has moved already
		}
	}
	if len(holders) > 0 && holders[0].Node == w.in.Node {
		return outcome.Fail(port.TargetNodeUnavailable.Errorf("instance %s stands on node %s already", w.in.ID, w.in.Node).With("node", w.in.Node))
	}
	for _, n := range nodes {
		if n.Name == w.in.Node && n.Ready && n.Schedulable {
			return outcome.Done()
		}
	}
	return outcome.Fail(port.TargetNodeUnavailable.Errorf("node %s is not there, not ready or not schedulable", w.in.Node).With("node", w.in.Node))
}

// checkImages rejects a version without an image, or one that the engine cannot upgrade to.
func checkImages(_ context.Context, w *work) outcome.Outcome {
	want, leader := w.in.Version, w.f.leader()
	if leader != nil && leader.Version != "" && major(leader.Version) != major(want) {
		return outcome.Fail(port.VersionUnsupported.Errorf("from %s to %s is another major version", leader.Version, want))
	}
	if images := w.c.Spec.Images; len(images) > 0 && images[want] == "" {
		return outcome.Fail(port.VersionUnsupported.Errorf("spec.images has none for version %s", want))
	}
	return outcome.Done()
}
