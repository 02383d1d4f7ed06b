package cluster

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Notices are what the duties of whichever server does them have to tell the
// people at every other one.
type Notices interface {
	// PutNotice keeps what a duty says of a provider, in place of what it said
	// before. One that says nothing removes it.
	PutNotice(ctx context.Context, n Notice) error
	// Notices gives all of them, by provider, then duty.
	Notices(ctx context.Context) ([]Notice, error)
}

// Notice is what a duty says of a provider. Provider and Duty name it.
type Notice struct {
	Provider string     `json:"provider"`
	Task     string     `json:"duty"`
	Since    time.Time  `json:"since,omitzero"` // the provider cannot be seen; zero: it can
	Code     fault.Code `json:"code,omitempty"`
	Text     string     `json:"text,omitempty"`
	Orphans  []Orphan   `json:"strays,omitempty"`
	More     int        `json:"more,omitempty"` // strays beside these
}

// Stray is a thing with the tag of this installation that nothing proves to be
// ours to delete.
type Orphan struct {
	Cluster  string    `json:"cluster,omitempty"` // uuid of its tag
	Known    string    `json:"known,omitempty"`   // name of that cluster; empty: this database does not know it
	Owner    Owner     `json:"owner,omitzero"`
	Kind     Kind      `json:"kind"`
	ID       string    `json:"id"`
	Resource string    `json:"resource"`
	Since    time.Time `json:"since,omitzero"`
}

// Silent reports a notice that says nothing.
func (n Notice) IsEmpty() bool {
	return n.Since.IsZero() && n.Code == "" && len(n.Orphans) == 0 && n.More == 0
}
