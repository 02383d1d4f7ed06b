package failsafe

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unknown is a member that confirms nothing: whoever must ask it cannot go on.
const Unknown = "-"

// Identity returns the identity of an instance on a node; empty if one of them is not known.
func Identity(instance, node string) string {
	if instance == "" || node == "" {
		return ""
	}
	return instance + "@" + node
}

// Recorded is what a writer records with its lease, so that others know how it may go on.
type Recorded struct {
	Members []string      `json:"members"`      // identities of all whom the writer asks, and its own
	For     time.Duration `json:"for,omitzero"` // how long it goes on at most without a renewal; 0: it stops at the end of its lease
}

// Names reports whether the record names an instance. nil is the record of a writer that does not
// know its identity and does not go on.
func (r *Recorded) Names(identity string) bool {
	return r != nil && identity != "" && slices.Contains(r.Members, identity)
}

// Restored returns the record of a lease whose record was deleted.
func Restored(limit time.Duration) *Recorded {
	return &Recorded{Members: []string{Unknown}, For: limit}
}

// Owns reports whether an instance may take the lease of a holder of its own name: it is the same
// one, or it holds the lease and its record was restored.
func (r *Recorded) Owns(identity string, holds bool) bool {
	return r == nil || r.Names(identity) || holds && r.Names(Unknown)
}

// Wait returns how long an instance waits beyond the end of the lease before it takes it.
func (r *Recorded) Wait(identity string) time.Duration {
	if r == nil || r.Names(identity) {
		return 0
	}
	return r.For
}

// Holder is what a writer knows of its own lease. Its methods are called under one lock.
type Holder struct {
	members  []string      // whom it must ask, and itself
	renewed  time.Duration // since boot: when it asked for the last renewal that succeeded
	attempts int           // under way
	mixed    bool          // some of them ran at the same time: nobody knows which was written last
}

// Begin begins an attempt to take or renew the lease. Until one has succeeded that ran alone, all
// that the writer has attempted to record may be in the record. holds means that the writer has the
// lease.
func (h *Holder) Begin(holds bool, attempt *Recorded) {
	switch {
	case !holds && h.attempts == 0:
		h.members = nil
	case len(h.members) == 0: // an earlier agent took the lease
		h.members = []string{Unknown}
	}
	h.attempts++
	h.mixed = h.mixed || h.attempts > 1
	h.members = slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.members, attempt.names()))))
}

// End ends an attempt that began at a time since boot.
func (h *Holder) End(began time.Duration, attempt *Recorded, ok bool) {
	h.attempts--
	if ok {
		h.renewed = max(h.renewed, began)
	}
	if ok && !h.mixed {
		h.members = attempt.names()
	}
	h.mixed = h.mixed && h.attempts > 0
}

// Members returns whom the writer must ask, and itself.
func (h *Holder) Members() []string { return slices.Clone(h.members) }

// Renewed returns when the writer asked for the last renewal that succeeded.
func (h *Holder) Renewed() time.Duration { return h.renewed }

// names returns the members; of a record that makes nobody wait, one that confirms nothing.
func (r *Recorded) names() []string {
	if r == nil || r.For <= 0 {
		return []string{Unknown}
	}
	return r.Members
}

// Question asks a member to confirm that a writer may go on.
type Question struct {
	Member string        `json:"member"` // identity of the one who is asked
	Writer string        `json:"writer"` // name of the instance that asks
	Epoch  int64         `json:"epoch"`
	For    time.Duration `json:"for"` // how long the promise lasts
}

// Answer is the answer of a member.
type Answer struct {
	Confirmed bool   `json:"confirmed"`
	Why       string `json:"why,omitempty"` // why not
}

// State is what a member knows when it is asked.
type State struct {
	Identity string
	Writes   bool  // it holds a lease
	Epoch    int64 // the newest epoch it has heard of: of its own writing, an order to become the writer, the membership
	Held     bool  // a failover has made it receive from nobody
}

// Promise is what a member has promised. Its methods are called under one lock.
type Promise struct {
	until  time.Duration // since boot
	taking int           // attempts to take a lease that are under way
}

// Give answers a question, and promises what it confirms.
func (p *Promise) Give(q Question, s State, now time.Duration) Answer {
	no := func(format string, args ...any) Answer { return Answer{Why: fmt.Sprintf(format, args...)} }
	switch {
	case q.Member != s.Identity || q.Member == "":
		return no("it is %s", s.Identity)
	case s.Writes:
		return no("it holds a lease itself")
	case p.taking > 0:
		return no("it is about to become the writer")
	case s.Epoch > q.Epoch:
		return no("it knows of epoch %d", s.Epoch)
	case s.Held:
		return no("a failover is under way")
	}
	p.until = max(p.until, now+q.For)
	return Answer{Confirmed: true}
}

// Take begins an attempt to take a lease. While it returns a wait, none has begun. Otherwise the
// caller ends it with Taken, after it holds the lease or has failed.
func (p *Promise) Take(now time.Duration) (wait time.Duration) {
	if now < p.until {
		return p.until - now
	}
	p.taking++
	return 0
}

// Taken ends an attempt.
func (p *Promise) Taken() { p.taking-- }

// Round is one round of questions of a writer. All times are since boot.
type Round struct {
	Self     string            // identity of the writer
	Members  []string          // whom it must ask, and itself: Holder.Members
	Answers  map[string]Answer // of those who answered
	Renewed  time.Duration     // Holder.Renewed
	For      time.Duration     // Recorded.For
	Promise  time.Duration     // Question.For: not longer than the lease
	Deadline time.Duration     // until when it may write
	Asked    time.Duration     // before the first question was sent
	Now      time.Duration
}

// Decide returns until when the writer may write. If that is not later than its Deadline, why says
// what is missing.
func (r Round) Decide() (until time.Duration, why string) {
	switch {
	case r.Self == "" || !slices.Contains(r.Members, r.Self):
		return r.Deadline, "it has not recorded whom it would ask"
	case r.Asked > r.Renewed+r.For:
		return r.Deadline, fmt.Sprintf("its last renewal is more than %s ago", r.For)
	case r.Now >= r.Deadline:
		return r.Deadline, "the answers came too late"
	}
	var missing []string
	for _, m := range r.Members {
		if m == r.Self {
			continue
		}
		a, ok := r.Answers[m]
		switch {
		case m == Unknown:
			missing = append(missing, "it does not know all whom it would have to ask")
		case !ok:
			missing = append(missing, m+" does not answer")
		case !a.Confirmed:
			missing = append(missing, m+": "+a.Why)
		}
	}
	if len(missing) > 0 {
		return r.Deadline, strings.Join(missing, "; ")
	}
	return max(r.Deadline, r.Asked+r.Promise), ""
}
