package sim

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Suspend implements port.Instances. An instance on a node that does not answer ends when its node is
// back.
func (s instances) Suspend(ctx context.Context, ref port.Ref, name string) (port.Instance, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Instances", Method: "Suspend", Ref: ref.Of(name)}, func(c *cluster) (port.Instance, error) {
		i := c.instances[name]
		switch {
		case i == nil:
			return port.Instance{}, port.PodLost.Errorf("there is no instance %s", name)
		case i.State == port.Leaving, i.ended:
			return i.Instance, nil
		}
		if w.accepts(c, i) && slices.ContainsFunc(c.sorted(), func(f *instance) bool { return f != i && w.ready(f) }) {
			w.violation(c, "%s was suspended while it wrote and readers still ran", i.Name)
		}
		now := w.o.Now()
		i.ended, i.endAt = true, now.Add(w.o.Times.Remove)
		if !w.cut(i) {
			w.state(i, port.Down, "its pod is being deleted", now)
		}
		w.advance(c)
		return i.Instance, nil
	})
}
