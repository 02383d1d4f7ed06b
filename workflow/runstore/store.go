// Package runstore is what a store of runs implements, and the store in memory. Package storetest holds its
// tests.
package runstore

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Store keeps runs. Every store passes the tests of package storetest.
//
// When a call returns nil, the change is durable. ErrConflict, ErrFenced, ErrNotFound and faults of
// class Invalid or Blocked mean that nothing was written. After any other error the caller does not
// know whether the write happened.
type Store interface {
	// Create stores a new run with its first events and decides its phase: Running, or Queued with
	// an increasing number if another run of the subject is active (inline runs are never queued so), or
	// Queued without a number until its limits let it start: see RunLimiter.
	// If 100 runs of the subject wait already, it fails with QUEUE_FULL. If the id is known, Create changes
	// nothing and returns the stored run. It keeps Owner and Epoch if the run is Running (the
	// worker that creates it owns it) and clears them if it is Queued.
	Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error)

	// Load returns a run and its unread signals in order of arrival. ErrNotFound.
	Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error)

	// Save writes the row of a run, the records in r.Changed(), the events, the removal of consumed
	// signals and the mail, all or nothing. It succeeds only if the stored revision is r.Revision
	// (else ErrConflict) and the stored epoch is not newer than r.Epoch (else ErrFenced). On
	// success it increments r.Revision, sets r.Mail to the count of the store, and clears Changed.
	// A final phase starts the next queued run of the subject, unless this run is Inline or was
	// Queued with a number; and the runs that waited for its limits. A save without Owner makes the run due at once, whatever r.NextAt says, if
	// r.Mail is lower than the count of the store: so no signal is overlooked.
	Save(ctx context.Context, s *Save) error

	// Send stores a signal for a run and makes the run due. A signal with a known id is ignored,
	// even if it was consumed; the store remembers the newest 1,000 ids. More than 1,000 unread
	// signals: QUEUE_FULL. A final run: ErrFinal.
	Send(ctx context.Context, id string, s runtype.Signal) error
}

// Save is one write of a run.
type Save struct {
	Run      *runtype.Run
	Consumed []string // ids of signals
	Events   []runtype.Event
	Mail     []Mail
}

// Mail is a signal to another run. The write that causes it delivers it. A final or unknown
// receiver is not an error.
type Mail struct {
	To     string
	Signal runtype.Signal
}

// Errors of stores that are not faults of a step.
var (
	ErrConflict = errors.New("workflow: another worker has saved the run")
	ErrFenced   = errors.New("workflow: a newer worker owns the run")
	ErrNotFound = errors.New("workflow: no such run")
	ErrFinal    = errors.New("workflow: the run has ended")
)

// Claimer is a store that several workers can share. Leases with fencing decide which worker owns a
// run.
type Claimer interface {
	// Claim claims up to Limit due runs, the earliest first. It sets Owner and raises Epoch; a
	// store that only one process can own may leave that to the first Save. A run is due if its
	// owner's lease has expired, or if it has no owner, is not final, and NextAt is set and has
	// passed (a Queued run has NextAt once it received mail).
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// ClaimRun claims one run, due or not. It fails with ErrOwned if another worker with a valid
	// lease owns it. If the caller already owns the run, it returns the run without raising the
	// epoch.
	ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (Loaded, error)
	// ReleaseRun releases one run that a worker has claimed and not changed. The run has no owner
	// then and is due at next (zero: when something happens). It is due at once if r.Mail is lower
	// than the count of the store, or if r.Revision is not the stored one (the run left the queue).
	// It need not be durable: after a crash the run may be due at once.
	ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error
	// Renew extends the lease of a worker. It fails with ErrFenced if the store has already given
	// up the worker.
	Renew(ctx context.Context, worker string, lease time.Duration) error
	// Release removes the worker and releases all runs that it still owns. It keeps their due
	// times.
	Release(ctx context.Context, worker string) error
	// Wake delivers the id of a run that may have become due or has received mail, or "" for any
	// run. It may drop messages: correctness does not depend on it.
	Wake() <-chan string
}

