package cluster

import "time"

// RecoveryOptions are the limits of a plan. The zero value is usable.
type RecoveryOptions struct {
	Consent        bool // the last ready control node may be replaced
	MaxUnavailable int  // nodes worked on at once; default 1
	Now            time.Time
	Tolerances     Tolerances
}

// RecoveryPlan is what a recover run does, in this order. An empty plan on a
// healthy cluster succeeds.
type RecoveryPlan struct {
	Start   []Node       // VMs that are stopped
	Replace []Node       // VMs that are missing or broken: their rest is destroyed first
	Create  []NewNodes   // what lacks up to the desired count
	Adopt   []Resource   // VMs of ours without a row, entered into the books
	Remove  []Resource   // VMs of ours without a row, destroyed with proof
	Drop    []Node       // workers beyond the desired count, the first victim first
	Mend    []JournalRow // network, address, rules that are gone or changed: made again
	// Forbidden is what is needed and neither the policy nor the consent allows.
	Forbidden []Finding
	// Batches are Start, Replace and Create in the order of the work, at most
	// MaxUnavailable in each.
	Batches []RecoveryBatch
}

// NewNodes are nodes of a role that a plan makes.
type NewNodes struct {
	Role  Role
	Count int
}

// RecoveryBatch is work that may be done at the same time.
type RecoveryBatch struct {
	Start, Replace []Node
	Create         []NewNodes
}

// Empty reports a plan without any work. Forbidden may still say what lacks.
func (p RecoveryPlan) Empty() bool {
	return len(p.Start)+len(p.Replace)+len(p.Create)+len(p.Adopt)+len(p.Remove)+len(p.Drop)+len(p.Mend) == 0
}

// Err is the fault of what the plan must leave undone: nil, RECOVERY_FORBIDDEN
// or LAST_CONTROL_NODE.
func (p RecoveryPlan) Err() error { return nil }

// PlanRecovery says what a recover run does to a cluster, by the policy.
func PlanRecovery(b *Book, seen Observed, policy Recovery, o RecoveryOptions) RecoveryPlan {
	return RecoveryPlan{}
}

// ParseRecovery reads a policy: none, or a list of restart, replace and adopt
// with commas. An empty text is the default, nil. CLUSTER_INVALID otherwise.
func ParseRecovery(text string) (Recovery, error) { return nil, nil }

// String is what ParseRecovery reads.
func (r Recovery) String() string { return "" }

// Or is the policy, or a default (restart if that is nil too).
func (r Recovery) Or(other Recovery) Recovery { return r }

// Allows reports a remedy within the policy.
func (r Recovery) Allows(m Remedy) bool { return false }
