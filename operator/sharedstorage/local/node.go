package local

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Nodes implements port.Instances.
func (i *Instances) Nodes(ctx context.Context, _ port.Ref) ([]port.Node, error) {
	return i.placement.nodes(), ctx.Err()
}

func (s *Placement) nodes() []port.Node {
	nodes := slices.Clone(s.o.Nodes)
	for i := range nodes {
		nodes[i].Labels = maps.Clone(nodes[i].Labels)
		if _, down := s.down(nodes[i].Name); down {
			nodes[i].Ready = false
		}
	}
	slices.SortFunc(nodes, func(a, b port.Node) int { return compareNames(a.Name, b.Name) })
	return nodes
}

func (s *Placement) downFile(node string) string {
	return filepath.Join(s.o.Dir, "nodes", node+".down")
}

// down returns since when a node is broken.
func (s *Placement) down(node string) (time.Time, bool) {
	info, err := os.Stat(s.downFile(node))
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

// BreakNode makes a simulated node fail like a machine without power: all its processes are gone
// at once, and nothing starts there until RepairNode.
func (s *Placement) BreakNode(node string) error {
	return s.locked(func() error {
		if err := os.WriteFile(s.downFile(node), nil, 0o600); err != nil {
			return storageFault(err)
		}
		all, err := s.all()
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Node == node {
				s.crash(r.folder)
			}
		}
		err = s.managersOn(node)
		s.reap()
		return err
	})
}

// RepairNode brings a broken node back. Its instances are Down until Ensure starts them.
func (s *Placement) RepairNode(node string) error {
	return s.locked(func() error {
		if err := os.Remove(s.downFile(node)); err != nil && !os.IsNotExist(err) {
			return storageFault(err)
		}
		return nil
	})
}

// has reports whether a node has these labels.
func has(n port.Node, labels map[string]string) bool {
	for key, value := range labels {
		if n.Labels[key] != value {
			return false
		}
	}
	return true
}

// choose returns the node for an instance: the one it asks for, or the ready one with the fewest
// instances of the cluster.
func choose(want port.Instance, nodes []port.Node, load map[string]int) (string, error) {
	usable := slices.DeleteFunc(slices.Clone(nodes), func(n port.Node) bool { return !n.Ready || !n.Schedulable })
	if want.Node != "" {
		if !slices.ContainsFunc(usable, func(n port.Node) bool { return n.Name == want.Node }) {
			return "", port.TargetNodeUnavailable.Errorf("node %s is not there, not ready or not schedulable", want.Node).With("node", want.Node)
		}
		return want.Node, nil
	}
	usable = slices.DeleteFunc(usable, func(n port.Node) bool { return !has(n, want.NodeSelector) })
	if len(usable) == 0 {
		return "", port.NoAvailableNode.Errorf("none of %d nodes is ready, schedulable and has the labels that are asked for", len(nodes))
	}
	return slices.MinFunc(usable, func(a, b port.Node) int {
		if load[a.Name] != load[b.Name] {
			return load[a.Name] - load[b.Name]
		}
		return compareNames(a.Name, b.Name)
	}).Name, nil
}
