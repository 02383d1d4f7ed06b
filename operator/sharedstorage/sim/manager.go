package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

type managers struct{ w *Simulation }

func (w *Simulation) managed(c *cluster) error {
	m := &c.manager
	n := w.nodes[m.node]
	if m.present && !m.broken && !w.o.Now().Before(m.readyAt) && (n == nil || n.lostAt.IsZero()) {
		return nil
	}
	return port.ManagerUnreachable.Errorf("the cluster manager of %s does not answer", c.ref)
}

func (w *Simulation) topology(c *cluster) port.Topology {
	m := &c.manager
	t := port.Topology{Present: m.present, At: w.o.Now()}
	if !m.present {
		return t
	}
	t.Node, t.Address, t.Version = m.node, "10.0.0.9:7297", m.spec.Version
	if w.managed(c) != nil {
		return t
	}
	t.Ready, t.HA, t.Until, t.Writer, t.Epoch, t.Sync, t.Code, t.Message = true, m.ha, m.until, m.writer, m.epoch, slices.Clone(m.sync), m.code, m.message
	t.TLS, t.Identity = true, port.ManagerIdentity(c.ref).String()
	t.Durability, t.SameNode = cmp.Or(m.spec.Durability, "strict"), m.spec.SameNode
	for _, name := range slices.Sorted(maps.Keys(m.members)) {
		t.Members = append(t.Members, m.members[name])
	}
	return t
}

// Ensure implements port.Manager.
func (s managers) Ensure(ctx context.Context, ref port.Ref, want port.ManagerSpec) (port.Topology, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Manager", Method: "Ensure", Ref: ref.Cluster(), Detail: fmt.Sprintf("present=%t ha=%t", want.Present, want.HA)}, func(c *cluster) (port.Topology, error) {
		m := &c.manager
		if !want.Present {
			*m = manager{members: map[string]port.Member{}}
			return w.topology(c), nil
		}
		c.strict = want.Durability != "available"
		n := w.nodes[m.node]
		lost := n != nil && !n.lostAt.IsZero()
		if apart := m.present && want.AwayFrom != "" && m.node == want.AwayFrom && w.elsewhere(want.AwayFrom) != ""; !m.present || m.broken || lost || apart {
			made, members, ha, until := !m.present, m.members, want.HA, time.Time{}
			if !made { // an existing manager keeps its settings
				ha, until = m.ha, m.until
			}
			*m = manager{present: true, readyAt: w.o.Now().Add(w.o.Times.Manager), members: members, ha: ha, until: until, sync: m.sync, ask: m.ask, safe: m.safe, of: m.of, seen: m.seen}
			for _, member := range want.Members {
				if made {
					m.members[member.Name] = member
				}
			}
			if m.node = w.elsewhere(want.AwayFrom); m.node == "" {
				m.node = want.AwayFrom
			}
		}
		m.spec = want
		w.advance(c)
		return w.topology(c), nil
	})
}

// elsewhere returns another node that takes the manager.
func (w *Simulation) elsewhere(away string) string {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := w.nodes[name]; name != away && n.Ready && n.Schedulable && n.lostAt.IsZero() {
			return name
		}
	}
	return ""
}

// Add implements port.Manager.
func (s managers) Add(ctx context.Context, ref port.Ref, m port.Member) error {
	w := s.w
	_, err := do(ctx, w, Call{Port: "Manager", Method: "Add", Ref: ref.Of(m.Name), Detail: m.ID}, func(c *cluster) (struct{}, error) {
		if err := w.managed(c); err != nil {
			return struct{}{}, err
		}
		c.manager.members[m.Name] = m
		return struct{}{}, nil
	})
	return err
}

// Remove implements port.Manager.
func (s managers) Remove(ctx context.Context, ref port.Ref, name string) error {
	w := s.w
	_, err := do(ctx, w, Call{Port: "Manager", Method: "Remove", Ref: ref.Of(name)}, func(c *cluster) (struct{}, error) {
		if err := w.managed(c); err != nil {
			return struct{}{}, err
		}
		delete(c.manager.members, name)
		c.manager.sync = slices.DeleteFunc(c.manager.sync, func(n string) bool { return n == name })
		return struct{}{}, nil
	})
	return err
}

// SetHA implements port.Manager.
func (s managers) SetHA(ctx context.Context, ref port.Ref, on bool, until time.Time) error {
	w := s.w
	_, err := do(ctx, w, Call{Port: "Manager", Method: "SetHA", Ref: ref.Cluster(), Detail: strings.TrimSpace(fmt.Sprint(on))}, func(c *cluster) (struct{}, error) {
		if err := w.managed(c); err != nil {
			return struct{}{}, err
		}
		m := &c.manager
		m.ha, m.until = on, until
		if on {
			m.until = time.Time{}
		} else {
			m.missed = time.Time{}
		}
		return struct{}{}, nil
	})
	return err
}

// Topology implements port.Manager.
func (s managers) Topology(ctx context.Context, ref port.Ref) (port.Topology, error) {
	w := s.w
	return do(ctx, w, Call{Port: "Manager", Method: "Topology", Ref: ref.Cluster()}, func(c *cluster) (port.Topology, error) {
		if c.manager.present {
			if err := w.managed(c); err != nil && !w.o.Now().Before(c.manager.readyAt) {
				return w.topology(c), err
			}
		}
		return w.topology(c), nil
	})
}
