package cluster

import (
	"context"
	"errors"
	"time"
)

// Kind is the kind of a resource of a provider.
type Kind string

// The kinds that a provider creates, and those that it offers.
const (
	VM       Kind = "vm"
	Network  Kind = "network"
	Address  Kind = "address"
	Firewall Kind = "firewall"
	Forward  Kind = "forward"
	Balancer Kind = "balancer"
	KeyPair  Kind = "keypair"

	Zone            Kind = "zone" // only in Catalog, like the next ones
	Offering        Kind = "offering"
	Template        Kind = "template"
	NetworkOffering Kind = "networkoffering"
)

// The tags that say which installation and cluster a resource belongs to.
const (
	TagInstallation = "pawl-installation"
	TagCluster      = "pawl-cluster" // uuid
	TagKey          = "pawl-key"     // journal key
)

// ErrGone is the only proof that a resource does not exist. Every other error
// leaves that open.
var ErrGone = errors.New("cluster: the resource is gone")

// Provider is an infrastructure. All its methods are idempotent and safe for
// several goroutines. Faults: CAPACITY_EXHAUSTED, QUOTA_EXCEEDED,
// CREDENTIALS_REFUSED, PROVIDER_UNREACHABLE, PROVIDER_THROTTLED, PROVIDER_REFUSED,
// RESOURCE_IN_USE, RULE_CONFLICT. Package providertest is its conformance suite.
type Provider interface {
	Capabilities() Capabilities
	// Check reports what prevents a plan: findings with the code of a fault. A
	// finding without a code is a remark. Check creates nothing.
	Check(ctx context.Context, p Need) ([]Finding, error)
	// Catalog lists what the owner may use: Zone, Offering, Template, NetworkOffering, Network, KeyPair.
	Catalog(ctx context.Context, owner Owner, kind Kind) ([]Entry, error)
	// Create creates a resource, once for each DesiredResource.Key: a second call
	// returns the resource of the first. Find finds a resource whose answer was
	// lost.
	Create(ctx context.Context, w DesiredResource) (Call, error)
	// Act starts, stops or destroys a VM, or destroys another resource. To start a
	// running VM, to stop a stopped one and to destroy a resource that is gone are
	// no errors (Call.Done).
	Act(ctx context.Context, ref Ref, a Action) (Call, error)
	// Poll follows a call.
	Poll(ctx context.Context, c Call) (Progress, error)
	// Get reads one resource. ErrGone if it is proven not to exist.
	Get(ctx context.Context, ref Ref) (Resource, error)
	// Find looks a resource up by call id, then by name and tags. ErrGone if the
	// lookup worked and found nothing.
	Find(ctx context.Context, w DesiredResource) (Resource, error)
	// List returns a page of the resources with the installation tag of Pawl, or of
	// those that Filter selects.
	List(ctx context.Context, f Filter, page Cursor) (Page, error)
}

// Capabilities are what a provider can do.
type Capabilities struct {
	Kinds           []Kind // kinds that it creates; other kinds need no journal row
	CallIDs         bool   // it accepts DesiredResource.CallID and finds resources by it
	Tags            bool
	UserData        int  // maximum of user data in bytes, before any encoding
	DiskSize        bool // it can create a root disk of Spec.DiskGB; else Check returns a finding
	SendsHeartbeats bool // its VMs send heartbeats: readiness is known
	Logs            bool // it implements Logs
}

// Logs is implemented by providers that can show the console output of a VM.
type Logs interface {
	Logs(ctx context.Context, ref Ref, lines int) (string, error)
}

// Need is what a plan needs from a provider.
type Need struct {
	Owner    Owner
	Zone     string
	Offering string
	Template string
	Network  string // empty: one will be created
	KeyPair  string
	DiskGB   int // of each root disk; 0: that of the template
	Nodes    int // VMs to create
}

