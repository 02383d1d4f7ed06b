package cluster

import "time"

// Lookup is what asking the provider for a journal row's thing has brought.
// The zero Lookup: nobody has asked.
type Lookup struct {
	Found *Resource // it is there
	Gone  bool      // the lookup worked and found nothing: ErrGone
	Open  bool      // a job of the row is under way
	Err   error     // the lookup failed: nothing is known
}

// LookupOf makes a Lookup of an answer of Provider.Find or Get.
func LookupOf(r Resource, err error) Lookup { return Lookup{} }

// JournalAct is the next thing to do for a row.
type JournalAct string

// The acts.
const (
	LookFirst  JournalAct = "look"          // ask the provider (Find; Get if the id is known), then decide again
	SendCreate JournalAct = "create"        // send the create call, with the same key, name and call id
	TakeIDs    JournalAct = "take"          // store id and identity of what was found, as Accepted; then decide again
	FollowJob  JournalAct = "follow"        // poll the job
	Confirm    JournalAct = "present"       // save it as Present
	MarkClose  JournalAct = "close"         // save it as Closing, then decide again
	SendDelete JournalAct = "delete"        // call Destroy
	MarkGone   JournalAct = "gone"          // save it as Gone: proven
	NeverMade  JournalAct = "never_created" // save it as NeverCreated: no delete call
	TryLater   JournalAct = "later"         // change nothing
	Lost       JournalAct = "lost"          // it was there and is gone: save it as Gone, and make another with a new row
	Nothing    JournalAct = "nothing"       // it is as it should be, or not ours to touch
)

// DecideMake says what a row that is to be there needs next. settle: from
// intent until a lookup that finds nothing is believed. runLive: the run that
// wants it works.
func DecideMake(row *JournalRow, l Lookup, now time.Time, settle time.Duration, runLive bool) JournalAct {
	return TryLater
}

// DecideUnmake says what a row that is not to be there needs next.
func DecideUnmake(row *JournalRow, l Lookup, now time.Time, settle time.Duration) JournalAct {
	return TryLater
}

// Ours is the proof without which nothing is deleted: its id came from our own
// answer and the identity is the same still; or it carries the tags of this
// installation and of a cluster that this database knows, and a name of ours.
// row and known may be nil. A given thing is never ours.
func Ours(row *JournalRow, r Resource, installation string, known *Cluster) bool { return false }
