// Package lock lets only one of several actors work at a time: leases with an
// owner, a start, an end and a deny list.
//
//	                      caller denied        caller not denied
//	no record             refused              granted
//	own, valid            refused, release     granted, extended (start kept)
//	own, expired          refused              granted, fresh start
//	other's, valid        refused              refused until its end; granted if the holder is denied
//	other's, expired      refused              granted
//	unreadable            refused with error, nothing is written
//
// Decide is that table as a pure function. Locker reads, decides and writes in one
// transaction of its Backend; package locktest is the conformance suite of Backend.
package lock

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// DefaultDuration is how long a lock is held unless it is extended.
const DefaultDuration = 10 * time.Minute

var (
	// Unreadable is the fault of a lock whose stored value is not a State.
	Unreadable = fault.Declare(fault.Kind{
		Code: "LOCK_UNREADABLE", Class: fault.Blocked,
		Title:  "the stored lock cannot be read",
		Remedy: "Find out who wrote the stored value. When nobody works under this lock any more, delete the value and try again.",
	})
	// OwnerMissing is the fault of a caller without an identity.
	OwnerMissing = fault.Declare(fault.Kind{
		Code: "LOCK_WITHOUT_OWNER", Class: fault.Invalid,
		Title:  "a lock or its owner has no name",
		Remedy: "Give the lock a name and each instance that takes it an owner name of its own.",
	})
)

// Record is a lock that somebody holds or has held.
type Record struct {
	Owner string    `json:"owner"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Valid reports whether the lock still holds: its end lies after now.
func (r Record) Valid(now time.Time) bool { return r.End.After(now) }

// Stored is what a backend holds of a lock. The zero Stored is a free lock.
type Stored struct {
	Record *Record
	Err    error // why it could not be read
}

// Denied reports whether an owner must not hold the lock; nil denies none.
type Denied func(owner string) bool

// Decision is the result of Decide and Release.
type Decision struct {
	Granted  bool
	Extended bool      // granted to the present holder: the start is kept
	Released bool      // refused, and the record of the caller is removed; or released by the caller
	Denied   bool      // refused because the caller is on the deny list
	Record   *Record   // the record afterwards; nil: none
	Taken    time.Time // when it was granted or extended
	Write    bool      // the record must be stored
	Err      error     // refused because the record is unreadable
}

// Decide is the table of this package. A duration of 0 or less is DefaultDuration.
func Decide(now time.Time, stored Stored, caller string, denied Denied, duration time.Duration) Decision {
	if duration <= 0 {
		duration = DefaultDuration
	}
	now = now.UTC()
	is := func(owner string) bool { return denied != nil && denied(owner) }
	held := stored.Record
	own := held != nil && held.Owner == caller
	valid := held != nil && held.Valid(now)
	fresh := Decision{Granted: true, Taken: now, Record: &Record{Owner: caller, Start: now, End: now.Add(duration)}, Write: true}
	switch {
	case stored.Err != nil:
		return Decision{Record: held, Denied: is(caller), Err: stored.Err}
	case is(caller) && own && valid:
		return Decision{Denied: true, Released: true, Write: true}
	case is(caller):
		return Decision{Denied: true, Record: held}
	case own && valid:
		return Decision{Granted: true, Extended: true, Taken: now, Record: &Record{Owner: caller, Start: held.Start, End: now.Add(duration)}, Write: true}
	case held != nil && !own && valid && !is(held.Owner):
		return Decision{Record: held}
	default: // free, expired, or its holder is denied
		return fresh
	}
}

// Release decides about a lock that the caller gives back: a valid record of the
// caller is removed, everything else stays as it is.
func Release(now time.Time, stored Stored, caller string) Decision {
	held := stored.Record
	if stored.Err != nil || held == nil || held.Owner != caller || !held.Valid(now) {
		return Decision{Record: held, Err: stored.Err}
	}
	return Decision{Released: true, Write: true}
}

// RenewalDue reports whether at least half of the time between the grant and its
// end is over, or nothing was granted. Then the lock must be taken again before
// anything is done under it.
func (v Decision) RenewalDue(now time.Time) bool {
	return !v.Granted || now.Sub(v.Taken) >= v.Record.End.Sub(v.Taken)/2
}

// String returns the decision as text.
func (v Decision) String() string {
	switch {
	case v.Err != nil:
		return "refused: " + v.Err.Error()
	case v.Extended:
		return fmt.Sprintf("extended until %s", v.Record.End.Format(time.RFC3339))
	case v.Granted:
		return fmt.Sprintf("granted until %s", v.Record.End.Format(time.RFC3339))
	case v.Denied && v.Released:
		return "refused: the caller is on the deny list; its lock was released"
	case v.Denied:
		return "refused: the caller is on the deny list"
	case v.Record == nil:
		return "not held"
	default:
		return fmt.Sprintf("refused: %s holds it until %s", v.Record.Owner, v.Record.End.Format(time.RFC3339))
	}
}

// Outcome returns Done if the lock was granted, Fail if its record is unreadable,
// else Later with the reason LockNotHeld and the delay until the next try.
func (v Decision) Outcome(again time.Duration) outcome.Outcome {
	switch {
	case v.Granted:
		return outcome.Done()
	case v.Err != nil:
		return outcome.Fail(v.Err)
	default:
		return outcome.Later(again, "LockNotHeld", "%s", v)
	}
}
