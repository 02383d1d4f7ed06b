package cluster

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// SignalCollect is what the collector sends to a delete run of a lazy clean-up,
// which waits for it before its first call.
const SignalCollect = "collect"

// LazyCleanup reports a cluster whose first start failed under the policy lazy:
// its delete run waits for the collector.
func LazyCleanup(c *Cluster) bool {
	return c.State == Expunging && !c.Started && c.OnFailure == Lazy && c.Desired != WantDestroyed
}

// OrphanAct is what becomes of a resource with our tag that no journal row knows.
type OrphanAction string

// The acts.
const (
	OrphanLeave  OrphanAction = "leave"  // it is young, or a run or the recovery of its cluster takes care of it
	OrphanReport OrphanAction = "report" // nothing proves that it is ours to delete
	OrphanClose  OrphanAction = "close"  // enter it into the journal as Closing, then delete it
)

// DecideOrphan says what to do with a resource that carries our installation
// tag. known is the book of the cluster its tag names, nil if this database has
// none: after a restore the clusters that are missing here may live.
func DecideOrphan(r Resource, known *Record, installation string, now time.Time, grace time.Duration) OrphanAction {
	switch {
	case r.Tags[TagInstallation] != installation, r.SourceNAT: // a source NAT goes with its network
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

// Knows reports a resource that is in the books: by id, or as the thing that an
// open intent waits for. What an operator has forgotten is known too.
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

// RowAct is what the collector does with a journal row of a cluster without a live run.
type RowAction string

// The acts.
const (
	RowLeave   RowAction = "leave"
	RowResolve RowAction = "settle" // DecideMake with runLive false: it is an open intent or answer
	RowDelete  RowAction = "unmake" // DecideUnmake: it is to go
)

// DecideRow says whether the collector works on a row of a cluster without a
// live run now. In a transient state and in Expunge a run does that.
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
		return RowDelete // its node was taken out of the cluster, and nobody came to close the row
	}
	return RowLeave
}

// member reports a row whose VM is a living node.
func (b *Record) hasNode(row *JournalRow) bool {
	return slices.ContainsFunc(b.Nodes, func(n Node) bool {
		return n.Removed.IsZero() && (n.Key == row.Key || n.Name == row.Name || n.VMID != "" && n.VMID == row.ProviderID)
	})
}

// Failed notes a failed attempt to delete in a row: the attempt is counted, the
// next is planned, and after report attempts the row is Leaked. It reports
// whether the row became Leaked just now. The collector never gives up: a
// Leaked row is tried on.
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
