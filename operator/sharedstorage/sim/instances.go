package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

type instances struct{ w *Simulation }

// choose returns the node for an instance: the one with the fewest instances of its cluster, then
// the one with the fewest of all. "" if all are full.
func (w *Simulation) choose(c *cluster, want port.Instance) string {
	type room struct {
		name      string
		ours, all int
	}
	var rooms []room
	for _, n := range w.nodes {
		if !n.Ready || !n.Schedulable || !n.lostAt.IsZero() || w.refused[want.Class.Name] || !selects(want.NodeSelector, n.Labels) {
			continue
		}
		r := room{name: n.Name}
		for _, other := range w.clusters {
			for _, i := range other.instances {
				if i.Node == n.Name && i.Name != want.Name {
					r.all++
					if other == c {
						r.ours++
					}
				}
			}
		}
		if w.o.PerNode == 0 || r.all < w.o.PerNode {
			rooms = append(rooms, r)
		}
	}
	if len(rooms) == 0 {
		return ""
	}
	return slices.MinFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(a.ours, b.ours), cmp.Compare(a.all, b.all), cmp.Compare(a.name, b.name))
	}).name
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Ensure implements port.Instances.
func (s instances) Ensure(ctx context.Context, ref port.Ref, want port.Instance) (port.Instance, error) {
	w := s.w
	call := Call{Port: "Instances", Method: "Ensure", Ref: ref.Of(want.Name), Detail: fmt.Sprintf("%s %s %s %s", want.ID, want.Type, want.Class.Name, want.Version)}
	return do(ctx, w, call, func(c *cluster) (port.Instance, error) {
		now := w.o.Now()
		i := c.instances[want.Name]
		if i == nil {
			if err := w.place(c, &want); err != nil {
				return port.Instance{}, err
			}
			if c.names[want.Name] {
				w.violation(c, "the name %s was given twice", want.Name)
			}
			for _, other := range c.instances {
				if other.ID == want.ID && other.State != port.Leaving {
					w.violation(c, "%s was made in the place %s, which %s has", want.Name, want.ID, other.Name)
				}
			}
			c.names[want.Name] = true
			i = &instance{Instance: want}
			i.Address, i.Since, i.upAt = "10.0.0.1", now, now.Add(w.o.Times.Create)
			if i.Port == 0 {
				i.Port = 5432
			}
			i.State = port.Pending
			if i.Node == "" {
				i.State = port.Unscheduled
			}
			c.instances[want.Name] = i
		} else if i.State != port.Leaving {
			if want.ID != "" {
				i.ID = want.ID
			}
			if want.Type != "" {
				i.Type = want.Type
			}
			if i.killed || i.ended && !w.cut(i) {
				i.killed, i.ended, i.upAt = false, false, now.Add(w.o.Times.Create)
				i.created++
				i.Address = fmt.Sprintf("10.0.%d.1", i.created%256) // like a pod that was created again
				w.state(i, port.Pending, "", now)
			}
		}
		w.advance(c)
		return i.Instance, nil
	})
}

