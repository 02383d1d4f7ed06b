package cluster

import (
	"cmp"
	"slices"
	"time"
)

// Victims chooses the workers to remove. With ids (names or provider ids) it
// returns exactly those; CLUSTER_INVALID if an id is no living worker, or if the
// ids are all workers. Without ids it returns all but keep workers (at least 1):
// those that are not ready first, then the newest. It never returns control nodes.
func Victims(nodes []Node, ids []string, keep int) ([]Node, error) {
	workers := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Role != Worker || !n.Removed.IsZero() })
	if len(ids) == 0 {
		if keep < 1 {
			return nil, ClusterInvalid.Errorf("%d workers: at least one must stay", keep).With("parameter", "size")
		}
		newest := newestHeartbeat(nodes)
		slices.SortStableFunc(workers, func(a, b Node) int {
			return cmp.Or(-compareBool(isUnready(a, newest), isUnready(b, newest)), -cmp.Compare(a.Ordinal, b.Ordinal))
		})
		return workers[:max(0, len(workers)-keep)], nil
	}
	var victims []Node
	for _, id := range ids {
		i := slices.IndexFunc(workers, func(n Node) bool { return id != "" && (n.Name == id || n.VMID == id) })
		if i < 0 {
			return nil, ClusterInvalid.Errorf("node %q is no worker of this cluster", id).With("parameter", "nodeids")
		}
		if !slices.ContainsFunc(victims, func(n Node) bool { return n.Name == workers[i].Name }) {
			victims = append(victims, workers[i])
		}
	}
	if len(victims) == len(workers) {
		return nil, ClusterInvalid.Errorf("these are all workers of the cluster: at least one must stay").With("parameter", "nodeids")
	}
	return victims, nil
}

// isUnready reports a node that is not ready, or that is silent while others send
// heartbeats.
func isUnready(n Node, newest time.Time) bool {
	return n.VMID == "" || n.NotReady != "" || !newest.IsZero() && newest.Sub(n.HeartbeatAt) > DefaultHeartbeatTimeout
}

func newestHeartbeat(nodes []Node) (newest time.Time) {
	for _, n := range nodes {
		if n.HeartbeatAt.After(newest) {
			newest = n.HeartbeatAt
		}
	}
	return newest
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
