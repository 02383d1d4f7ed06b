package port

import (
	"context"
	"encoding/json"
	"time"
)

// Manager controls the cluster manager, which watches the writer and fails over.
type Manager interface {
	// Ensure creates the cluster manager with these members and this HA setting, and returns what
	// it observes. An existing manager only changes durability, sameNode, version and Pod, and moves off the node
	// AwayFrom if there is another; what Add, Remove and SetHA have set stays. Its fault is
	// MANAGER_UNREACHABLE.
	Ensure(ctx context.Context, c Ref, want ManagerSpec) (Topology, error)
	// Add makes an instance a member, or changes its entry. The manager reaches a member only at
	// the address of its entry, so a member that has moved must be added again.
	Add(ctx context.Context, c Ref, m Member) error
	// Remove removes a member. It is not an error if the instance is no member.
	Remove(ctx context.Context, c Ref, name string) error
	// SetHA switches failover on, or off until a time at which the manager switches it on again.
	// Off with a zero time lasts until the next SetHA.
	SetHA(ctx context.Context, c Ref, on bool, until time.Time) error
	// Topology returns what the manager observes.
	Topology(ctx context.Context, c Ref) (Topology, error)
}

// ManagerWatcher is an optional interface of Manager, through which a caller hears of a change
// within seconds and without polling Topology.
type ManagerWatcher interface {
	// Await returns a digest of what the manager observes when it differs from seen, or after a
	// few seconds. An error means that the manager did not answer in time.
	Await(ctx context.Context, c Ref, seen string) (digest string, err error)
}

// ManagerSpec is the desired cluster manager. Present false: stop and remove it.
type ManagerSpec struct {
	Present    bool     `json:"present"`
	HA         bool     `json:"ha"`                   // failover as the spec of the cluster wants it
	SameNode   bool     `json:"sameNode,omitempty"`   // a reader on the writer's node may take over, if there is no other
	Durability string   `json:"durability,omitempty"` // strict or available
	Version    string   `json:"version,omitempty"`
	Image      string   `json:"image,omitempty"`
	Members    []Member `json:"members,omitempty"`  // used at creation; later Add and Remove change them
	AwayFrom   string   `json:"awayFrom,omitempty"` // node of the writer: the manager should run on another one

	Pod      json.RawMessage `json:"pod,omitempty"`      // what the spec asks of its pod; adapters without pods ignore it
	Template string          `json:"template,omitempty"` // hash of Pod
}

// Member is an instance that the cluster manager knows.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Node    string `json:"node,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int32  `json:"port,omitempty"`
	Domain  Domain `json:"domain,omitempty"`
	Routed  bool   `json:"routed"` // clients are sent to it
}

// Topology is what the cluster manager observes.
type Topology struct {
	Present bool   `json:"present"` // false: there is no manager
	Ready   bool   `json:"ready"`
	Node    string `json:"node,omitempty"`
	Address string `json:"address,omitempty"`
	Version string `json:"version,omitempty"`
	// Template is ManagerSpec.Template as in effect; empty: the adapter has no pods.
	Template string    `json:"template,omitempty"`
	HA       bool      `json:"ha"`
	Until    time.Time `json:"until,omitzero"` // end of the time for which failover is off
	Writer   string    `json:"writer,omitempty"`
	Epoch    int64     `json:"epoch,omitempty"`
	Sync     []string  `json:"sync,omitempty"` // each answered commit is on at least one of these instances
	Members  []Member  `json:"members,omitempty"`
	Stale    []string  `json:"stale,omitempty"` // readers that have not streamed for a while from a writer that writes: no client should be sent to them
	At       time.Time `json:"at,omitzero"`     // time of the observation

	Durability string `json:"durability,omitempty"` // strict or available, as in effect
	SameNode   bool   `json:"sameNode,omitempty"`   // as in effect
	TLS        bool   `json:"tls,omitempty"`        // it takes calls over TLS
	Identity   string `json:"identity,omitempty"`   // in its certificate; empty: it has none there

	Code    string `json:"code,omitempty"` // why it does not fail over: FAILOVER_UNSAFE
	Message string `json:"message,omitempty"`
}
