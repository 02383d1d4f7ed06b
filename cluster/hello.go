package cluster

import (
	"encoding/json"
	"time"
)

// Hello is what a node says of itself when it calls home.
type Heartbeat struct {
	Cluster  string          `json:"cluster"`
	Node     string          `json:"node"` // its name
	Identity string          `json:"identity"`
	Role     Role            `json:"role"`
	Version  string          `json:"version,omitempty"`
	Address  string          `json:"address,omitempty"`
	Ready    bool            `json:"ready"`
	Reason   string          `json:"reason,omitempty"`   // why it is not
	Endpoint string          `json:"endpoint,omitempty"` // control node
	CACert   string          `json:"caCert,omitempty"`   // control node, PEM
	Config   string          `json:"config,omitempty"`   // control node
	Joined   []string        `json:"joined,omitempty"`   // control node: names of the ready nodes it knows
	Extra    json.RawMessage `json:"extra,omitempty"`
}

// HelloAnswer is what a node is told.
type HeartbeatAnswer struct {
	Credential string        `json:"credential,omitempty"` // once: for the hellos that follow
	Every      time.Duration `json:"every"`                // nanoseconds between hellos
	Drain      bool          `json:"drain,omitempty"`      // it is to be removed or stopped
	Control    string        `json:"control,omitempty"`    // URL of the control node, for workers
	CAHash     string        `json:"caHash,omitempty"`     // hex SHA-256 of the control node's CA, which workers pin
	JoinToken  string        `json:"joinToken,omitempty"`  // control node: hex SHA-256 of the token workers bring; empty: none is valid
	Removed    []string      `json:"removed,omitempty"`    // control node: nodes to forget
	// control node: name of each worker -> hex SHA-256 of its credential. A worker
	// whose join token is spent joins with that hash, as after its control node was replaced.
	Members map[string]string `json:"members,omitempty"`
	// control node that has no CA yet: the one of the cluster, PEM, which all its
	// control nodes share. Empty: the node makes its own.
	CACert string `json:"caCert,omitempty"`
	CAKey  string `json:"caKey,omitempty"`
	// control node: upgrade in place to this version, keep all state, and say the
	// new version in the hellos that follow. It is repeated until the node says so.
	Upgrade *NodeUpgrade `json:"upgrade,omitempty"`
}

// NodeUpgrade is what a node that is upgraded in place becomes.
type NodeUpgrade struct {
	Version  string `json:"version"`            // x.y.z
	Template string `json:"template,omitempty"` // id of the template that new nodes are made of
}
