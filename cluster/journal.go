package cluster

import (
	"errors"
	"time"
)

// Lookup is the result of asking the provider about the resource of a journal row.
// The zero Lookup: nobody has asked yet.
type Lookup struct {
	Found *Resource // the resource exists
	Gone  bool      // the lookup worked and found nothing: ErrGone
	Open  bool      // a job of the row is still open
	Err   error     // the lookup failed: nothing is known
}

// LookupOf turns the result of Provider.Find or Get into a Lookup.
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

// JournalAction is the next action for a row.
type JournalAction string

// The actions.
const (
	LookUpFirst      JournalAction = "look"          // ask the provider (Find; Get if the id is known), then decide again
	SendCreate       JournalAction = "create"        // send the create call, with the same key, name and call id
	StoreIDs         JournalAction = "take"          // store id and identity of the found resource, as Accepted; then decide again
	FollowJob        JournalAction = "follow"        // poll the job
	Confirm          JournalAction = "present"       // save it as Present
	MarkClosing      JournalAction = "close"         // save it as Closing, then decide again
	SendDelete       JournalAction = "delete"        // call Destroy
	MarkGone         JournalAction = "gone"          // save it as Gone: proven
	MarkNeverCreated JournalAction = "never_created" // save it as NeverCreated, without a delete call
	TryLater         JournalAction = "later"         // change nothing
	MarkGiven        JournalAction = "leave"         // save it as OriginGiven: it belongs to another resource and is deleted with it
	Lost             JournalAction = "lost"          // the resource existed and is gone: save it as Gone; a new resource needs a new row
	NoAction         JournalAction = "nothing"       // it is as it should be, or Pawl must not touch it
)

// LeaveToNetwork records that a source NAT address belongs to its network: nobody
// can release it, and it ends with the network.
func (r *JournalRow) LeaveToNetwork(now time.Time) {
	r.Origin, r.Phase, r.ClosingAt, r.JobID, r.LastCode, r.LastError, r.NextAt = OriginGiven, Present, time.Time{}, "", "", "", time.Time{}
	if r.PresentAt.IsZero() {
		r.PresentAt = now
	}
}

// DecideCreate returns the next action for a row whose resource should exist.
// settle is the time from the intent until a lookup that finds nothing counts.
// runLive: the run that creates the resource is active.
func DecideCreate(row *JournalRow, l Lookup, now time.Time, settle time.Duration, runLive bool) JournalAction {
	settled := now.Sub(row.IntentAt) >= settle
	switch {
	case !row.Phase.Open():
		return Lost
	case l.Err != nil, row.Phase == Closing, row.Phase == Leaked:
		return TryLater // a closing row is deleted first
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
		return TryLater // a new resource may not be visible yet
	case row.Phase == Accepted:
		return Lost
	case runLive:
		return SendCreate
	default:
		return MarkNeverCreated
	}
}

// DecideDelete returns the next action for a row whose resource should not exist.
// It sends a delete call only for a resource that was looked up before: the id may
// belong to another resource now.
func DecideDelete(row *JournalRow, l Lookup, now time.Time, settle time.Duration) JournalAction {
	switch {
	case !row.Phase.Open(), row.Origin == OriginGiven:
		return NoAction
	case l.Err != nil:
		return TryLater
	case l.Open, row.JobID != "" && !l.answered():
		return FollowJob // an open call is polled until it ends
	case row.ProviderID != "" && (row.Phase == Intent || row.Phase == Accepted || row.Phase == Present):
		return MarkClosing
	case !l.answered():
		return LookUpFirst
	case otherResource(row, l):
		return MarkGone
	case l.Found != nil && row.ProviderID == "":
		return StoreIDs
	case l.Found != nil && l.Found.SourceNAT:
		return MarkGiven // a source NAT address cannot be released; it is deleted with its network
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

// otherResource reports that the found resource is not that of the row.
func otherResource(row *JournalRow, l Lookup) bool {
	return l.Found != nil && row.ProviderID != "" && (l.Found.ID != row.ProviderID || row.Identity != "" && l.Found.Identity != row.Identity)
}

// Ours reports the proof that every delete needs. Either the id came from an answer
// to a call of Pawl and the identity is still the same; or the resource carries the
// tags of this installation and of a cluster in this database, and a name that Pawl
// chose. row and known may be nil. A given resource never passes.
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
		r.Tags[TagCluster] == known.UUID && known.UUID != "" && namedByUs(known, r.Name)
}

// AddressOf returns the provider's id of the address of a cluster; empty if its
// journal has none.
func AddressOf(journal []JournalRow) string {
	for i := range journal {
		if row := &journal[i]; row.Kind == Address && row.Phase.Open() && row.ProviderID != "" {
			return row.ProviderID
		}
	}
	return ""
}