// Entry is an object that a provider offers.
type Entry struct {
	Kind     Kind
	ID, Name string
	Zone     string // zone of the entry; empty: all
	Disabled bool
	Cores    int // of an offering
	MemoryMB int
	Custom   bool // an offering without a fixed size
	Default  bool // the configured template or network offering

	// Services a network:
	Services      []string // Dhcp, UserData, SourceNat, Firewall, PortForwarding, Lb …
	System        bool
	InUse         string // uuid of the cluster that uses it
	Port6443InUse bool   // a rule on port 6443 exists
	State         string
}

// Spec is the specification of a resource. Only the fields of its kind count.
type Spec struct {
	Zone     string `json:"zone,omitempty"`
	Offering string `json:"offering,omitempty"` // of a VM, or of a network
	Template string `json:"template,omitempty"`
	Network  string `json:"network,omitempty"` // id
	KeyPair  string `json:"keyPair,omitempty"`
	Role     Role   `json:"role,omitempty"`
	DiskGB   int    `json:"diskGB,omitempty"` // root disk of a VM; 0: that of the template

	Address     string   `json:"address,omitempty"` // id, of rules
	Protocol    string   `json:"protocol,omitempty"`
	Port        int      `json:"port,omitempty"`
	PrivatePort int      `json:"privatePort,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	VM          string   `json:"vm,omitempty"`  // id, of Forward
	VMs         []string `json:"vms,omitempty"` // ids, of Balancer

	UserData []byte `json:"-"` // secret, and never stored
}

// DesiredResource is a resource that should exist.
type DesiredResource struct {
	Kind   Kind
	Name   string
	Key    string // key of the journal row: one resource per key
	CallID string
	Tags   map[string]string
	Owner  Owner
	Spec   Spec
}

// Ref names a resource that was seen before.
type Ref struct {
	Kind     Kind
	ID       string
	Name     string
	Zone     string
	Identity string
}

// Action is an action on a resource.
type Action string

// The actions.
const (
	Start     Action = "start"
	Stop      Action = "stop"
	ForceStop Action = "force-stop"
	Destroy   Action = "destroy" // and expunge: nothing remains
)

// Call is a call to a provider that may still be open.
type Call struct {
	Job  string // id of the job at the provider; empty: the call is complete
	Ref  Ref    // as far as it is known
	Done bool
}

// Progress is the state of a call.
type Progress struct {
	Done      bool
	Err       error         // why it failed
	Ref       Ref           // the created resource, once known
	PollAfter time.Duration // pause before the next poll; 0: the caller decides
}

// Power is the power state of a VM; other kinds are PoweredOn.
type Power string

// The power states.
const (
	PoweringOn   Power = "going up"
	PoweredOn    Power = "up"
	PoweringOff  Power = "going down"
	PoweredOff   Power = "down"
	PowerBroken  Power = "broken"
	PowerGone    Power = "gone"
	UnknownPower Power = "unknown"
)

// Resource is a resource as a provider shows it.
type Resource struct {
	Kind     Kind
	ID, Name string
	Zone     string
	Identity string // does not change while it is the same resource
	Tags     map[string]string
	Power    Power
	State    string // the word of the provider
	Address  string // of a VM or an address: IP
	Created  time.Time
	// SourceNAT marks an address that belongs to its network: it cannot be released
	// and is deleted with the network.
	SourceNAT bool
	UserData  []byte // only from Get, where the provider shows it
	Spec      Spec   // as far as the provider shows it
}

// Ref returns the reference for later calls.
func (r Resource) Ref() Ref {
	return Ref{Kind: r.Kind, ID: r.ID, Name: r.Name, Zone: r.Zone, Identity: r.Identity}
}

// Filter selects the resources of a list. The zero Filter selects all with the
// installation tag of Pawl.
type Filter struct {
	Kind    Kind   // default VM
	Zone    string // empty: all
	Cluster string // uuid of its tag; empty: all
	Network string // everything in this network, foreign resources too
	Foreign bool   // everything that the provider shows, also without a tag of Pawl; ignored with Cluster or Network
	Size    int    // of a page; default 500
}

// Cursor is a position in a list; the empty one is its beginning.
type Cursor string

// Page is a part of a list. Next is empty at its end.
type Page struct {
	Items []Resource
	Next  Cursor
}
