package sharedstorage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// noFailover returns why a failover is impossible although it is on; empty: it is possible, or
// nobody can tell. While the writer is away the cluster manager itself says why.
func (c *Cluster) noFailover() (reason, message string) {
	f := c.Facts
	writer := f.writer()
	if writer == nil || !f.known(factInstances) {
		return "", ""
	}
	readers := f.readers()
	elsewhere := slices.DeleteFunc(slices.Clone(readers), func(i *port.Instance) bool {
		return !c.sameNode() && writer.Node != "" && i.Node == writer.Node
	})
	able := slices.DeleteFunc(slices.Clone(elsewhere), func(i *port.Instance) bool { return !f.healthy(i) })
	switch {
	case len(readers) == 0:
		return "NoReader", "there is no reader that could take over"
	case len(elsewhere) == 0 && f.known(factNodes) && !slices.ContainsFunc(f.Nodes, func(n port.Node) bool { return n.Ready && n.Schedulable && n.Name != writer.Node }):
		return "OneNode", fmt.Sprintf("node %s has all instances, and there is no other node. Add a node, or set ha.sameNode to let a reader there take over.", writer.Node)
	case len(elsewhere) == 0:
		return "ReadersOnWriterNode", fmt.Sprintf("all readers are on node %s, as the writer is. Migrate one of them, or set ha.sameNode to let it take over there.", writer.Node)
	case len(able) == 0:
		return "NoHealthyReader", "none of the readers that could take over is healthy"
	case c.durability() != strict:
		return "", ""
	case f.Engines[writer.Name].Stalled, len(f.Topology.Sync) == 0:
		return "NoReaderInSync", "no reader is known to have every answered commit"
	}
	missing := slices.DeleteFunc(slices.Clone(f.Topology.Sync), func(name string) bool {
		i := f.named(name)
		return i != nil && f.Engines[name].Ready
	})
	if len(missing) > 0 {
		return "NoReaderInSync", fmt.Sprintf("%s may be the only one with a commit, and cannot be asked", strings.Join(missing, ", "))
	}
	return "", ""
}

// oneNode reports whether several instances are all on one node.
func (f *Facts) oneNode() bool {
	node, many := "", false
	for i := range f.Instances {
		switch in := &f.Instances[i]; {
		case in.Node == "" || in.State == port.Leaving:
		case node == "":
			node = in.Node
		case in.Node != node:
			return false
		default:
			many = true
		}
	}
	return many
}
