package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// Workers implements Store.
func (m *Store) Workers(ctx context.Context, clusters []int64) (map[int64]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64]int{}
	for id, nodes := range m.living(clusters) {
		for _, n := range nodes {
			if n.Role == cluster.Worker {
				found[id]++
			}
		}
	}
	return found, ctx.Err()
}

// VMs implements Store.
func (m *Store) VMs(ctx context.Context, clusters []int64) (map[int64][]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64][]string{}
	for id, nodes := range m.living(clusters) {
		slices.SortStableFunc(nodes, func(a, b *cluster.Node) int {
			return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		for _, n := range nodes {
			if n.VMID != "" {
				found[id] = append(found[id], n.VMID)
			}
		}
	}
	return found, ctx.Err()
}

// living returns the nodes of clusters that are not removed.
func (m *Store) living(clusters []int64) map[int64][]*cluster.Node {
	found := map[int64][]*cluster.Node{}
	for _, id := range clusters {
		if s := m.clusters[id]; s != nil && found[id] == nil {
			for _, n := range s.nodes {
				if n.Removed.IsZero() {
					found[id] = append(found[id], n)
				}
			}
		}
	}
	return found
}
