package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// Event is what moves a rollout from one state to another.
type Event string

const (
	AppLocated           Event = "AppLocated"
	RollingSpecVerified  Event = "RollingSpecVerified"
	RollingInitialized   Event = "RollingInitialized"
	InitializedOneBatch  Event = "InitializedOneBatch"
	RolloutOneBatch      Event = "RolloutOneBatch"
	OneBatchAvailable    Event = "OneBatchAvailable"
	FinishedOneBatch     Event = "FinishedOneBatch"
	AllBatchFinished     Event = "AllBatchFinished"
	BatchRolloutApproved Event = "BatchRolloutApproved"
	WorkloadResized      Event = "WorkloadResized"
	BatchRolloutFailed   Event = "BatchRolloutFailed"
	RollbackRequested    Event = "RollbackRequested"
	RollingFinalized     Event = "RollingFinalized"
	RolloutStopped       Event = "RolloutStopped"
	RollingModified      Event = "RollingModified"
	RollingDeleted       Event = "RollingDeleted"
)

// row is one line of the state table: an event in a state and a batch state leads to another.
type row struct {
	from  []State
	batch []BatchState // nil: any
	event Event
	to    State      // "": unchanged
	then  BatchState // "": unchanged
	also  effect
}

// effect is what a row does besides.
type effect string

const (
	nothing   effect = ""
	reset     effect = "reset"
	nextBatch effect = "currentBatch + 1"
	goBack    effect = "currentBatch 0"
)

var (
	allStates   = []State{Locating, Verifying, Initializing, InBatch, Finalising, Failing, Abandoning, Deleting, RollingBack, Succeeded, Failed}
	batchStates = []BatchState{BatchInitializing, BatchInRolling, BatchVerifying, BatchFinalizing, BatchReady, BatchVerifyFailed}

	inBatches = []State{InBatch, RollingBack}
	terminal  = []State{Succeeded, Failed}
	claimed   = []State{Initializing, InBatch, RollingBack, Finalising}
	afterInit = []BatchState{BatchInRolling, BatchVerifying, BatchFinalizing, BatchReady}
)

// table is the state machine. The first row that fits counts; what has no row is illegal.
var table = []row{
	{from: []State{Locating}, event: AppLocated, to: Verifying},
	{from: allStates, event: AppLocated},
	{from: []State{Verifying}, event: RollingSpecVerified, to: Initializing},
	{from: []State{Initializing}, event: RollingInitialized, to: InBatch, then: BatchInitializing},

	{from: inBatches, batch: []BatchState{BatchInitializing}, event: InitializedOneBatch, then: BatchInRolling},
	{from: inBatches, batch: []BatchState{BatchInRolling}, event: RolloutOneBatch, then: BatchVerifying},
	{from: inBatches, batch: []BatchState{BatchVerifying}, event: OneBatchAvailable, then: BatchFinalizing},
	{from: inBatches, batch: []BatchState{BatchFinalizing}, event: FinishedOneBatch, then: BatchReady},
	{from: []State{InBatch}, batch: []BatchState{BatchFinalizing}, event: AllBatchFinished, to: Finalising, then: BatchReady},
	{from: []State{RollingBack}, batch: []BatchState{BatchFinalizing}, event: AllBatchFinished, to: Failing, then: BatchReady},
	{from: inBatches, batch: []BatchState{BatchReady}, event: BatchRolloutApproved, then: BatchInitializing, also: nextBatch},
	{from: inBatches, batch: afterInit, event: WorkloadResized, then: BatchInRolling},
	{from: inBatches, event: BatchRolloutFailed, to: Failed, then: BatchVerifyFailed},
	{from: []State{InBatch}, event: RollbackRequested, to: RollingBack, then: BatchInitializing, also: goBack},

	{from: []State{Finalising}, event: RollingFinalized, to: Succeeded},
	{from: []State{Failing, Deleting}, event: RollingFinalized, to: Failed},
	{from: []State{Abandoning}, event: RollingFinalized, to: Locating, also: reset},

	{from: claimed, event: RolloutStopped, to: Failing, then: BatchInitializing},
	{from: []State{Locating, Verifying}, event: RolloutStopped, to: Failed},
	{from: terminal, event: RollingModified, to: Locating, also: reset},
	{from: []State{Deleting}, event: RollingModified},
	{from: allStates, event: RollingModified, to: Abandoning},
	{from: terminal, event: RollingDeleted},
	{from: allStates, event: RollingDeleted, to: Deleting},

	{from: allStates, event: WorkloadResized},
	{from: allStates, event: RollbackRequested},
	{from: allStates, event: RolloutStopped},
}

func (r row) fits(at Position, e Event) bool {
	return r.event == e && slices.Contains(r.from, at.State) &&
		(r.batch == nil || slices.Contains(r.batch, at.BatchState))
}

// Known reports whether this version knows the state and the batch state.
func (at Position) Known() bool {
	return slices.Contains(allStates, at.State) && slices.Contains(batchStates, at.BatchState)
}

// Transition is the state table and nothing else. An illegal event leads to Failed, but a terminal
// state and one that this version does not know stay as they are.
func Transition(at Position, e Event) (next Position, legal bool) {
	if !at.Known() {
		switch e {
		case RollingModified:
			at.State = Abandoning
			return at, true
		case RollingDeleted:
			at.State = Deleting
			return at, true
		default:
			return at, false
		}
	}
	for _, r := range table {
		if !r.fits(at, e) {
			continue
		}
		if r.also == nextBatch && at.State == RollingBack && at.Rollback != nil && at.CurrentBatch >= at.Rollback.FromBatch {
			break
		}
		return r.follow(at), true
	}
	if at.State.Terminal() {
		return at, false
	}
	at.State = Failed
	return at, false
}

func (r row) follow(at Position) Position {
	if r.to != "" {
		at.State = r.to
	}
	if r.then != "" {
		at.BatchState = r.then
	}
	switch r.also {
	case reset:
		at = at.reset()
	case nextBatch:
		at.CurrentBatch++
	case goBack:
		at.Rollback = &RollbackPosition{FromBatch: at.CurrentBatch}
		at.CurrentBatch = 0
	case nothing:
	}
	return at
}

// reset is the position from which a new pair starts: what counts the life of the object stays.
func (at Position) reset() Position {
	return Position{
		State: Locating, BatchState: BatchInitializing,
		Number: at.Number, Sequence: at.Sequence, LastRequest: at.LastRequest, Original: at.Original,
	}
}

// Mermaid draws the state table.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n\t[*] --> " + string(Locating) + "\n")
	for _, r := range table {
		if r.to == "" || len(r.from) == len(allStates) {
			continue
		}
		for _, from := range r.from {
			fmt.Fprintf(&b, "\t%s --> %s : %s\n", from, r.to, r.event)
		}
	}
	b.WriteString("\tstate " + string(InBatch) + " {\n\t\t[*] --> " + string(BatchInitializing) + "\n")
	for _, r := range table {
		if r.to != "" || !slices.Contains(r.from, InBatch) {
			continue
		}
		for _, from := range r.batch {
			if r.then == "" {
				continue
			}
			fmt.Fprintf(&b, "\t\t%s --> %s : %s\n", from, r.then, r.event)
		}
	}
	b.WriteString("\t}\n")
	for _, s := range terminal {
		fmt.Fprintf(&b, "\t%s --> [*]\n", s)
	}
	return b.String()
}
