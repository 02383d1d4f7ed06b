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

func (l Lookup) answered() bool { return l.Found != nil || l.Gone || l.Open || l.Err != nil }

// JournalAct is the next thing to do for a row.
type JournalAction string

// The acts.
const (
	LookUpFirst      JournalAction = "look"          // ask the provider (Find; Get if the id is known), then decide again
	SendCreate       JournalAction = "create"        // send the create call, with the same key, name and call id
	StoreIDs         JournalAction = "take"          // store id and identity of what was found, as Accepted; then decide again
	FollowJob        JournalAction = "follow"        // poll the job
	Confirm          JournalAction = "present"       // save it as Present
	MarkClosing      JournalAction = "close"         // save it as Closing, then decide again
	SendDelete       JournalAction = "delete"        // call Destroy
	MarkGone         JournalAction = "gone"          // save it as Gone: proven
	MarkNeverCreated JournalAction = "never_created" // save it as NeverCreated: no delete call
	TryLater         JournalAction = "later"         // change nothing
	MarkGiven        JournalAction = "leave"         // save it as Given: it belongs to another resource and goes with it
	Lost             JournalAction = "lost"          // it was there and is gone: save it as Gone; another one needs a new row
	NoAction         JournalAction = "nothing"       // it is as it should be, or not ours to touch
)

// LeaveToNetwork enters a source NAT address as one that belongs to its network:
// nobody can release it, and it ends with the network.
func (r *JournalRow) LeaveToNetwork(now time.Time) {
	r.Origin, r.Phase, r.ClosingAt, r.JobID, r.LastCode, r.LastError, r.NextAt = OriginGiven, Present, time.Time{}, "", "", "", time.Time{}
	if r.PresentAt.IsZero() {
		r.PresentAt = now
	}
}

// DecideMake says what a row that is to be there needs next. settle: from
// intent until a lookup that finds nothing is believed. runLive: the run that
// wants it works.
func DecideCreate(row *JournalRow, l Lookup, now time.Time, settle time.Duration, runLive bool) JournalAction {
	settled := now.Sub(row.IntentAt) >= settle
	switch {
	case !row.Phase.Open():
		return Lost
	case l.Err != nil, row.Phase == Closing, row.Phase == Leaked:
		return TryLater // one that closes is unmade first
	case row.Phase == Present && !l.answered():
		return NoAction
	case l.Open, row.JobID != "" && !l.answered():
		return FollowJob
	case !l.answered():
		return LookUpFirst
	case otherResource(row, l):
		return Lost
	case l.Found != nil && row.Phase == Intent:
		return StoreIDs
	case l.Found != nil && row.Phase == Accepted:
		return Confirm
	case l.Found != nil:
		return NoAction
	case row.Phase == Present:
		return Lost
	case !settled:
		return TryLater // what was just made may not be seen yet
	case row.Phase == Accepted:
		return Lost
	case runLive:
		return SendCreate
	default:
		return MarkNeverCreated
	}
}

// DecideUnmake says what a row that is not to be there needs next. A call is
// only sent for what was looked up before: the id may be another thing's now.
func DecideDelete(row *JournalRow, l Lookup, now time.Time, settle time.Duration) JournalAction {
	switch {
	case !row.Phase.Open(), row.Origin == OriginGiven:
		return NoAction
	case l.Err != nil:
		return TryLater
	case l.Open, row.JobID != "" && !l.answered():
		return FollowJob // a call in flight is followed to its end
	case row.ProviderID != "" && (row.Phase == Intent || row.Phase == Accepted || row.Phase == Present):
		return MarkClosing
	case !l.answered():
		return LookUpFirst
	case otherResource(row, l):
		return MarkGone
	case l.Found != nil && row.ProviderID == "":
		return StoreIDs
	case l.Found != nil && l.Found.SourceNAT:
		return MarkGiven // a source NAT address cannot be released: its network takes it along
	case l.Found != nil:
		return SendDelete
	case row.ProviderID != "":
		return MarkGone
	case now.Sub(row.IntentAt) < settle:
		return TryLater
	default:
		return MarkNeverCreated
	}
}

// another reports that what was found is not what the row speaks of.
func otherResource(row *JournalRow, l Lookup) bool {
	return l.Found != nil && row.ProviderID != "" && (l.Found.ID != row.ProviderID || row.Identity != "" && l.Found.Identity != row.Identity)
}

// Ours is the proof without which nothing is deleted: its id came from our own
// answer and the identity is the same still; or it carries the tags of this
// installation and of a cluster that this database knows, and a name of ours.
// row and known may be nil. A given thing is never ours.
func Ours(row *JournalRow, r Resource, installation string, known *Cluster) bool {
	if row != nil && row.ProviderID != "" && row.ProviderID == r.ID && row.Kind == r.Kind {
		if row.Origin == OriginGiven {
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
