package node

import (
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Files in the data directory of a node. The provider writes the first two,
// the node the others.
const (
	File         = "vm.json"      // what it is: File, below
	UserDataFile = "user-data"    // as it was given, byte for byte
	ProcessFile  = "process.json" // which process it is now
	LogFile      = "node.log"     // what it writes

	// MarkerFile stands in the provider's data directory, two above a node's: it
	// tells a directory that was removed from one that is out of sight.
	MarkerFile = "provider.json"

	// LockFile is held by the process that is the node: there is one at most.
	LockFile = "node.lock"

	versionFile    = "version"    // what it has upgraded itself to; else its image's
	credentialFile = "credential" // what pays for hellos after the first
	leaseFile      = "lease"      // worker: what pays for renewals at the control node
	caFile         = "ca.pem"     // control node: the CA of the cluster, which home brings; else one of its own
	caKeyFile      = "ca.key"
)

// Document is the part of File that a node reads; the rest is the provider's.
type Document struct {
	Node Config `json:"node"`
}

// Config is what a node is, beside its user data.
type Config struct {
	Identity string       `json:"identity"` // proves that it is the same thing
	Name     string       `json:"name"`
	Role     cluster.Role `json:"role,omitempty"`
	Version  string       `json:"version,omitempty"`  // of its image
	Health   string       `json:"health"`             // host:port of /healthz, plain HTTP
	API      string       `json:"api"`                // host:port of a control node's own API, TLS
	Endpoint string       `json:"endpoint,omitempty"` // host:port of the cluster's endpoint, which its control nodes share; empty: each has its own API
	Times    Times        `json:"times,omitzero"`
}

// Times of a node. Zero fields are the defaults.
type Times struct {
	Heartbeat time.Duration `json:"hello,omitempty"`   // between hellos, if home does not say: 10 s
	Renew     time.Duration `json:"renew,omitempty"`   // between renewals of a worker: 10 s
	Silence   time.Duration `json:"silence,omitempty"` // after which a worker leaves the list: 30 s
	Watch     time.Duration `json:"watch,omitempty"`   // between looks whether its directory is still there: 1 s
	Retry     time.Duration `json:"retry,omitempty"`   // the first pause after a failure, doubling to 15 times: 1 s
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

// pause is how long to wait after so many failures in a row.
func (t Times) pause(tries int) time.Duration {
	d := t.Retry
	for ; tries > 1 && d < 15*t.Retry; tries-- {
		d *= 2
	}
	return min(d, 15*t.Retry)
}

// Health is what GET /healthz answers.
type Health struct {
	Identity string       `json:"identity"`
	Cluster  string       `json:"cluster,omitempty"`
	Node     string       `json:"node"`
	Role     cluster.Role `json:"role,omitempty"`
	Version  string       `json:"version,omitempty"`
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"` // why it is not
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
	Since    time.Time    `json:"since"` // it is in the list
	Seen     time.Time    `json:"seen"`  // its newest renewal
}

// joinAnswer is what POST /join answers.
type joinAnswer struct {
	Lease   string        `json:"lease"`           // brought with each renewal, instead of the token
	Renew   time.Duration `json:"renew"`           // nanoseconds between renewals
	Silence time.Duration `json:"silence"`         // after which the node is forgotten
	Nodes   []Member      `json:"nodes,omitempty"` // for control nodes: all members, so that each of them knows the list
}
