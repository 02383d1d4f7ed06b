package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

type storage struct{ w *Simulation }

func (v *volume) seen() port.Volume {
	if !v.lostAt.IsZero() {
		return port.Volume{}
	}
	seen := v.Volume
	seen.Message = v.broken
	if v.State == port.VolumeReady && v.file < v.Size {
		seen.State = port.VolumeGrowing
	}
	return seen
}

// Ensure implements port.Storage.
func (s storage) Ensure(ctx context.Context, ref port.Ref, want port.Volume, key string) (port.Volume, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Storage", Method: "Ensure", Ref: ref.Cluster(), Key: key, Detail: fmt.Sprint(want.Size)}, func(c *cluster) (port.Volume, error) {
		v, now := &c.volume, w.o.Now()
		if !v.lostAt.IsZero() && v.Epoch == 0 {
			v.lostAt = time.Time{} // nobody has written yet, so a new record is safe
		}
		switch {
		case !v.lostAt.IsZero():
			return port.Volume{}, errLost
		case v.broken != "":
			return v.seen(), port.StorageFailed.Errorf("%s", v.broken)
		case want.Size > 0 && v.State != "" && want.Size < v.Size:
			return v.seen(), port.StorageShrink.Errorf("the volume has %d bytes, and %d are wanted", v.Size, want.Size).With("size", v.Size)
		case v.State == "":
			id := want.ID
			if id == "" {
				id = "vol-" + ref.Namespace + "-" + ref.Name
			}
			v.Volume = port.Volume{ID: id, Claim: want.Claim, Size: want.Size, State: port.VolumePending, Mode: w.mode()}
			v.file, v.at = want.Size, now.Add(w.o.Times.Volume)
		case want.Size > v.Size:
			v.Size, v.at = want.Size, now.Add(w.o.Times.Grow)
		case v.file < v.Size && v.at.IsZero():
			v.file, v.full = v.Size, false
		}
		w.advance(c)
		return v.seen(), nil
	})
}

// Observe implements port.Storage.
func (s storage) Observe(ctx context.Context, ref port.Ref) (port.Volume, error) {
	return do(ctx, s.w, Call{Port: "Storage", Method: "Look", Ref: ref.Cluster()}, func(c *cluster) (port.Volume, error) {
		return c.volume.seen(), nil
	})
}

// Clone implements port.Storage.
func (s storage) Clone(ctx context.Context, from, to port.Ref, key string) (port.Volume, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Storage", Method: "Clone", Ref: to.Cluster(), Key: key, Detail: from.String()}, func(c *cluster) (port.Volume, error) {
		source := w.clusters[from.Namespace+"/"+from.Name]
		if !c.volume.lostAt.IsZero() && c.volume.Epoch > 0 {
			return port.Volume{}, errLost
		}
		c.volume.lostAt = time.Time{} // nobody has written yet, so a new record is safe
		if c.volume.State != "" {
			return c.volume.seen(), nil
		}
		if source == nil || source.volume.State != port.VolumeReady || !source.volume.data {
			return port.Volume{}, port.CloneSourceMissing.Errorf("%s has no volume with data", from)
		}
		c.volume = volume{Volume: port.Volume{ID: "vol-" + to.Namespace + "-" + to.Name, Size: source.volume.Size, State: port.VolumeCloning, Mode: w.mode()},
			file: source.volume.Size, at: w.o.Now().Add(w.o.Times.Clone), cloned: true}
		c.acked = source.acked
		w.advance(c)
		return c.volume.seen(), nil
	})
}

// Grant implements port.Storage.
func (s storage) Grant(ctx context.Context, ref port.Ref, writer string, epoch int64) error {
	w := s.w
	_, err := do(ctx, w, Call{Port: "Storage", Method: "Grant", Ref: ref.Cluster(), Detail: fmt.Sprintf("%s %d", writer, epoch)}, func(c *cluster) (struct{}, error) {
		v := &c.volume
		switch {
		case !v.lostAt.IsZero():
			return struct{}{}, errLost
		case v.State == "":
			return struct{}{}, port.StorageFailed.Errorf("there is no volume")
		case writer == v.Writer && epoch == v.Epoch:
			return struct{}{}, nil
		case epoch < v.Epoch, writer != "" && epoch == v.Epoch:
			return struct{}{}, port.SwitchRefused.Errorf("epoch %d is not newer than %d of %s", epoch, v.Epoch, v.Writer)
		}
		if old := c.instances[v.Writer]; old != nil && w.accepts(c, old) {
			if w.cut(old) {
				return struct{}{}, fmt.Errorf("%s cannot be asked and holds the grant for a while", v.Writer)
			}
			if old.Name != writer {
				w.violation(c, "the grant was taken from %s while it wrote", old.Name)
			}
		}
		v.Writer, v.Epoch = writer, epoch
		return struct{}{}, nil
	})
	return err
}

var errLost = port.GrantLost.Errorf("the record of the grant is not there")

// Restore implements port.Storage. A restored record that is older than the lost one would allow
// two writers, or lose what one has written; that is a violation.
func (s storage) Restore(ctx context.Context, ref port.Ref, was port.Volume, wrote bool) (port.Volume, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Storage", Method: "Restore", Ref: ref.Cluster(), Detail: fmt.Sprintf("%s %d %t", was.Writer, was.Epoch, wrote)}, func(c *cluster) (port.Volume, error) {
		v := &c.volume
		if v.lostAt.IsZero() {
			return v.seen(), nil
		}
		if truth := c.instances[v.Writer]; truth != nil && truth.engine.epoch == v.Epoch && (was.Writer != v.Writer || was.Epoch < v.Epoch) {
			w.violation(c, "the grant of epoch %d to %s became that of epoch %d to %s", v.Epoch, v.Writer, was.Epoch, was.Writer)
		}
		v.Writer, v.Epoch, v.lostAt = was.Writer, was.Epoch, time.Time{}
		if i := c.instances[v.Writer]; w.up(i) && i.engine.installed && !i.engine.stopped && !i.engine.running {
			w.run(c, i, w.o.Now())
		}
		w.advance(c)
		return v.seen(), nil
	})
}

// Release implements port.Storage.
func (s storage) Release(ctx context.Context, ref port.Ref, keep bool) error {
	_, err := do(ctx, s.w, Call{Port: "Storage", Method: "Release", Ref: ref.Cluster(), Detail: fmt.Sprintf("keep=%t", keep)}, func(c *cluster) (struct{}, error) {
		if keep {
			c.volume.Writer = ""
			return struct{}{}, nil
		}
		c.volume = volume{}
		return struct{}{}, nil
	})
	return err
}
