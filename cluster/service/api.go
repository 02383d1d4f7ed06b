package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Directory reads accounts and domains.
type Directory interface {
	// Resolve finds an account by name in a domain (id). ACCESS_REFUSED if there
	// is none.
	Resolve(ctx context.Context, account, domainID string) (cluster.Owner, error)
	// Names returns the names of an owner's account and domain, and whether the
	// account is enabled.
	Names(ctx context.Context, o cluster.Owner) (account, domain string, enabled bool, err error)
	// Limits returns the limits of an account.
	Limits(ctx context.Context, o cluster.Owner) (cluster.Limits, error)
	// Subtree returns a domain and all domains below it.
	Subtree(ctx context.Context, domainID string) ([]string, error)
}

// Engine is the part of a workflow engine that the service uses. A
// *workflow.Engine implements it.
type Engine interface {
	machine.Flows
	Send(ctx context.Context, id string, s workflow.Signal) error
	Store() workflow.Store
}

// NamedProvider is a configured provider.
type NamedProvider struct {
	Name     string
	Provider cluster.Provider
	Default  bool
}

// Version is a version of the software on the nodes.
type Version struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Semantic  string         `json:"semanticVersion"` // x.y.z
	Template  cluster.Entity `json:"template"`
	MinCores  int            `json:"minCores,omitempty"`
	MinMemory int            `json:"minMemory,omitempty"` // MB
	Disabled  bool           `json:"disabled,omitempty"`
}

// Options of a service. Records, Providers and Installation are required.
type Options struct {
	Records      cluster.Store
	Providers    []NamedProvider
	Directory    Directory    // nil: one account without limits
	Locks        lock.Backend // of periodic tasks; nil: there is only this process
	Worker       string       // name of this process in locks
	Installation string       // id of this installation, in the tags of all resources
	HomeURL      string       // base URL for heartbeats of nodes, without the path
	HomeCA       string       // PEM of the CA that nodes trust; empty: plain HTTP
	Versions     []Version
	Bootstrap    string // template of user data; empty: the built-in cloud-config
	Settings     Settings
	// Probe checks that the endpoint of a cluster answers. nil: no probe, only
	// heartbeats count.
	Probe   func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
	OnEvent func(cluster.Event) // called with each saved event, after the write; nil: none
	Logger  *slog.Logger
	Metrics Metrics
	Now     func() time.Time
}

// Settings are times and limits. A zero field has the default in its comment.
type Settings struct {
	SyncEvery      time.Duration // between passes of the synchronization; 30 s
	CollectEvery   time.Duration // between passes of the collector; 5 m
	CollectFirst   time.Duration // how long the first pass of the collector waits for the first synchronization; half of CollectEvery
	GCFirst        time.Duration // pause after the first failed deletion, doubling to GCLongest; 5 m
	GCLongest      time.Duration // 6 h
	OrphanGrace    time.Duration // age from which an orphan is deleted; 1 h
	ReportAfter    int           // failed deletions until a resource is a leak; 5
	Settle         time.Duration // age of an intent from which a lookup that finds nothing is believed; 90 s
	MaxWorkers     int           // of one cluster; 100
	PerCluster     int           // concurrent VM calls of one cluster; 5
	PerProvider    int           // concurrent calls of one provider; 100
	MaxUnavailable int           // nodes that a recovery replaces at once; 1
	NoForceStop    bool
	RollbackScale  bool             // a failed scale removes its new nodes; default: they stay
	DrainBlocks    bool             // a node that does not drain in time is not removed
	Recovery       cluster.Recovery // default: restart
	OnFailure      cluster.OnFailure
	Tolerances     cluster.Tolerances
	Retention      cluster.Retention
	EndpointWait   time.Duration // 25 m
	JoinWait       time.Duration // 20 m
	CallTimeout    time.Duration // of one call to a provider; 60 s
	PollFirst      time.Duration // first pause between polls of a provider, growing to PollLongest; 1 s
	PollLongest    time.Duration // 15 s
	ResyncEvery    time.Duration // between queries for unsettled clusters; 5 s
}

// Metrics receives measurements. Its methods must be safe for concurrent use.
type Metrics interface {
	Operation(kind, outcome string, took time.Duration)
	ProviderCall(provider, call, outcome string, took time.Duration)
	SyncPass(provider string, took time.Duration, clusters int)
	Collected(outcome string)
}

