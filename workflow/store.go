package workflow

import (
	"context"
	"errors"
	"time"
)

// Store keeps runs. Its exam is storetest; memory, SQLite, PostgreSQL and
// Kubernetes pass it (workflow.md 7).
//
// When a call returns nil the change is durable. An error that is neither
// ErrConflict, ErrFenced, ErrNotFound nor a fault of class Invalid or Blocked
// leaves open whether the write happened.
type Store interface {
	// Create stores a new run with its first events and decides its phase:
	// Running, or Queued with a growing number when another run of the subject
	// is active (Inline runs are never queued; more than 100 waiting: QUEUE_FULL).
	// A known id gives the stored run and changes nothing. Owner and Epoch are
	// kept when the run is Running (it is born claimed) and cleared when it is Queued.
	Create(ctx context.Context, r *Run, events []Event) (*Run, error)

	// Load gives a run and its unread signals in order of arrival. ErrNotFound.
	Load(ctx context.Context, id string) (*Run, []Signal, error)

	// Save writes a run's row, the records in r.Changed(), the events, the
	// removal of consumed signals and the mail, all or nothing. It replaces
	// exactly r.Revision, and only while the stored epoch is not newer than
	// r.Epoch: ErrConflict, ErrFenced. On success r.Revision is raised,
	// r.Mail is the store's count, and the marks of Changed are gone.
	// A final phase promotes the next queued run of the subject (unless this run
	// is Inline or was Queued itself).
	// A save without Owner whose r.Mail is older than the store's count makes
	// the run due at once, whatever r.NextAt says, so no signal is overlooked.
	Save(ctx context.Context, s *Save) error

	// Send keeps a signal for a run and makes the run due. The same id counts
	// once, also after it was consumed (the newest 1,000 ids are kept). More
	// than 1,000 unread: QUEUE_FULL. A final run: ErrFinal.
	Send(ctx context.Context, id string, s Signal) error
}

// Save is one write of a run.
type Save struct {
	Run      *Run
	Consumed []string // ids of signals
	Events   []Event
	Mail     []Mail
}

// Mail is a signal to another run, delivered by the write that causes it.
// A final or unknown receiver is no error.
type Mail struct {
	To     string
	Signal Signal
}

// Errors of stores that are no faults of a step.
var (
	ErrConflict = errors.New("workflow: the run was saved by someone else")
	ErrFenced   = errors.New("workflow: a newer worker owns the run")
	ErrNotFound = errors.New("workflow: no such run")
	ErrFinal    = errors.New("workflow: the run has ended")
)

// Claimer is a store that several workers can share by leases with fencing (workflow.md 2.9).
type Claimer interface {
	// Claim takes up to Limit due runs, soonest first. Each comes with Owner
	// set and Epoch raised; a store that only one process can own may leave
	// that to the first Save. Due are: runs of any phase but the final ones
	// without a living owner whose NextAt is set and has come (a Queued run has
	// one once it got mail), and all runs whose owner is dead.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Take claims one run, due or not; ErrOwned if another living worker has it.
	// For the worker that has it already it gives the run as it is, without raising the epoch.
	ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (Loaded, error)
	// Rest gives back one run that a look left as it was: unowned, and due at
	// next (zero: when something happens), or at once if r.Mail is older than
	// the store's count or r.Revision is not the stored one (it was promoted). It need not be durable: after a crash the run may be due at once.
	ReleaseRun(ctx context.Context, worker string, r *Run, next time.Time) error
	// Renew keeps a worker alive for another lease; ErrFenced if it was given up for dead.
	Renew(ctx context.Context, worker string, lease time.Duration) error
	// Release gives back the worker and all runs it still owns, keeping when they are due.
	Release(ctx context.Context, worker string) error
	// Wake carries the id of a run that may have become due or has got mail, or "" for any.
	// It is a hint: an overflowing channel may drop, and correctness never depends on it.
	Wake() <-chan string
}

// ErrOwned is the answer of Take while a living worker owns the run.
var ErrOwned = errors.New("workflow: another worker owns the run")

// Claim asks for due runs.
type Claim struct {
	Worker    string
	Limit     int
	Lease     time.Duration
	FullFlows []string // flows at their limit: leave their runs alone
}

// Claimed is the answer to a Claim.
type Claimed struct {
	Runs []Loaded
	Next time.Time // the soonest NextAt of what is not due yet; zero: none
}

// Loaded is a run with its unread signals.
type Loaded struct {
	Run     *Run
	Signals []Signal

	leaseTerm int // of the worker's lease in which the run was claimed
}

// Query selects runs for faces.
type Query struct {
	Phases      []Phase // empty: all
	Active      bool    // only those not final
	Flow        string
	Subject     string
	Prefix      string   // of the id
	IDs         []string // whole; those that no run has are left out
	Hash        string
	Parent      string
	Labels      []LabelTerm // all of them hold
	Limit       int         // default 100, at most 1,000
	Cursor      string      // of an earlier answer
	OldestFirst bool        // oldest first; default newest first
}

// LabelTerm is one term of a selection by labels: key=value, key!=value, key or !key.
// As in Kubernetes, key!=value also holds where the key is missing.
type LabelTerm struct {
	Key   string
	Value string
	Any   bool // the value does not matter, only whether the key is there
	Not   bool
}

// Holds says whether a run with these labels fits the term.
func (t LabelTerm) Holds(labels map[string]string) bool {
	value, there := labels[t.Key]
	return (there && (t.Any || value == t.Value)) != t.Not
}

// Lister is a store whose runs and history faces can read.
type Lister interface {
	// List gives runs without their step records (Steps is empty) but for what Current needs.
	List(ctx context.Context, q Query) (runs []*Run, cursor string, err error)
	// History gives the events of a run with Seq > after, oldest first. limit 0: 1,000.
	History(ctx context.Context, id string, after int64, limit int) ([]Event, error)
	// Events gives events of all runs behind a cursor in order of writing. An
	// empty cursor is the beginning, "now" the end. The cursor it gives is never empty.
	Events(ctx context.Context, cursor string, limit int) (events []Event, next string, err error)
}

// Definitions keeps flow definitions by content hash.
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
	Source  []byte // what a loader can read again; empty for flows written in Go
}

// Bounded is a Store that holds less of a run than MaxRun.
type Bounded interface {
	// RunLimit is how many bytes input and outputs of a run may have.
	RunLimit() int
}

// Retainer removes finished runs.
type Retainer interface {
	// Expired gives finished runs that the policy no longer keeps, oldest first.
	Expired(ctx context.Context, now time.Time, policy func(flow string) Retention, limit int) ([]string, error)
	// Remove deletes finished runs with records, signals and history. Others are left alone.
	Remove(ctx context.Context, ids []string) error
}
