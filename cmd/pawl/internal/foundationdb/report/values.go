package report

import "github.com/pawl-dev/pawl/view/fdbview"

// The values are declared where the server can read them without Kubernetes; this package fills them.

type (
	// Cluster is a cluster with its groups.
	Cluster = fdbview.Cluster
	// Coordinator is a coordinator of a cluster.
	Coordinator = fdbview.Coordinator
	// Class is the groups of one class.
	Class = fdbview.Class
	// Zone is the groups of one zone.
	Zone = fdbview.Zone
	// Group is a process group, and why it is as it is.
	Group = fdbview.Group
	// Condition is a condition of a group or an object.
	Condition = fdbview.Condition
	// Plan is what the operator would do.
	Plan = fdbview.Plan
	// Entry is one line of a plan.
	Entry = fdbview.Entry
	// Configuration is the configuration of a database, and its stages.
	Configuration = fdbview.Configuration
	// Explanation is why a group is where it is.
	Explanation = fdbview.Explanation
	// Server is a server of a group.
	Server = fdbview.Server
	// Gate is a gate, and what closes it.
	Gate = fdbview.Gate
	// Exclusion is how far the exclusion of a group is.
	Exclusion = fdbview.Exclusion
	// ExclusionStatus is how far exclusions are.
	ExclusionStatus = fdbview.ExclusionStatus
	// Backup is a backup.
	Backup = fdbview.Backup
	// Restore is a restore.
	Restore = fdbview.Restore
)

// Bytes is a number of bytes for people.
func Bytes(n int64) string { return fdbview.Bytes(n) }
