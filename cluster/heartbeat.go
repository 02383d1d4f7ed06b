package cluster

import (
	"encoding/json"
	"time"
)

// Heartbeat is the report that a node sends to the server.
type Heartbeat struct {
	Cluster  string          `json:"cluster"`
	Node     string          `json:"node"` // its name
	Identity string          `json:"identity"`
	Role     Role            `json:"role"`
	Version  string          `json:"version,omitempty"`
	Address  string          `json:"address,omitempty"`
	Ready    bool            `json:"ready"`
	Reason   string          `json:"reason,omitempty"`   // why it is not ready
	Endpoint string          `json:"endpoint,omitempty"` // control node
	CACert   string          `json:"caCert,omitempty"`   // control node, PEM
	Config   string          `json:"config,omitempty"`   // control node
	Joined   []string        `json:"joined,omitempty"`   // control node: names of the ready nodes that have joined
	Extra    json.RawMessage `json:"extra,omitempty"`
}

// HeartbeatAnswer is the answer of the server to a heartbeat.
type HeartbeatAnswer struct {
	Credential string        `json:"credential,omitempty"` // sent once: authenticates the next heartbeats
	Every      time.Duration `json:"every"`                // time between heartbeats, in nanoseconds
	Drain      bool          `json:"drain,omitempty"`      // the node will be removed or stopped
	Control    string        `json:"control,omitempty"`    // URL of the control node, for workers
	CAHash     string        `json:"caHash,omitempty"`     // hex SHA-256 of the control node's CA, which workers pin
	JoinToken  string        `json:"joinToken,omitempty"`  // control node: hex SHA-256 of the join token of workers; empty: no token is valid
	Removed    []string      `json:"removed,omitempty"`    // control node: nodes to forget
	// control node: name of each worker -> hex SHA-256 of its credential. A worker
	// whose join token is used up joins with that hash, for example after its
	// control node was replaced.
	Members map[string]string `json:"members,omitempty"`
	// control node without a CA: the CA of the cluster, PEM, which all its control
	// nodes share. Empty: the node creates its own.
	CACert string `json:"caCert,omitempty"`
	CAKey  string `json:"caKey,omitempty"`
	// control node: upgrade in place to this version, keep all state, and report
	// the new version in the next heartbeats. The server repeats it until the node
	// does so.
	Upgrade *NodeUpgrade `json:"upgrade,omitempty"`
}

// NodeUpgrade is the target of an upgrade in place.
type NodeUpgrade struct {
	Version  string `json:"version"`            // x.y.z
	Template string `json:"template,omitempty"` // id of the template for new nodes
}
