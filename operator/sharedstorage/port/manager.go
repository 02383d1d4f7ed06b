package port

import (
	"context"
	"time"
)

// Manager is the cluster manager: it watches the writer and fails over.
type Manager interface {
	// Ensure makes the manager be there with this membership and wish for HA, and
	// gives what it sees. One that is there takes over durability and version, and
	// leaves the node it is to stand away from if there is another; what it was
	// told by Add, Remove and SetHA stays. MANAGER_UNREACHABLE.
	Ensure(ctx context.Context, c Ref, want ManagerSpec) (Topology, error)
	// Add makes an instance a member, or changes its entry. The manager finds a
	// member at the address of its entry only, so one that has moved is told anew.
	Add(ctx context.Context, c Ref, m Member) error
	// Remove takes an instance out. One that is no member is no error.
	Remove(ctx context.Context, c Ref, name string) error
	// SetHA turns failover on, or off until a time at which the manager turns it
	// on again by itself; off with a zero time: until it is turned on.
	SetHA(ctx context.Context, c Ref, on bool, until time.Time) error
	// Topology gives what the manager sees.
	Topology(ctx context.Context, c Ref) (Topology, error)
}

// ManagerSpec is the wanted manager. Present false: it is to be stopped and removed.
type ManagerSpec struct {
	Present    bool     `json:"present"`
	HA         bool     `json:"ha"`                   // what the spec asks for
	Durability string   `json:"durability,omitempty"` // strict, available
	Version    string   `json:"version,omitempty"`
	Image      string   `json:"image,omitempty"`
	Members    []Member `json:"members,omitempty"`  // when it is made; later Add and Remove
	AwayFrom   string   `json:"awayFrom,omitempty"` // node of the writer: the manager is to stand elsewhere
}

// Member is an instance the manager knows.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Node    string `json:"node,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int32  `json:"port,omitempty"`
	Routed  bool   `json:"routed"` // clients are sent there
}

// Topology is what the manager sees.
type Topology struct {
	Present bool      `json:"present"` // false: there is no manager
	Ready   bool      `json:"ready"`
	Node    string    `json:"node,omitempty"`
	Address string    `json:"address,omitempty"`
	Version string    `json:"version,omitempty"`
	HA      bool      `json:"ha"`
	Until   time.Time `json:"until,omitzero"` // when failover that is off comes back
	Writer  string    `json:"writer,omitempty"`
	Epoch   int64     `json:"epoch,omitempty"`
	Sync    []string  `json:"sync,omitempty"` // instances of which one has each answered commit
	Members []Member  `json:"members,omitempty"`
	At      time.Time `json:"at,omitzero"` // when it looked

	Durability string `json:"durability,omitempty"` // it works with: strict, available

	Code    string `json:"code,omitempty"` // why it does not fail over: FAILOVER_UNSAFE
	Message string `json:"message,omitempty"`
}
