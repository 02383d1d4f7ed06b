package sim

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// faults are the misbehaviours that go on.
type faults struct {
	c    *Cluster
	list []*Fault
}

// FaultKind is a way in which the world misbehaves.
type FaultKind string

// The faults. Crashes, new addresses, mixed protocols and lag need none: they are Crash, Start, Prepare
// and SetLoad.
const (
	FaultStatusLate       FaultKind = "StatusLate"       // a status call takes as long as Takes says
	FaultStatusStale      FaultKind = "StatusStale"      // the status is that of the moment of Inject
	FaultStatusPartial    FaultKind = "StatusPartial"    // fields that may be missing are missing, at random
	FaultStatusDoubled    FaultKind = "StatusDoubled"    // some processes are there twice
	FaultCommandRefused   FaultKind = "CommandRefused"   // a command fails before it does anything
	FaultReplyLost        FaultKind = "ReplyLost"        // a command is done, and its output is lost
	FaultTimedOut         FaultKind = "TimedOut"         // a command hangs until it is ended, before or after it was done
	FaultCommitUnknown    FaultKind = "CommitUnknown"    // a commit ends with ErrUnknown, before or after it was done
	FaultPartition        FaultKind = "Partition"        // the coordinator at Address is not reached
	FaultStuckMovement    FaultKind = "StuckMovement"    // no data move
	FaultSecondRecovery   FaultKind = "SecondRecovery"   // the next recovery is followed by another one
	FaultNoAgents         FaultKind = "NoAgents"         // no backup agent works
	FaultStoreRefuses     FaultKind = "StoreRefuses"     // the blob store refuses everything
	FaultWrongCredentials FaultKind = "WrongCredentials" // the blob store does not know the key
)

// Fault is one misbehaviour.
type Fault struct {
	Kind    FaultKind
	For     time.Duration // how long; 0: until it is cleared, and of those that hit one call: until it has
	Command string        // the first word of the commands it hits; empty: any
	Before  bool          // of TimedOut and CommitUnknown: nothing was done
	Takes   time.Duration // of StatusLate
	Address fdb.Address   // of Partition

	until    time.Duration
	document []byte // of StatusStale
}

// once are the faults that are gone after they have hit a call, unless For is set.
var once = []FaultKind{FaultCommandRefused, FaultReplyLost, FaultTimedOut, FaultCommitUnknown, FaultSecondRecovery}

// Inject begins a fault.
func (fs *faults) Inject(f Fault) {
	fs.c.say("fault: %s %s", f.Kind, f.Command)
	if f.Kind == FaultStatusStale {
		f.document = fs.c.Status(fs.c.coordination.connection, fs.c.coordination.protocol)
	}
	if f.For > 0 {
		f.until = fs.c.clock.now + f.For
		fs.c.clock.after(f.For, func() { fs.expire() })
	}
	fs.c.backups.freezeLogs()
	fs.list = append(fs.list, &f)
	fs.expire()
	fs.c.judge.check()
}

// Clear ends all faults of a kind; empty means all.
func (fs *faults) Clear(kind FaultKind) {
	fs.list = slices.DeleteFunc(fs.list, func(f *Fault) bool { return kind == "" || f.Kind == kind })
	fs.expire()
	fs.c.judge.check()
}

// expire drops faults whose time is over, and has what they held back go on.
func (fs *faults) expire() {
	fs.list = slices.DeleteFunc(fs.list, func(f *Fault) bool { return f.until > 0 && fs.c.clock.now >= f.until })
	fs.c.recovery.review(because(changed, "a fault began or ended"))
	fs.c.backups.goOn()
}

// active returns the first active fault of a kind; nil if there is none.
func (fs *faults) active(kind FaultKind) *Fault {
	for _, f := range fs.list {
		if f.Kind == kind && (f.until == 0 || fs.c.clock.now < f.until) {
			return f
		}
	}
	return nil
}

// take returns a fault of a kind, and ends it if it hits only once.
func (fs *faults) take(kind FaultKind) *Fault { return fs.takeFor(kind, "") }

// takeFor is take for those faults that hit a command.
func (fs *faults) takeFor(kind FaultKind, command string) *Fault {
	for i, f := range fs.list {
		if f.Kind != kind || f.until > 0 && fs.c.clock.now >= f.until || f.Command != "" && f.Command != command {
			continue
		}
		if f.until == 0 && slices.Contains(once, kind) {
			fs.list = slices.Delete(fs.list, i, i+1)
		}
		return f
	}
	return nil
}

// partitioned tells whether a coordinator is not reached.
func (fs *faults) partitioned(a fdb.Address) bool {
	return slices.ContainsFunc(fs.list, func(f *Fault) bool {
		return f.Kind == FaultPartition && f.Address == a && (f.until == 0 || fs.c.clock.now < f.until)
	})
}

func (fs *faults) stuckMovement() bool { return fs.active(FaultStuckMovement) != nil }
