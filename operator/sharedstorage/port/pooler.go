package port

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Pooler controls the connection poolers of a cluster, through which clients reach the writer
// wherever it is. Ports may have none.
type Pooler interface {
	// Ensure makes the poolers as wanted, and sends clients to want.Writer; empty: where they send
	// them now. It does not end a pause. Without instances it removes them.
	Ensure(ctx context.Context, c Ref, want PoolerSpec) error
	// Pause lets clients wait until Resume. It returns when no transaction runs through the poolers
	// any more, or after settle, and it does not wait longer for a pooler that does not answer. A
	// pooler ends a pause by itself after limit.
	Pause(ctx context.Context, c Ref, settle, limit time.Duration) error
	// Resume sends clients to the instance writer, and ends the pause once it accepts writes.
	Resume(ctx context.Context, c Ref, writer string) error
	// Observe returns the poolers of a cluster, sorted by name.
	Observe(ctx context.Context, c Ref) ([]PoolerStatus, error)
}

// PoolerSpec is the desired state of the poolers of a cluster.
type PoolerSpec struct {
	Instances int            `json:"instances"`
	Image     string         `json:"image,omitempty"` // has pgbouncer in its PATH; empty: the default of the adapter
	Writer    string         `json:"writer,omitempty"`
	Settings  PoolerSettings `json:"settings"`
}

// PoolerSettings are the settings of a pooler. A change takes no restart.
type PoolerSettings struct {
	Mode       string            `json:"mode,omitempty"`       // transaction (default) or session
	MaxClients int               `json:"maxClients,omitempty"` // connections of clients; default 100
	PoolSize   int               `json:"poolSize,omitempty"`   // connections to the writer by database and user; default 20
	Parameters map[string]string `json:"parameters,omitempty"` // further parameters of pgbouncer.ini
}

// PoolerStatus is the observed state of one pooler.
type PoolerStatus struct {
	Name     string `json:"name"`
	Node     string `json:"node,omitempty"`
	Address  string `json:"address,omitempty"`
	Port     int32  `json:"port,omitempty"`
	Ready    bool   `json:"ready"` // it accepts clients
	Paused   bool   `json:"paused,omitempty"`
	Writer   string `json:"writer,omitempty"`   // host:port to which it sends clients
	Settings string `json:"settings,omitempty"` // hash of the settings in effect
	Clients  int    `json:"clients"`            // connections of clients
	Waiting  int    `json:"waiting"`            // clients that wait for a connection to the writer
	Servers  int    `json:"servers"`            // connections to the writer
	TLS      bool   `json:"tls,omitempty"`      // it takes calls over TLS
	Identity string `json:"identity,omitempty"` // in its certificate; empty: it has none there
	Message  string `json:"message,omitempty"`
}

// PoolerFailed is the fault of a pooler that does not do what it is ordered. A switch does not wait for it.
var PoolerFailed = declare("POOLER_FAILED", fault.Transient, "a connection pooler does not answer",
	"Check its process or pod and its log: pgbouncer must be installed there. The operator tries again; a switch goes on without it, and its clients reconnect.")
