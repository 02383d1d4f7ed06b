package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// stopEngines stops all engines of a cluster that is being rebuilt, and removes the instances
// without data. The others stay until ChooseSurvivor has chosen: where instances hold the data,
// they are the only copies.
func (w *work) stopEngines(ctx context.Context) outcome.Outcome {
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		st, asked := w.f.Engines[i.Name]
		switch {
		case i.State == port.Leaving:
		case asked && st.Running && (w.in.Forced || !st.Ready || st.Role == port.Primary):
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
				return outcome.Fail(err)
			}
		case asked && !st.Installed, i.State == port.Unscheduled:
			if out := w.remove(ctx, i.Name); !out.IsDone() {
				return out
			}
		}
	}
	return outcome.Done()
}

// releaseTemporaries removes the instances that hold no place, except the one with the grant.
func releaseTemporaries(ctx context.Context, w *work) outcome.Outcome {
	for _, i := range w.f.temporaries() {
		if i.Name == w.f.Volume.Writer {
			continue
		}
		if out := w.remove(ctx, i.Name); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

// survivor is the output of ChooseSurvivor: the instance whose data the rebuilt cluster uses;
// empty where the volume has the data.
type survivor struct {
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
}

// chooseSurvivor chooses the instance that has the most of the log. If an instance that may have
// more does not answer, it waits, unless a person requested the rebuild and so accepts the loss.
func chooseSurvivor(ctx context.Context, w *work) outcome.Outcome {
	var best *port.Instance
	missing := ""
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		if i.State == port.Leaving {
			continue
		}
		if i.State == port.Down || i.State == port.Suspended {
			if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, *i); return err }); err != nil {
				return outcome.Fail(withInstance(err, i.Name))
			}
		}
		st, asked := w.f.Engines[i.Name]
		if !asked {
			missing = i.Name
			continue
		}
		if st.Installed && (best == nil || w.ahead(i, best)) {
			best = i
		}
	}
	switch {
	case missing != "" && !(w.in.Forced && best != nil && w.waited() >= unhealthyAfter):
		return w.await(pollSlow, port.FailoverUnsafe, "InstanceNotAsked", "instance %s cannot be asked how much it has", missing)
	case best == nil && w.f.Volume.Mode != port.Shared && w.f.Volume.Writer != "":
		return outcome.Fail(port.DataLost.Errorf("no instance with data is left, and the volume holds none"))
	case best == nil:
		return outcome.Fail(w.t.Set(survivor{}))
	}
	return outcome.Fail(w.t.Set(survivor{Name: best.Name, ID: best.ID}))
}

// ahead reports whether a has more of the log than b; with equal logs, whether a has the grant.
func (w *work) ahead(a, b *port.Instance) bool {
	x, y := w.f.Engines[a.Name], w.f.Engines[b.Name]
	if x.Timeline != y.Timeline {
		return x.Timeline > y.Timeline
	}
	if p, q := max(x.Position, x.Received), max(y.Position, y.Received); p != q {
		return p > q
	}
	return a.Name == w.f.Volume.Writer
}

// revive makes the survivor the writer and removes the other instances.
func (w *work) revive(ctx context.Context, s survivor) outcome.Outcome {
	i := w.f.named(s.Name)
	if i == nil {
		return outcome.Fail(port.PodLost.Errorf("instance %s, whose data were to be kept, is gone", s.Name).With("instance", s.Name))
	}
	for n := range w.f.Instances {
		other := &w.f.Instances[n]
		if other.Name == s.Name || other.State == port.Leaving || w.madeByRun(other, other.ID) {
			continue
		}
		if st := w.f.Engines[other.Name]; st.Running && st.Role == port.Primary {
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(other.Name), port.Fast) }); err != nil {
				return outcome.Fail(err)
			}
		}
	}
	want := *i
	want.Type = port.Writer
	if i.Type == port.Temporary {
		want.ID = w.in.ID
	}
	if st := w.f.Engines[s.Name]; st.Running && st.Role == port.Follower && st.Ready {
		if err := w.grant(ctx, s.Name); err != nil {
			return outcome.Fail(err)
		}
		if err := w.observe(ctx); err != nil {
			return outcome.Fail(err)
		}
		if err := w.call(ctx, func(ctx context.Context) error {
			return w.ports().Engine.Promote(ctx, w.ref.Of(s.Name), w.f.Volume.Epoch)
		}); err != nil {
			return outcome.Fail(err)
		}
	}
	done, out := w.bringUp(ctx, want, "")
	if !done {
		return out
	}
	for n := range w.f.Instances { // the others hold no data that the writer lacks
		other := &w.f.Instances[n]
		if other.Name == s.Name || other.State == port.Leaving || w.madeByRun(other, other.ID) {
			continue
		}
		if out := w.remove(ctx, other.Name); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}
