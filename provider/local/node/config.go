package node

import (
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Files in the data directory of a node. The provider writes the first two, the node the
// others.
const (
	File         = "vm.json"      // the node's configuration: Document
	UserDataFile = "user-data"    // unchanged user data
	ProcessFile  = "process.json" // the node's process
	LogFile      = "node.log"     // the node's log

	// MarkerFile is in the provider's data directory, two levels above a node's. It
	// distinguishes a removed directory from one that is temporarily away.
	MarkerFile = "provider.json"

	// LockFile is locked by the node's process: there is at most one.
	LockFile = "node.lock"

	versionFile    = "version"    // version after an upgrade; else that of the image
	credentialFile = "credential" // credential for heartbeats after the first
	leaseFile      = "lease"      // worker: credential for renewals at the control node
	caFile         = "ca.pem"     // control node: the CA of the cluster, from the server or its own
	caKeyFile      = "ca.key"
)

// Document is the part of File that a node reads; the rest belongs to the provider.
type Document struct {
	Node Config `json:"node"`
}

// Config is the configuration of a node, in addition to its user data.
type Config struct {
	Identity string       `json:"identity"` // identifies this VM
	Name     string       `json:"name"`
	Role     cluster.Role `json:"role,omitempty"`
	Version  string       `json:"version,omitempty"`  // of its image
	Health   string       `json:"health"`             // host:port of /healthz, plain HTTP
	API      string       `json:"api"`                // host:port of a control node's own API, TLS
	Endpoint string       `json:"endpoint,omitempty"` // host:port of the cluster's endpoint, which its control nodes share; empty: each control node has its own API
	Times    Times        `json:"times,omitzero"`
}

// Times of a node. Zero fields are the defaults.
type Times struct {
	Heartbeat time.Duration `json:"heartbeat,omitempty"` // between heartbeats, unless the server sets it: 10 s
	Renew     time.Duration `json:"renew,omitempty"`     // between renewals of a worker: 10 s
	Silence   time.Duration `json:"silence,omitempty"`   // after which a worker leaves the list: 30 s
	Watch     time.Duration `json:"watch,omitempty"`     // between checks that its directory exists: 1 s
	Retry     time.Duration `json:"retry,omitempty"`     // first pause after a failure; it doubles up to 15 times that: 1 s
}

func (t Times) filled() Times {
	or := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	or(&t.Heartbeat, 10*time.Second)
	or(&t.Renew, 10*time.Second)
	or(&t.Silence, 30*time.Second)
	or(&t.Watch, time.Second)
	or(&t.Retry, time.Second)
	return t
}

// pause returns the wait after a number of consecutive failures.
func (t Times) pause(tries int) time.Duration {
	d := t.Retry
	for ; tries > 1 && d < 15*t.Retry; tries-- {
		d *= 2
	}
	return min(d, 15*t.Retry)
}

// Health is the answer of GET /healthz.
type Health struct {
	Identity string       `json:"identity"`
	Cluster  string       `json:"cluster,omitempty"`
	Node     string       `json:"node"`
	Role     cluster.Role `json:"role,omitempty"`
	Version  string       `json:"version,omitempty"`
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"` // why the node is not ready
	PID      int          `json:"pid"`
}

// Member is a node as GET /nodes shows it.
type Member struct {
	Name     string       `json:"name"`
	Identity string       `json:"identity"`
	Role     cluster.Role `json:"role"`
	Version  string       `json:"version,omitempty"`
	Address  string       `json:"address,omitempty"`
	Ready    bool         `json:"ready"`
	Since    time.Time    `json:"since"` // start of the membership
	Seen     time.Time    `json:"seen"`  // newest renewal
}

// joinAnswer is the answer of POST /join.
type joinAnswer struct {
	Lease   string        `json:"lease"`           // credential for renewals, instead of the token
	Renew   time.Duration `json:"renew"`           // nanoseconds between renewals
	Silence time.Duration `json:"silence"`         // after which the membership ends
	Nodes   []Member      `json:"nodes,omitempty"` // for control nodes: all members
}
