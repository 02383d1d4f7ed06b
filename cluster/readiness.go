package cluster

// Readiness returns whether a node is ready (true, false or unknown), and why it is
// not. The newest observation of its VM counts more than the last heartbeat of the
// node.
func (b *Record) Readiness(n *Node) (ready, why string) {
	for _, f := range b.Cluster.Findings {
		if f.Resource != n.Name && (f.ID == "" || f.ID != n.VMID) {
			continue
		}
		switch f.Type {
		case Missing:
			return "false", "its VM is gone: " + f.Evidence
		case PowerState, NotReady:
			if b.Cluster.Desired == WantRunning {
				return "false", f.Evidence
			}
		case UnknownState:
			return "unknown", f.Evidence
		}
	}
	switch {
	case b.Cluster.State == Stopped:
		return "false", "the cluster is stopped"
	case n.NotReady != "":
		return "false", n.NotReady
	case n.ReadyAt.IsZero():
		return "unknown", ""
	}
	return "true", ""
}
