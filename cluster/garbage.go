package cluster

import (
	"time"
)

// SignalCollect is what the collector sends to a delete run of a lazy clean-up,
// which waits for it before its first call.
const SignalCollect = "collect"

// OrphanAct is what becomes of a resource with our tag that no journal row knows.
type OrphanAct string

// The acts.
const (
	OrphanLeave  OrphanAct = "leave"  // it is young, or a run of its cluster may know it soon
	OrphanReport OrphanAct = "report" // nothing proves that it is ours to delete
	OrphanClose  OrphanAct = "close"  // enter it into the journal as Closing, then delete it
)

// DecideOrphan says what to do with a resource that carries our installation
// tag and has no open journal row. known is the book of the cluster its tag
// names, nil if this database has none.
func DecideOrphan(r Resource, known *Book, installation string, now time.Time, grace time.Duration) OrphanAct {
	return OrphanLeave
}

// RowAct is what the collector does with a journal row of a cluster without a live run.
type RowAct string

// The acts.
const (
	RowLeave  RowAct = "leave"
	RowSettle RowAct = "settle" // DecideMake with runLive false: it is an open intent or answer
	RowUnmake RowAct = "unmake" // DecideUnmake: it is to go
)

// DecideRow says which rows of a cluster without a live run the collector works on now.
func DecideRow(row *JournalRow, c *Cluster, now time.Time) RowAct { return RowLeave }

// Failed notes a failed attempt of the collector in a row: the attempt is
// counted, the next is planned, and after report attempts the row is Leaked.
// It reports whether the row became Leaked just now.
func Failed(row *JournalRow, err error, now time.Time, gc Backoff, report int) (leaked bool) {
	return false
}
