package resources

import (
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// storeFound stores the ids of a found resource and the address of its node.
func (h *rowOp) storeFound(r cluster.Resource) {
	h.storeIDs(r.Ref())
	if h.node != nil && r.Address != "" && h.node.Address == "" {
		h.node.Address, h.dirty = r.Address, true
	}
}

// storeIDs stores those ids of an answer that are not stored yet.
func (h *rowOp) storeIDs(ref cluster.Ref) {
	if ref.ID != "" && h.row.ProviderID == "" {
		h.row.ProviderID, h.dirty = ref.ID, true
	}
	if ref.Identity != "" && h.row.Identity == "" {
		h.row.Identity, h.dirty = ref.Identity, true
	}
	if h.node != nil && h.node.VMID == "" && h.row.ProviderID != "" {
		h.node.VMID, h.dirty = h.row.ProviderID, true
	}
}

// noteFailure stores the newest failure in the row.
func (h *rowOp) noteFailure(err error) {
	code, text := fault.Of(err).Code, fault.Message(err)
	if h.row.LastCode != code || h.row.LastError != text {
		h.row.LastCode, h.row.LastError, h.dirty = code, text, true
	}
}

// finalFailure returns the failure that ends the tries of a row: one that is not
// transient, or the last try of a create. nil: another try is allowed.
func (h *rowOp) finalFailure() error {
	err := FailureOf(h.row)
	kind := fault.Of(err)
	if err == nil || kind.Class == fault.Transient && (h.deleting || kind.Uncharged || h.row.Attempts+h.row.Attempt-1 < h.limits.Tries) {
		return nil
	}
	return err
}

// backoff returns the pause after a failed call, 1 s doubling to 60 s.
func (h *rowOp) backoff(w *Attempt) time.Duration {
	if h.deleting {
		return min(max(w.Waited(), time.Second), time.Minute)
	}
	return failurePause(h.row.Attempts)
}

// FailureOf returns the failure that is stored in a row; nil if there is none.
func FailureOf(row *cluster.JournalRow) error {
	if row.LastCode == "" {
		return nil
	}
	kind, ok := fault.Lookup(string(row.LastCode))
	if !ok {
		kind = cluster.ProviderRefused
	}
	return kind.Errorf("%s %s: %s", row.Kind, row.Name, row.LastError).With("resource", row.Name)
}

// wait leaves a row for the next attempt. The row fails if its time limit has
// passed, or if the provider's job has failed.
func (h *rowOp) wait(w *Attempt) {
	h.waits = true
	age, patience := w.Waited(), h.limits.Timeout
	if !h.deleting {
		age, patience = min(age, w.Now.Sub(h.row.IntentAt)), patience*time.Duration(max(h.limits.Tries, 1))
	}
	if h.failure = h.jobFailed(); h.failure != nil || age < patience {
		return
	}
	if h.row.LastCode == "" {
		h.noteFailure(workflow.Timeout.Errorf("nothing has come of it in %s", patience))
	}
	h.failure = FailureOf(h.row)
}

// jobFailed returns the failure of the job of an accepted row whose resource was
// not found; nil if the row may still succeed.
func (h *rowOp) jobFailed() error {
	if err := FailureOf(h.row); !h.deleting && h.row.Phase == cluster.Accepted && h.row.JobID == "" && err != nil && fault.Of(err).Class != fault.Transient {
		return err
	}
	return nil
}

// closeRow ends a row: its resource is gone or was never created.
func (h *rowOp) closeRow(act cluster.JournalAction, now time.Time) {
	h.row.Phase, h.row.GoneAt, h.row.JobID = cluster.Gone, now, ""
	if act == cluster.MarkNeverCreated {
		h.row.Phase = cluster.NeverCreated
	}
	if h.node != nil && h.node.Removed.IsZero() {
		h.node.Removed = now
	}
	h.dirty, h.done = true, true
	if act == cluster.Lost {
		if h.row.LastCode == "" {
			h.noteFailure(cluster.NodeMissing.Errorf("it was accepted and is gone"))
		}
		h.done, h.failure = false, FailureOf(h.row)
	}
}

// lookupFailed stores a failed lookup. A failure that is not transient ends the
// row: waiting does not help.
func (h *rowOp) lookupFailed(err error) {
	h.noteFailure(err)
	if fault.Of(err).Class != fault.Transient {
		h.failure = FailureOf(h.row)
	}
}

// failurePause returns the pause after the n-th failure in a row, 1 s to 60 s.
func failurePause(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 10), time.Minute)
}

// NoteFailure stores a failure in the row of a resource, which this run then works
// on.
func (w *Attempt) NoteFailure(row *cluster.JournalRow, err error) {
	rowOps{w}.newRowOp(row, true, Bounds{}).noteFailure(err)
}