// Recreate implements port.Instances. An instance stays on its node if that fits.
func (s instances) Recreate(ctx context.Context, ref port.Ref, want port.Instance) (port.Instance, error) {
	w := s.w
	call := Call{Port: "Instances", Method: "Recreate", Ref: ref.Of(want.Name), Detail: fmt.Sprintf("%s %s", want.Class.Name, want.Version)}
	return do(ctx, w, call, func(c *cluster) (port.Instance, error) {
		i := c.instances[want.Name]
		switch {
		case i == nil:
			return port.Instance{}, port.PodLost.Errorf("there is no instance %s", want.Name)
		case i.State == port.Leaving, w.cut(i), i.RunsAs(want) && !i.killed && !i.ended:
			return i.Instance, nil
		case len(w.o.Versions) > 0 && want.Version != "" && !slices.Contains(w.o.Versions, want.Version):
			return port.Instance{}, port.VersionUnsupported.Errorf("there is no version %q: %v", want.Version, w.o.Versions)
		}
		now, e := w.o.Now(), &i.engine
		if w.accepts(c, i) && len(c.waits) > 0 && slices.ContainsFunc(c.sorted(), func(f *instance) bool { return f != i && w.streams(c, f) }) {
			w.violation(c, "%s was recreated while it wrote and a reader could take over", i.Name)
		}
		i.Class, i.Version, i.Image, i.Template = want.Class, cmp.Or(want.Version, i.Version), want.Image, want.Template
		i.NodeSelector, i.Spread, i.SpreadAnyway = want.NodeSelector, want.Spread, want.SpreadAnyway
		if want.Port != 0 {
			i.Port = want.Port
		}
		if n := w.nodes[i.Node]; n == nil || !selects(want.NodeSelector, n.Labels) || w.refused[want.Class.Name] {
			i.Node = w.choose(c, i.Instance)
		}
		e.clean = e.running || e.clean // its agent stops it fast
		e.running, e.role, i.killed, i.upAt = false, port.NoRole, false, now.Add(w.o.Times.Create)
		i.ended = false
		i.created++
		i.Address = fmt.Sprintf("10.0.%d.1", i.created%256)
		if w.state(i, port.Pending, "", now); i.Node == "" {
			w.state(i, port.Unscheduled, "no node has room", now)
		}
		w.advance(c)
		return i.Instance, nil
	})
}

// place chooses the node of a new instance, or returns why there is none.
func (w *Simulation) place(c *cluster, want *port.Instance) error {
	if len(w.o.Versions) > 0 && !slices.Contains(w.o.Versions, want.Version) {
		return port.VersionUnsupported.Errorf("there is no version %q: %v", want.Version, w.o.Versions)
	}
	ready := false
	for _, n := range w.nodes {
		ready = ready || n.Ready && n.Schedulable && n.lostAt.IsZero()
	}
	if want.Node != "" {
		n := w.nodes[want.Node]
		if n == nil || !n.Ready || !n.Schedulable || !n.lostAt.IsZero() {
			return port.TargetNodeUnavailable.Errorf("node %s takes no instance", want.Node).With("node", want.Node)
		}
		return nil
	}
	if !ready {
		return port.NoAvailableNode.Errorf("none of %d nodes is ready", len(w.nodes))
	}
	want.Node = w.choose(c, *want)
	return nil
}

// Remove implements port.Instances.
func (s instances) Remove(ctx context.Context, ref port.Ref, name string) error {
	w := s.w
	_, err := do(ctx, w, Call{Port: "Instances", Method: "Remove", Ref: ref.Of(name)}, func(c *cluster) (struct{}, error) {
		i := c.instances[name]
		if i == nil || i.State == port.Leaving {
			return struct{}{}, nil
		}
		now := w.o.Now()
		i.goneAt = now.Add(w.o.Times.Remove)
		i.engine.running, i.engine.role = false, port.NoRole
		w.state(i, port.Leaving, "", now)
		w.advance(c)
		return struct{}{}, nil
	})
	return err
}

// List implements port.Instances.
func (s instances) List(ctx context.Context, ref port.Ref) ([]port.Instance, error) {
	return do(ctx, s.w, Call{Port: "Instances", Method: "List", Ref: ref.Cluster()}, func(c *cluster) ([]port.Instance, error) {
		var all []port.Instance
		for _, i := range c.sorted() {
			all = append(all, i.Instance)
		}
		return all, nil
	})
}

// Nodes implements port.Instances.
func (s instances) Nodes(ctx context.Context, ref port.Ref) ([]port.Node, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Instances", Method: "Nodes", Ref: ref.Cluster()}, func(*cluster) ([]port.Node, error) {
		var all []port.Node
		for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
			n := w.nodes[name].Node
			n.Ready = n.Ready && w.nodes[name].lostAt.IsZero()
			all = append(all, n)
		}
		return all, nil
	})
}
