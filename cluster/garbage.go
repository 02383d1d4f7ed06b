package cluster

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// SignalCollect is the signal that the collector sends to a delete run under the
// policy lazy. The run waits for it before its first call.
const SignalCollect = "collect"

// LazyCleanup reports a cluster whose first start failed under the policy lazy: its
// delete run waits for the collector.
func LazyCleanup(c *Cluster) bool {
	return c.State == Expunging && !c.Started && c.OnFailure == Lazy && c.Desired != WantDestroyed
}

// OrphanAction says what the collector does with a resource that has a tag of Pawl
// and no journal row.
type OrphanAction string

// The actions.
const (
	OrphanLeave  OrphanAction = "leave"  // it is young, or a run or the recovery of its cluster handles it
	OrphanReport OrphanAction = "report" // nothing proves that Pawl may delete it
	OrphanClose  OrphanAction = "close"  // add it to the journal as Closing, then delete it
)

// DecideOrphan decides about a resource with the installation tag of Pawl. known is
// the record of the cluster that its tag names; nil if this database has none.
// After a restore, clusters that are missing in the database may still exist.
func DecideOrphan(r Resource, known *Record, installation string, now time.Time, grace time.Duration) OrphanAction {
	switch {
	case r.Tags[TagInstallation] != installation, r.SourceNAT: // a source NAT address is deleted with its network
		return OrphanLeave
	case known == nil:
		return OrphanReport
	}
	c := &known.Cluster
	adopting := r.Kind == VM && c.State != Destroyed && c.Desired != WantDestroyed && c.Recovery.Allows(Adopt)
	switch {
	case known.Contains(r), Transient(c.State), c.State == Created, c.State == Expunge, !c.GC, adopting:
		return OrphanLeave
	case r.Created.IsZero() || now.Sub(r.Created) < grace:
		return OrphanLeave
	case !Ours(nil, r, installation, c):
		return OrphanReport
	}
	return OrphanClose
}

// Contains reports whether a resource is recorded: by id, or as the resource of an
// open intent. It is also true for resources that an operator has given up.
func (b *Record) Contains(r Resource) bool {
	if r.Kind == VM && slices.ContainsFunc(b.Nodes, func(n Node) bool { return n.VMID == r.ID }) {
		return true
	}
	return slices.ContainsFunc(b.Journal, func(row JournalRow) bool {
		switch {
		case row.Kind != r.Kind:
			return false
		case row.ProviderID != "":
			return row.ProviderID == r.ID && (row.Phase.Open() || row.Phase == Forgotten)
		default:
			return row.Phase.Open() && (row.Name == r.Name || row.Key == r.Tags[TagKey])
		}
	})
}

// RowAction says what the collector does with a journal row of a cluster without an
// active run.
type RowAction string

// The actions.
const (
	RowLeave   RowAction = "leave"
	RowResolve RowAction = "settle" // an open intent or answer: DecideCreate with runLive false
	RowDelete  RowAction = "unmake" // it must be deleted: DecideDelete
)

// DecideRow decides what the collector does now with a row of a cluster without an
// active run. In a transient state and in Expunge, a run does that work.
func DecideRow(row *JournalRow, b *Record, now time.Time, grace time.Duration) RowAction {
	c := &b.Cluster
	switch {
	case !row.Phase.Open(), row.Origin == OriginGiven, !c.GC, row.NextAt.After(now):
		return RowLeave
	case Transient(c.State), c.State == Created, c.State == Expunge:
		return RowLeave
	case row.Phase == Closing, row.Phase == Leaked, c.State == Destroyed:
		return RowDelete
	case row.Phase == Intent, row.Phase == Accepted:
		return RowResolve
	case row.Kind == VM && now.Sub(row.PresentAt) >= grace && !b.hasNode(row):
		return RowDelete // its node was removed from the cluster, and no run closed the row
	}
	return RowLeave
}

// hasNode reports whether the VM of a row is a node of the cluster.
func (b *Record) hasNode(row *JournalRow) bool {
	return slices.ContainsFunc(b.Nodes, func(n Node) bool {
		return n.Removed.IsZero() && (n.Key == row.Key || n.Name == row.Name || n.VMID != "" && n.VMID == row.ProviderID)
	})
}

// RecordFailure records a failed attempt to delete: it counts the attempt, sets the
// time of the next one, and after report attempts sets the row to Leaked. It
// returns whether the row became Leaked just now. The collector continues to try a
// Leaked row.
func RecordFailure(row *JournalRow, err error, now time.Time, gc Backoff, report int) (leaked bool) {
	row.Attempts++
	row.LastCode, row.LastError = fault.Of(err).Code, fault.Message(err)
	if next := now.Add(gc.After(row.Attempts, row.Key)); next.After(row.NextAt) {
		row.NextAt = next
	}
	if row.Phase == Closing && row.Attempts >= report {
		row.Phase = Leaked
		return true
	}
	return false
}
