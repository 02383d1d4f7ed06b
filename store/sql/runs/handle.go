package runs

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Handle is what the store knows of a run that a caller holds: its row, as it was last
// read or written. It is valid while the revision is unchanged.
type Handle struct {
	Key int64
	// LastEvent and LastSteps are the newest rows of the run in event, if they are chained.
	LastEvent, LastSteps int64

	store           *Store
	open            []string // records in the body
	revision, epoch int64
	phase           runtype.Phase
	owner, hash     string
	version         int
	fault           string // in its column
}

// Of returns the handle of a run that this store has read or created.
func (s *Store) Of(r *runtype.Run) (*Handle, bool) {
	h, ok := r.Handle.(*Handle)
	return h, ok && h.store == s
}

// Hold returns the handle of a run that is about to be saved. If the run has none, it
// reads the row.
func (s *Store) Hold(ctx context.Context, r *runtype.Run) (*Handle, error) {
	if h, ok := s.Of(r); ok && h.revision == r.Revision {
		return h, nil
	}
	stored, _, err := s.Load(ctx, r.ID)
	switch {
	case err != nil:
		return nil, err
	case stored.Epoch > r.Epoch:
		return nil, runstore.ErrFenced
	case stored.Revision != r.Revision:
		return nil, runstore.ErrConflict
	}
	r.Handle = stored.Handle
	return stored.Handle.(*Handle), nil
}

// Saved notes that the run was written. open are the records in its body.
func (h *Handle) Saved(r *runtype.Run, open []*runtype.StepRecord) {
	h.read(r)
	h.open = h.open[:0]
	for _, s := range open {
		h.open = append(h.open, s.Name)
	}
}

func (h *Handle) read(r *runtype.Run) {
	h.revision, h.epoch, h.phase, h.owner, h.hash, h.version = r.Revision, r.Epoch, r.Phase, r.Owner, r.Hash, r.Version
	h.fault = FaultOf(r)
}

// IsPinned reports that the row names the definition of the run.
func (h *Handle) IsPinned(r *runtype.Run) bool { return r.Hash == h.hash && r.Version == h.version }

// IsFault reports that the row names the fault by which the run is paused.
func (h *Handle) IsFault(r *runtype.Run) bool { return FaultOf(r) == h.fault }

// FaultOf returns the column fault of a run; empty: NULL.
func FaultOf(r *runtype.Run) string { return string(runstore.PausedBy(r)) }

// IsSame reports that all columns but body and revision are already as in the run.
func (h *Handle) IsSame(r *runtype.Run) bool {
	return r.Owner == h.owner && r.Phase == h.phase && r.Epoch == h.epoch && h.IsPinned(r) && h.IsFault(r)
}

// Encoded is the changing part of a run.
type Encoded struct {
	Body   []byte // behind PointerSpace, if rows are chained
	Events []byte // nil without events
	Steps  []byte // the settled records; nil without
	Seq    int64  // of the newest event
	Open   []*runtype.StepRecord
}

// Encode writes what a save changes.
func (h *Handle) Encode(r *runtype.Run, events []runtype.Event) Encoded {
	return h.encode(h.open, r.Changed(), r, events)
}

// encode writes the changing part of a run: the open records go into the body, the
// settled ones beside the events. before are the records in the body so far.
func (h *Handle) encode(before []string, changed []*runtype.StepRecord, r *runtype.Run, events []runtype.Event) (e Encoded) {
	var settled []*runtype.StepRecord
	for _, name := range before {
		if s := r.Step(name); s != nil && staysOpen(s) {
			e.Open = append(e.Open, s)
		}
	}
	for _, s := range changed {
		switch {
		case r.Step(s.Name) != s: // a later Put replaced it
		case !staysOpen(s):
			settled = append(settled, s)
		case !slices.Contains(e.Open, s):
			e.Open = append(e.Open, s)
		}
	}
	chained := h.store.texts.Chained
	body := make([]byte, 0, 128)
	if chained {
		body = body[:PointerSpace]
	}
	e.Body = codec.AppendBody(body, r, e.Open)
	if len(settled) > 0 {
		e.Steps = codec.AppendRecords(make([]byte, 0, 96), settled, h.pointer(&h.LastSteps)...)
	}
	e.Seq = r.Seq
	if len(events) > 0 {
		e.Seq = events[len(events)-1].Seq
		e.Events = codec.AppendEvents(make([]byte, 0, 96), events, h.pointer(&h.LastEvent)...)
	}
	return e
}

// pointer is the number before a chained blob.
func (h *Handle) pointer(last *int64) []int64 {
	if h.store.texts.Chained {
		return []int64{*last}
	}
	return nil
}

// maxOpen is the size of a record up to which it stays in the body.
const maxOpen = 512

// staysOpen reports a record that belongs in the body: it will change again, or it belongs
// to the step where the run is now, and it is small enough to be written with each save
// until then. A larger one is written once, beside the events.
func staysOpen(s *runtype.StepRecord) bool {
	switch s.Phase {
	case runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting, runtype.StepFailed, runtype.StepEntered:
		size := len(s.Output)
		for _, item := range s.Items {
			size += len(item.Key) + len(item.Value)
		}
		return size <= maxOpen
	}
	return false
}

// PointerSpace is left free before a body for two row numbers that only the writer
// knows.
const PointerSpace = 2 * binary.MaxVarintLen64

// PutPointers writes the numbers of the newest rows before a body.
func PutPointers(body []byte, lastEvent, lastSteps int64) []byte {
	var head [PointerSpace]byte
	n := binary.PutVarint(head[:], lastEvent)
	n += binary.PutVarint(head[n:], lastSteps)
	copy(body[PointerSpace-n:], head[:n])
	return body[PointerSpace-n:]
}

// ReadPointers reads the numbers that PutPointers wrote.
func ReadPointers(data []byte) (lastEvent, lastSteps int64, body []byte, err error) {
	lastEvent, n := binary.Varint(data)
	if n > 0 {
		var m int
		if lastSteps, m = binary.Varint(data[n:]); m > 0 {
			return lastEvent, lastSteps, data[n+m:], nil
		}
	}
	return 0, 0, nil, errors.New("damaged record: its row numbers are cut off")
}
