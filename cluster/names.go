package cluster

// CleanName makes a legal part of a host name of a cluster's name; empty if
// nothing of it can be used.
func CleanName(name string) string { return "" }

// NodeName is the name of a node's VM: <cluster name, cut>-<6 of id>-<role><ordinal>.
func NodeName(c *Cluster, role Role, ordinal int) string { return "" }

// ResourceName is the name of another resource, such as "net", "ip" or "fw6443".
func ResourceName(c *Cluster, suffix string) string { return "" }

// NamedByUs reports a name that NodeName or ResourceName could have given.
func NamedByUs(c *Cluster, name string) bool { return false }

// NextOrdinal is the lowest ordinal that no node of the role has or ever had:
// the removed ones are known by their nodes and by the journal.
func NextOrdinal(b *Book, role Role) int { return 1 }
