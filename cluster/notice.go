package cluster

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Notices share the results of the periodic tasks: one server runs a task, and all
// servers show its notices.
type Notices interface {
	// PutNotice replaces the notice of a task about a provider. An empty notice
	// removes it.
	PutNotice(ctx context.Context, n Notice) error
	// Notices returns all notices, ordered by provider, then task.
	Notices(ctx context.Context) ([]Notice, error)
}

// Notice is what a periodic task reports about a provider. Provider and Task
// identify it.
type Notice struct {
	Provider string     `json:"provider"`
	Task     string     `json:"task"`
	Since    time.Time  `json:"since,omitzero"` // since when the provider cannot be read; zero: it can
	Code     fault.Code `json:"code,omitempty"`
	Text     string     `json:"text,omitempty"`
	Orphans  []Orphan   `json:"orphans,omitempty"`
	More     int        `json:"more,omitempty"` // number of further orphans
}

// Orphan is a resource with the tag of this installation that nothing proves Pawl
// may delete.
type Orphan struct {
	Cluster  string    `json:"cluster,omitempty"` // uuid in its tag
	Known    string    `json:"known,omitempty"`   // name of that cluster; empty: this database does not know it
	Owner    Owner     `json:"owner,omitzero"`
	Kind     Kind      `json:"kind"`
	ID       string    `json:"id"`
	Resource string    `json:"resource"`
	Since    time.Time `json:"since,omitzero"`
}

// IsEmpty reports a notice without content.
func (n Notice) IsEmpty() bool {
	return n.Since.IsZero() && n.Code == "" && len(n.Orphans) == 0 && n.More == 0
}
