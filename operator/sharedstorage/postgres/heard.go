package postgres

import "time"

// quietFor is how long a follower that receives may not reply until it counts as gone. It replies
// every second (wal_receiver_status_interval); the engine itself drops it only after
// wal_sender_timeout.
const quietFor = 4 * time.Second

// heard is when a writer last heard of its followers.
type heard map[string]lastReply

type lastReply struct {
	at    string
	since time.Time // when this reply was first seen
}

// alive returns the followers that have replied within quietFor, by name. It is never nil.
func (h *heard) alive(replies []reply, now time.Time) []string {
	names, next := []string{}, heard{}
	for _, r := range replies {
		last, known := (*h)[r.name]
		if !known || last.at != r.at {
			last = lastReply{r.at, now}
		}
		next[r.name] = last
		if now.Sub(last.since) < quietFor {
			names = append(names, r.name)
		}
	}
	*h = next
	return uniq(names)
}
