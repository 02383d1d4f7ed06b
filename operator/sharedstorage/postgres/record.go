package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// record is the durable state of an agent: its orders, and what it must not forget. It is written
// to disk before a call is answered and before the engine is changed.
type record struct {
	Install   *installation `json:"install,omitempty"`
	Installed string        `json:"installed,omitempty"` // key of the install that created the data

	Run      bool              `json:"run"` // the engine should run
	Mode     port.StopMode     `json:"mode,omitempty"`
	Upstream *Upstream         `json:"upstream,omitempty"` // the instance that it follows
	Rejoin   bool              `json:"rejoin,omitempty"`   // it may rewind or copy in order to follow
	Hold     bool              `json:"hold,omitempty"`     // it receives from nobody, until Follow or Promote
	Promote  int64             `json:"promote,omitempty"`  // epoch under which it should become the writer
	Params   map[string]string `json:"params,omitempty"`
	Applied  bool              `json:"applied,omitempty"` // Params are from Apply, not from the configuration
	Members  Membership        `json:"members,omitzero"`

	Epoch    int64             `json:"epoch,omitempty"`    // under which it last wrote
	Fresh    bool              `json:"fresh,omitempty"`    // the data are not a copy, and the engine has not opened them here yet
	Ahead    bool              `json:"ahead,omitempty"`    // it was a writer since it last received: its log may have diverged
	Broken   bool              `json:"broken,omitempty"`   // a rewind has begun and not ended: the data must be copied again
	Timeline int64             `json:"timeline,omitempty"` // the newest that it received or wrote
	Floors   map[string]string `json:"floors,omitempty"`   // lower limits for settings since the last start as a follower
	Password string            `json:"password,omitempty"` // hash of the password that was set

	Archive *port.Repository `json:"archive,omitempty"` // where the log is archived while this engine writes
}

type installation struct {
	Key  string    `json:"key"`
	From *Upstream `json:"from,omitempty"`

	Restore *port.Restore `json:"restore,omitempty"` // the backup to begin with; gone once it is installed, with its secrets
}

// Membership is what the cluster manager sends to every agent.
type Membership struct {
	Version    int64        `json:"version"`
	Durability string       `json:"durability,omitempty"`
	Names      []string     `json:"names,omitempty"` // all members
	Peers      []lease.Peer `json:"peers,omitempty"` // how they reach each other
	Epoch      int64        `json:"epoch,omitempty"` // epoch of the writer that Sync is for
	Sync       []string     `json:"sync,omitempty"`  // strict: readers of which one has each answered commit
}

// newer reports whether a membership replaces the other.
func (m Membership) newer(than Membership) bool { return m.Version > than.Version }

// sync returns the instances of which one must have a commit before it is answered; nil: none.
//
//	strict      the manager's list for this epoch, otherwise all others: a writer that
//	            was promoted a moment ago never answers a commit that it has alone
//	available   those that receive now
func (r record) sync(self, durability string, receiving []string) []string {
	others := slices.DeleteFunc(slices.Clone(r.Members.Names), func(name string) bool { return name == self })
	if r.Members.Durability != "" {
		durability = r.Members.Durability
	}
	switch {
	case durability == Available:
		return slices.DeleteFunc(others, func(name string) bool { return !slices.Contains(receiving, name) })
	case r.Members.Epoch == r.Epoch && r.Members.Epoch > 0:
		return slices.DeleteFunc(slices.Clone(r.Members.Sync), func(name string) bool { return name == self })
	}
	return others
}

// clone returns a deep copy of what is changed in place.
func (r record) clone() record {
	if r.Upstream != nil {
		u := *r.Upstream
		r.Upstream = &u
	}
	return r
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