// CreateRequest asks for a cluster.
type CreateRequest struct {
	Name, Description  string
	Zone, Offering     string // ids or names
	Template, Network  string
	KeyPair, Version   string
	Size, ControlNodes int    // ControlNodes 0: 1
	Account, DomainID  string // of another owner; empty: the caller
	DiskGB             int    // root disk of a node; 0: the template decides
	Registry           Registry
	CIDRs              []string
	Recovery           cluster.Recovery // nil: Settings.Recovery
	OnFailure          cluster.OnFailure
	Provider           string // name; empty: the provider of the zone
	JobID              string // customjobid
	Command            string // name of the command that the caller used; empty: createCluster
}

// Registry is the image registry of the nodes. Either all fields are set or none.
type Registry struct {
	Username string
	Password cluster.Secret
	URL      string
	Email    string
}

// ChangeRequest asks for a change. Kind is one of start, stop, scale, upgrade, recover, delete.
type ChangeRequest struct {
	Kind      cluster.RequestKind
	Revision  int64 // compare-and-set; 0: any
	Forced    bool
	Size      int      // scale; 0: not given
	NodeIDs   []string // scale: provider ids or names of workers to remove
	Autoscale *cluster.Autoscale
	Version   string
	Surge     int
	Recovery  cluster.Recovery // recover; nil: restart,replace
	Consent   bool
	Downtime  bool // upgrade: the endpoint may be unavailable while the only control node is upgraded in place
	JobID     string
	Command   string
}

// PatchRequest changes settings. A nil field does not change.
type PatchRequest struct {
	Revision    int64
	Size        *int
	Description *string
	Recovery    *cluster.Recovery
	OnFailure   *cluster.OnFailure
	CIDRs       *[]string
	GC          *bool // operator
}

// DryRun describes the effect of a change. Nothing is stored.
type DryRun struct {
	Steps     []DryRunStep      `json:"steps"`
	Resources []DryRunResource  `json:"resources"`
	Findings  []cluster.Finding `json:"findings"` // a finding with a code prevents the change, one without is a remark
}

// Err returns the fault of the first finding that prevents the change; nil if
// there is none.
func (p *DryRun) Err() error { return refusalOf(p.Findings) }

// DryRunStep is a step that would run.
type DryRunStep struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Timeout string `json:"timeout,omitempty"`
	Tries   int    `json:"tries,omitempty"`
}

// DryRunResource is a resource that would be created, changed or deleted.
type DryRunResource struct {
	Act  string       `json:"act"` // create, delete, start, stop, adopt, replace, upgrade (in place), forget, close
	Kind cluster.Kind `json:"kind"`
	Name string       `json:"name"`
	Role cluster.Role `json:"role,omitempty"`
}

// DriftReport compares the desired, recorded and observed state of a cluster.
type DriftReport struct {
	Cluster  string            `json:"cluster"`
	State    machine.State     `json:"state"`
	Desired  DriftSide         `json:"desired"`
	Recorded DriftSide         `json:"recorded"`
	Observed DriftSide         `json:"observed"`
	At       time.Time         `json:"at"`
	Findings []cluster.Finding `json:"findings"`
	Policy   cluster.Recovery  `json:"policy"`
	NextTry  time.Time         `json:"nextTry,omitzero"`
}

// DriftSide is the desired, recorded or observed state.
type DriftSide struct {
	State   string      `json:"state"`
	Workers int         `json:"workers"`
	Control int         `json:"control"`
	Nodes   []DriftNode `json:"nodes,omitempty"`
}

// DriftNode is a node in a DriftSide.
type DriftNode struct {
	Name  string       `json:"name"`
	ID    string       `json:"id,omitempty"`
	Role  cluster.Role `json:"role,omitempty"`
	Power string       `json:"power,omitempty"`
	Ready string       `json:"ready,omitempty"` // true, false, unknown
}

// Leak is a resource that could not be deleted, was forgotten, or is an orphan.
type Leak struct {
	Cluster  string        `json:"cluster,omitempty"`
	Name     string        `json:"clusterName,omitempty"`
	Owner    cluster.Owner `json:"-"`
	Account  string        `json:"accountId,omitempty"`
	Domain   string        `json:"domainId,omitempty"`
	Provider string        `json:"provider"`
	Kind     cluster.Kind  `json:"kind"`
	ID       string        `json:"id,omitempty"`
	Resource string        `json:"resource"`
	Since    time.Time     `json:"since"`
	Attempts int           `json:"attempts"`
	Code     string        `json:"code,omitempty"`
	Text     string        `json:"text,omitempty"`
	Remedy   string        `json:"remedy,omitempty"`
	Phase    string        `json:"phase"`
}

// Config is the client configuration of a cluster.
type Config struct {
	ID, Name string
	Data     cluster.Secret
}

// Heartbeat is the report that a node sends about itself.
type Heartbeat = cluster.Heartbeat

// HeartbeatAnswer is the answer to a heartbeat.
type HeartbeatAnswer = cluster.HeartbeatAnswer
