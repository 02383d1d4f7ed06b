package cluster

import (
	"context"
	"errors"
	"time"
)

// Kind is what a resource of a provider is.
type Kind string

// What a provider makes, and what it offers.
const (
	VM       Kind = "vm"
	Network  Kind = "network"
	Address  Kind = "address"
	Firewall Kind = "firewall"
	Forward  Kind = "forward"
	Balancer Kind = "balancer"
	KeyPair  Kind = "keypair"

	Zone            Kind = "zone" // Catalog only, like those below
	Offering        Kind = "offering"
	Template        Kind = "template"
	NetworkOffering Kind = "networkoffering"
)

// Tags that say whose a resource is.
const (
	TagInstallation = "pawl-installation"
	TagCluster      = "pawl-cluster" // uuid
	TagKey          = "pawl-key"     // journal key
)

// ErrGone is the only proof that a thing does not exist: every other error
// leaves it open.
var ErrGone = errors.New("cluster: the resource is gone")

// Provider is an infrastructure. All its methods are idempotent and may be
// called from several goroutines. Faults: CAPACITY_EXHAUSTED, QUOTA_EXCEEDED,
// CREDENTIALS_REFUSED, PROVIDER_UNREACHABLE, PROVIDER_THROTTLED,
// PROVIDER_REFUSED, RESOURCE_IN_USE, RULE_CONFLICT. Its exam is providertest.
type Provider interface {
	Capabilities() Capabilities
	// Check says what stands in the way of a plan: findings with the code of a
	// fault. One without a code is a remark. Nothing is made.
	Check(ctx context.Context, p Need) ([]Finding, error)
	// Catalog lists what the owner may use: Zone, Offering, Template, NetworkOffering, Network, KeyPair.
	Catalog(ctx context.Context, owner Owner, kind Kind) ([]Entry, error)
	// Create makes a resource, once for each Want.Key: a second call gives the
	// first one's thing. An answer that is lost is found again by Find.
	Create(ctx context.Context, w DesiredResource) (Call, error)
	// Act starts, stops or destroys. Starting what runs, stopping what is
	// stopped and destroying what is gone are no errors (Call.Done).
	Act(ctx context.Context, ref Ref, a Action) (Call, error)
	// Poll follows a call.
	Poll(ctx context.Context, c Call) (Progress, error)
	// Get reads one thing. ErrGone if it is proven not to exist.
	Get(ctx context.Context, ref Ref) (Resource, error)
	// Find looks a Want up: by call id, then by name and tags. ErrGone if the
	// lookup worked and found nothing.
	Find(ctx context.Context, w DesiredResource) (Resource, error)
	// List gives a page of what carries our installation tag, or of what Filter names.
	List(ctx context.Context, f Filter, page Cursor) (Page, error)
}

// Capabilities are what a provider can do.
type Capabilities struct {
	Kinds           []Kind // that it makes; a kind that is not here needs no row
	CallIDs         bool   // it takes Want.CallID and knows it again
	Tags            bool
	UserData        int  // most bytes of user data, before any encoding
	DiskSize        bool // it makes a root disk of Spec.DiskGB; else Check has a finding
	SendsHeartbeats bool // its VMs say hello: readiness is known
	Logs            bool // it implements Logs
}

// Logs is implemented by providers that can show what a VM wrote.
type Logs interface {
	Logs(ctx context.Context, ref Ref, lines int) (string, error)
}

// Need is what a plan asks of a provider.
type Need struct {
	Owner    Owner
	Zone     string
	Offering string
	Template string
	Network  string // empty: one is to be made
	KeyPair  string
	DiskGB   int // of each root disk; 0: the template decides
	Nodes    int // VMs to be made
}

// Entry is something a provider offers.
type Entry struct {
	Kind     Kind
	ID, Name string
	Zone     string // that it is in; empty: all
	Disabled bool
	Cores    int // of an offering
	MemoryMB int
	Custom   bool // an offering whose size the caller would have to give
	Default  bool // the configured template or network offering

	// Of a network.
	Services      []string // Dhcp, UserData, SourceNat, Firewall, PortForwarding, Lb …
	System        bool
	InUse         string // uuid of the living cluster that uses it
	Port6443InUse bool   // a rule on 6443 exists
	State         string
}

// Spec is what a resource is to be. Only the fields of its kind count.
type Spec struct {
	Zone     string `json:"zone,omitempty"`
	Offering string `json:"offering,omitempty"` // of a VM, or of a network
	Template string `json:"template,omitempty"`
	Network  string `json:"network,omitempty"` // id
	KeyPair  string `json:"keyPair,omitempty"`
	Role     Role   `json:"role,omitempty"`
	DiskGB   int    `json:"diskGB,omitempty"` // root disk of a VM; 0: the template decides

	Address     string   `json:"address,omitempty"` // id, of rules
	Protocol    string   `json:"protocol,omitempty"`
	Port        int      `json:"port,omitempty"`
	PrivatePort int      `json:"privatePort,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	VM          string   `json:"vm,omitempty"`  // id, of Forward
	VMs         []string `json:"vms,omitempty"` // ids, of Balancer

	UserData []byte `json:"-"` // secret, and never kept
}

// Want is a resource that is to be there.
type DesiredResource struct {
	Kind   Kind
	Name   string
	Key    string // the journal row's: one thing a key
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

// Action is what is done to a resource.
type Action string

// The actions.
const (
	Start     Action = "start"
	Stop      Action = "stop"
	ForceStop Action = "force-stop"
	Destroy   Action = "destroy" // and expunge: nothing is left
)

// Call is what a provider was asked and has not said the end of.
type Call struct {
	Job  string // of the provider; empty: none, the answer was the end
	Ref  Ref    // as far as it is known
	Done bool
}

// Progress is how far a call is.
type Progress struct {
	Done      bool
	Err       error         // why it ended without success
	Ref       Ref           // what it has made, once known
	PollAfter time.Duration // when to ask again; 0: the caller decides
}

// Power is the state of a VM; other kinds are Up.
type Power string

// The powers.
const (
	PoweringOn   Power = "going up"
	PoweredOn    Power = "up"
	PoweringOff  Power = "going down"
	PoweredOff   Power = "down"
	PowerBroken  Power = "broken"
	PowerGone    Power = "gone"
	UnknownPower Power = "unknown"
)

// Resource is a thing as a provider shows it.
type Resource struct {
	Kind     Kind
	ID, Name string
	Zone     string
	Identity string // does not change as long as it is the same thing
	Tags     map[string]string
	Power    Power
	State    string // the provider's own word
	Address  string // of a VM or an address: IP
	Created  time.Time
	// SourceNAT marks an address that belongs to its network: it cannot be
	// released, and goes with the network.
	SourceNAT bool
	UserData  []byte // only from Get, where the provider shows it
	Spec      Spec   // as far as the provider shows it
}

// Ref is the name to come back to the thing.
func (r Resource) Ref() Ref {
	return Ref{Kind: r.Kind, ID: r.ID, Name: r.Name, Zone: r.Zone, Identity: r.Identity}
}

// Filter selects resources of a list. The zero Filter is all that carries our
// installation tag.
type Filter struct {
	Kind    Kind   // default VM
	Zone    string // empty: all
	Cluster string // uuid of its tag; empty: all
	Network string // everything in this network, foreign things too
	Foreign bool   // all that the provider lets us see, without a tag of ours too; with Cluster or Network it says nothing
	Size    int    // of a page; default 500
}

// Cursor is a place in a list; the empty one is its beginning.
type Cursor string

// Page is a part of a list. Next is empty at its end.
type Page struct {
	Items []Resource
	Next  Cursor
}
