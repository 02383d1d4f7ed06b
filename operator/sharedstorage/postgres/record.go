package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// record is what an agent was told and what it must not forget. It is on disk
// before a call is answered and before an engine is changed by it.
type record struct {
	Install   *installation `json:"install,omitempty"`
	Installed string        `json:"installed,omitempty"` // key of the install that put the data there

	Run      bool              `json:"run"` // the engine is to run
	Mode     port.StopMode     `json:"mode,omitempty"`
	Upstream *Upstream         `json:"upstream,omitempty"` // whom it follows
	Rejoin   bool              `json:"rejoin,omitempty"`   // it may rewind or copy to follow
	Hold     bool              `json:"hold,omitempty"`     // it receives from nobody, until Follow or Promote
	Promote  int64             `json:"promote,omitempty"`  // epoch under which it is to become the writer
	Params   map[string]string `json:"params,omitempty"`
	Applied  bool              `json:"applied,omitempty"` // Params are from Apply, not from the configuration
	Members  Membership        `json:"members,omitzero"`

	Epoch    int64             `json:"epoch,omitempty"`    // under which it wrote last
	Fresh    bool              `json:"fresh,omitempty"`    // the data are nobody's copy, and were not opened here yet
	Ahead    bool              `json:"ahead,omitempty"`    // it was a writer since it last received: its log may be its own
	Broken   bool              `json:"broken,omitempty"`   // a rewind began and has not ended: the data are to be copied anew
	Timeline int64             `json:"timeline,omitempty"` // newest that it received or wrote
	Floors   map[string]string `json:"floors,omitempty"`   // of the settings of a follower
	Password string            `json:"password,omitempty"` // hash of the one that was set
}

type installation struct {
	Key  string    `json:"key"`
	From *Upstream `json:"from,omitempty"`
}

// Membership is what the cluster manager tells every agent.
type Membership struct {
	Version    int64    `json:"version"`
	Durability string   `json:"durability,omitempty"`
	Names      []string `json:"names,omitempty"` // all members
	Epoch      int64    `json:"epoch,omitempty"` // of the writer that Sync is for
	Sync       []string `json:"sync,omitempty"`  // strict: readers of which one has each answered commit
}

// newer reports that a membership is to replace this one.
func (m Membership) newer(than Membership) bool { return m.Version > than.Version }

// sync is the list of instances of which one must have a commit before it is
// answered; nil: none.
//
//	strict      what the manager said for this epoch, else all others: a writer that
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

// clone is a record that shares nothing that is changed in place.
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