// ErrOwned is the error of ClaimRun while a worker with a valid lease owns the run.
var ErrOwned = errors.New("workflow: another worker owns the run")

// Claim is the input of Claimer.Claim.
type Claim struct {
	Worker    string
	Limit     int
	Lease     time.Duration
	FullFlows []string // flows that have reached their limit: their runs are not claimed
}

// Claimed is the result of Claimer.Claim.
type Claimed struct {
	Runs []Loaded
	Next time.Time // earliest time at which a run becomes due; zero: none
}

// Loaded is a run with its unread signals.
type Loaded struct {
	Run     *runtype.Run
	Signals []runtype.Signal
}

// Workers is a store that knows which workers share it.
type Workers interface {
	// Workers returns the workers that have claimed and were neither released nor replaced, in the order of their names. A
	// worker whose lease has ended stays in the list for a time: see Worker.Expired.
	Workers(ctx context.Context) ([]Worker, error)
}

// Worker is a process that claims runs.
type Worker struct {
	Name    string
	Since   time.Time     // when it took its lease
	Until   time.Time     // when its lease ends unless it renews it
	Lease   time.Duration // how long a renewal lasts
	Expired bool          // its lease has ended. With runs: the next claim of another worker gives them away. Without: it waits for work, or is gone
	Count   int           // runs that it owns
	Runs    []string      // their ids, the oldest first, at most MaxOwned
}

// MaxOwned bounds Worker.Runs.
const MaxOwned = 20

// RunLimiter is a store that limits by key how many runs run at once. A run without an active run of its
// subject starts when it is the first of all its keys and none of them is reached; it takes all its
// limits in one step. The first of a key is the run with the lowest Rank. A run holds its limits until it ends,
// whatever its phase and whoever owns it.
//
// A run that waits for its limits holds the slot of its subject. A child run without limits passes it (runtype.Run.PassesLimited):
// it takes the slot, and the run that waited is the first of the queue of the subject; of runs with one number the older is before.
type RunLimiter interface {
	// SetRunLimit makes a number count for a key in place of what its runs say. 0: none may start. The runs
	// that run already go on.
	SetRunLimit(ctx context.Context, key string, atOnce int) error
	// ResetRunLimit makes the numbers of the runs count again.
	ResetRunLimit(ctx context.Context, key string) error
	// RunLimits returns the keys that were set, or that an active run has, in order. limit 0: 1,000.
	RunLimits(ctx context.Context, after string, limit int) ([]KeyLimit, error)
	// RunLimitsOf returns the limits of a run in the order of its keys. It is empty for a run that has ended,
	// has none, or waits behind another run of its subject.
	RunLimitsOf(ctx context.Context, id string) ([]KeyLimit, error)
}

// KeyLimit is the state of a key.
type KeyLimit struct {
	Key     string
	AtOnce  int      // the number that counts: the set one, else that of the run (RunLimits: of the first that waits, else of the newest that runs)
	Set     bool     // AtOnce was set in the store
	Running int      // runs that hold a limit
	Waiting int      // runs that wait for one
	Before  int      // RunLimitsOf: runs that wait before it
	Holders []string // RunLimitsOf: ids of runs that hold a limit, the oldest first, at most MaxHolders
}

// MaxHolders bounds KeyLimit.Holders.
const MaxHolders = 10

// StepLimiter is a store that keeps who holds a limit: one small document for each key. Package workflow/limit
// decides what is in it.
type StepLimiter interface {
	// ChangeStepLimits calls change with the time of the store and the documents of the keys, nil for a key without one, and stores what it
	// returns, all documents or none; nil removes one. If another worker has changed one of them meanwhile, it
	// calls change again. An error of change ends the call, and nothing is written. When the call returns nil, the
	// change is durable. A key that has no document and gets none is not compared.
	ChangeStepLimits(ctx context.Context, keys []string, change func(now time.Time, documents [][]byte) ([][]byte, error)) error
	// StepLimits returns the documents of keys behind after, in order. limit 0: 1,000.
	StepLimits(ctx context.Context, after string, limit int) ([]KeyState, error)
}

