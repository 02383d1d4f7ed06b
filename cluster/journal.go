package cluster

import (
	"errors"
	"time"
)

// Lookup is what asking the provider for a journal row's thing has brought.
// The zero Lookup: nobody has asked.
type Lookup struct {
	Found *Resource // it is there
	Gone  bool      // the lookup worked and found nothing: ErrGone
	Open  bool      // a job of the row is under way
	Err   error     // the lookup failed: nothing is known
}

// LookupOf makes a Lookup of an answer of Provider.Find or Get.
func LookupOf(r Resource, err error) Lookup {
	switch {
	case err == nil:
		return Lookup{Found: &r}
	case errors.Is(err, ErrGone):
		return Lookup{Gone: true}
	default:
		return Lookup{Err: err}
	}
}

func (l Lookup) asked() bool { return l.Found != nil || l.Gone || l.Open || l.Err != nil }

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
	LeaveIt    JournalAct = "leave"         // save it as Given: it belongs to another resource and goes with it
	Lost       JournalAct = "lost"          // it was there and is gone: save it as Gone; another one needs a new row
	Nothing    JournalAct = "nothing"       // it is as it should be, or not ours to touch
)

// LeaveToNetwork enters a source NAT address as one that belongs to its network:
// nobody can release it, and it ends with the network.
func (r *JournalRow) LeaveToNetwork(now time.Time) {
	r.Origin, r.Phase, r.ClosingAt, r.JobID, r.LastCode, r.LastError, r.NextAt = Given, Present, time.Time{}, "", "", "", time.Time{}
	if r.PresentAt.IsZero() {
		r.PresentAt = now
	}
}

// DecideMake says what a row that is to be there needs next. settle: from
// intent until a lookup that finds nothing is believed. runLive: the run that
// wants it works.
func DecideMake(row *JournalRow, l Lookup, now time.Time, settle time.Duration, runLive bool) JournalAct {
	settled := now.Sub(row.IntentAt) >= settle
	switch {
	case !row.Phase.Open():
		return Lost
	case l.Err != nil, row.Phase == Closing, row.Phase == Leaked:
		return TryLater // one that closes is unmade first
	case row.Phase == Present && !l.asked():
		return Nothing
	case l.Open, row.JobID != "" && !l.asked():
		return FollowJob
	case !l.asked():
		return LookFirst
	case another(row, l):
		return Lost
	case l.Found != nil && row.Phase == Intent:
		return TakeIDs
	case l.Found != nil && row.Phase == Accepted:
		return Confirm
	case l.Found != nil:
		return Nothing
	case row.Phase == Present:
		return Lost
	case !settled:
		return TryLater // what was just made may not be seen yet
	case row.Phase == Accepted:
		return Lost
	case runLive:
		return SendCreate
	default:
		return NeverMade
	}
}

// DecideUnmake says what a row that is not to be there needs next. A call is
// only sent for what was looked up before: the id may be another thing's now.
func DecideUnmake(row *JournalRow, l Lookup, now time.Time, settle time.Duration) JournalAct {
	switch {
	case !row.Phase.Open(), row.Origin == Given:
		return Nothing
	case l.Err != nil:
		return TryLater
	case l.Open, row.JobID != "" && !l.asked():
		return FollowJob // a call in flight is followed to its end
	case row.ProviderID != "" && (row.Phase == Intent || row.Phase == Accepted || row.Phase == Present):
		return MarkClose
	case !l.asked():
		return LookFirst
	case another(row, l):
		return MarkGone
	case l.Found != nil && row.ProviderID == "":
		return TakeIDs
	case l.Found != nil && l.Found.SourceNAT:
		return LeaveIt // a source NAT address cannot be released: its network takes it along
	case l.Found != nil:
		return SendDelete
	case row.ProviderID != "":
		return MarkGone
	case now.Sub(row.IntentAt) < settle:
		return TryLater
	default:
		return NeverMade
	}
}

// another reports that what was found is not what the row speaks of.
func another(row *JournalRow, l Lookup) bool {
	return l.Found != nil && row.ProviderID != "" && (l.Found.ID != row.ProviderID || row.Identity != "" && l.Found.Identity != row.Identity)
}

// Ours is the proof without which nothing is deleted: its id came from our own
// answer and the identity is the same still; or it carries the tags of this
// installation and of a cluster that this database knows, and a name of ours.
// row and known may be nil. A given thing is never ours.
func Ours(row *JournalRow, r Resource, installation string, known *Cluster) bool {
	if row != nil && row.ProviderID != "" && row.ProviderID == r.ID && row.Kind == r.Kind {
		if row.Origin == Given {
			return false
		}
		if row.Identity == r.Identity {
			return true
		}
	}
	return known != nil && installation != "" && r.Tags[TagInstallation] == installation &&
		r.Tags[TagCluster] == known.UUID && known.UUID != "" && NamedByUs(known, r.Name)
}

// AddressOf is the provider's id of the address that a cluster is reached at;
// empty if its journal has none.
func AddressOf(journal []JournalRow) string {
	for i := range journal {
		if row := &journal[i]; row.Kind == Address && row.Phase.Open() && row.ProviderID != "" {
			return row.ProviderID
		}
	}
	return ""
}
