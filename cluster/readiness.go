package cluster

// Readiness says whether a node is ready: true, false or unknown, and why it is
// not. What the newest look found of its VM outweighs what the node said before.
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