// KeyState is the document of a key.
type KeyState struct {
	Key      string
	Document []byte
}

// Query selects runs for APIs, the command line and the console.
type Query struct {
	Phases      []runtype.Phase // empty: all
	Active      bool            // only those not final
	Flow        string
	Subject     string
	UID         string   // of the object that Subject names: the runs of Subject/UID match too
	Prefix      string   // prefix of the id
	IDs         []string // complete ids; unknown ids are ignored
	Hash        string
	Parent      string
	Labels      []LabelTerm // all of them hold
	Fault       fault.Code  // of runs that are Paused by it
	Text        string      // occurs in the id, the flow, the subject or a label, written key=value; A to Z are as a to z
	Since       time.Time   // created then or later; zero: any
	Until       time.Time   // created then or earlier; zero: any
	Limit       int         // default 100, at most 1,000
	Cursor      string      // from an earlier answer
	OldestFirst bool        // oldest first; default newest first
}

// LabelTerm is one term of a selection by labels: key=value, key!=value, key or !key.
// As in Kubernetes, key!=value also holds where the key is missing.
type LabelTerm struct {
	Key   string
	Value string
	Any   bool // only the presence of the key matters, not its value
	Not   bool
}

// Holds reports whether the labels of a run match the term.
func (t LabelTerm) Holds(labels map[string]string) bool {
	value, there := labels[t.Key]
	return (there && (t.Any || value == t.Value)) != t.Not
}

// Subjects returns the subjects of which a run has one; none: any. The machine of an object starts its
// runs with the object's uid, people leave it out.
func (q Query) Subjects() []string {
	switch {
	case q.Subject == "":
		return nil
	case q.UID == "":
		return []string{q.Subject}
	default:
		return []string{q.Subject, q.Subject + "/" + q.UID}
	}
}

// RunCount is how many runs have this flow, phase and fault.
type RunCount struct {
	Flow  string
	Phase runtype.Phase
	Fault fault.Code // of Paused runs; empty: none
	Runs  int
}

// Lister is a store that can list and count runs, and list their history.
type Lister interface {
	// Count counts the runs of a query, whatever its Limit, Cursor and order: one entry for each flow, phase and fault, in this
	// order.
	Count(ctx context.Context, q Query) ([]RunCount, error)
	// List returns runs without their step records, except the record that Current returns.
	List(ctx context.Context, q Query) (runs []*runtype.Run, cursor string, err error)
	// History returns the events of a run with Seq > after, oldest first. limit 0: 1,000.
	History(ctx context.Context, id string, after int64, limit int) ([]runtype.Event, error)
	// Events returns the events of all runs behind a cursor, in the order of writing. An empty
	// cursor is the beginning, "now" is the end. The returned cursor is never empty.
	Events(ctx context.Context, cursor string, limit int) (events []runtype.Event, next string, err error)
}

// Definitions stores flow definitions by content hash.
type Definitions interface {
	PutDefinition(ctx context.Context, d Definition) error // the same hash again changes nothing
	Definition(ctx context.Context, hash string) (Definition, error)
}

// Definition is a stored flow.
type Definition struct {
	Hash    string
	Flow    string
	Version int
	Data    []byte // canonical JSON
	Source  []byte // source that a loader can compile; empty for flows written in Go
}

// Bounded is a Store whose limit for a run is below MaxRun.
type Bounded interface {
	// RunLimit returns the largest total size in bytes of the input and the outputs of a run.
	RunLimit() int
}

// Retainer removes finished runs.
type Retainer interface {
	// Expired returns finished runs that the policy does not keep any more, oldest first.
	Expired(ctx context.Context, now time.Time, policy func(flow string) runtype.Retention, limit int) ([]string, error)
	// Remove deletes finished runs with their records, signals and history. It ignores other runs.
	Remove(ctx context.Context, ids []string) error
}
