package local

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Recreate implements port.Instances. The data stay in their folder, at their address; the node
// changes only if it does not fit any more.
func (i *Instances) Recreate(ctx context.Context, c port.Ref, want port.Instance) (port.Instance, error) {
	if err := check(want.Name); err != nil {
		return port.Instance{}, err
	}
	var r *instanceRecord
	err := i.placement.locked(func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r, err = i.placement.load(c, want.Name); err != nil {
			return err
		}
		if r == nil {
			return port.PodLost.Errorf("there is no instance %s", c.Of(want.Name))
		}
		return i.placement.recreate(c, r, want)
	})
	if err != nil {
		return port.Instance{}, err
	}
	return i.placement.observe(ctx, r), nil
}

// recreate records how an instance is to run, once its agent and its engine have ended, and starts it.
// Until then the record is that of what runs.
func (s *Placement) recreate(c port.Ref, r *instanceRecord, want port.Instance) error {
	version, binaries, err := s.binaries(cmp.Or(want.Version, r.Version))
	if err != nil {
		return err
	}
	want.Version = version
	if !r.Leaving.IsZero() || r.RunsAs(want) && r.Ending.IsZero() && r.Suspend.IsZero() {
		return nil
	}
	next := *r
	next.Class, next.Version, next.Image, next.Template = want.Class, version, want.Image, want.Template
	next.NodeSelector, next.Spread, next.SpreadAnyway = want.NodeSelector, want.Spread, want.SpreadAnyway
	if next.Node, err = s.keepNode(c, r, want); err != nil {
		return err
	}
	if r.Ending.IsZero() {
		r.Ending = time.Now().UTC()
		if err := r.save(); err != nil {
			return err
		}
	}
	if ended, err := s.end(r, r.Ending); !ended || err != nil {
		return err
	}
	if want.Port != 0 && want.Port != r.Port {
		taken, err := s.taken()
		if err != nil {
			return err
		}
		if at := join(r.Address, want.Port); !taken[at] { // otherwise it keeps its port: the adapter may choose
			next.Port = want.Port
		}
	}
	next.Ending, next.Suspend = time.Time{}, time.Time{}
	if err := storageFault(host.WriteJSON(filepath.Join(r.folder, configName), s.config(c, &next, binaries))); err != nil {
		return err
	}
	*r = next
	if err := r.save(); err != nil {
		return err
	}
	return s.launch(r)
}

// keepNode returns the node of an instance, or another one if it does not have the labels that are
// asked for: on one machine its data are within reach everywhere.
func (s *Placement) keepNode(c port.Ref, r *instanceRecord, want port.Instance) (string, error) {
	nodes := s.nodes()
	if n := slices.IndexFunc(nodes, func(n port.Node) bool { return n.Name == r.Node }); n >= 0 && has(nodes[n], want.NodeSelector) {
		return r.Node, nil
	}
	siblings, err := s.instancesOf(c)
	if err != nil {
		return "", err
	}
	load := map[string]int{}
	for _, other := range siblings {
		if other.Name != r.Name {
			load[other.Node]++
		}
	}
	want.Node = ""
	return choose(want, nodes, load)
}
