package report

import "github.com/pawl-dev/pawl/view/fdbview"

// What this package fills, as people and programs are shown it.
type (
	// Cluster and the others are declared where the server can read them without Kubernetes.
	Cluster         = fdbview.Cluster
	Coordinator     = fdbview.Coordinator
	Class           = fdbview.Class
	Zone            = fdbview.Zone
	Group           = fdbview.Group
	Condition       = fdbview.Condition
	Plan            = fdbview.Plan
	Entry           = fdbview.Entry
	Configuration   = fdbview.Configuration
	Explanation     = fdbview.Explanation
	Server          = fdbview.Server
	Gate            = fdbview.Gate
	Exclusion       = fdbview.Exclusion
	ExclusionStatus = fdbview.ExclusionStatus
	Backup          = fdbview.Backup
	Restore         = fdbview.Restore
)

// Bytes is a number of bytes for people.
func Bytes(n int64) string { return fdbview.Bytes(n) }
