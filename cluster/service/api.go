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

// Directory knows accounts and domains.
type Directory interface {
	// Resolve finds an account by name within a domain (id). ACCESS_REFUSED if
	// there is none.
	Resolve(ctx context.Context, account, domainID string) (cluster.Owner, error)
	// Names gives the name of an owner's account, of its domain, and whether the account may work.
	Names(ctx context.Context, o cluster.Owner) (account, domain string, enabled bool, err error)
	// Limits of an account.
	Limits(ctx context.Context, o cluster.Owner) (cluster.Limits, error)
	// Subtree gives a domain and all below it.
	Subtree(ctx context.Context, domainID string) ([]string, error)
}

// Engine is what the service needs of the engine. A *workflow.Engine is one.
type Engine interface {
	machine.Flows
	Send(ctx context.Context, id string, s workflow.Signal) error
	Store() workflow.Store
}

// Named is a configured provider.
type Named struct {
	Name     string
	Provider cluster.Provider
	// Zones whose clusters go to it; empty: all that its catalogue shows.
	Default bool
}

// Version is a version of what runs on the nodes.
type Version struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Semantic  string         `json:"semanticVersion"` // x.y.z
	Template  cluster.Entity `json:"template"`
	MinCores  int            `json:"minCores,omitempty"`
	MinMemory int            `json:"minMemory,omitempty"` // MB
	Disabled  bool           `json:"disabled,omitempty"`
}

// Options of a service. Books, Providers and Installation are required.
type Options struct {
	Records      cluster.Store
	Providers    []Named
	Directory    Directory    // nil: one account without limits
	Locks        lock.Backend // nil: one process only
	Worker       string       // name of this process in locks
	Installation string       // id of this installation, in the tags of all we make
	HomeURL      string       // where nodes call home; without the path
	HomeCA       string       // PEM that they pin; empty: plain HTTP
	Versions     []Version
	Bootstrap    string // template of user data; empty: the built-in cloud-config
	Settings     Settings
	// Probe asks an endpoint whether it answers. nil: nobody asks, and hellos must do.
	Probe   func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
	Heard   func(cluster.Event) // told of saved events, after the write
	Logger  *slog.Logger
	Metrics Metrics
	Now     func() time.Time
}

// Settings are the times and limits of the specification; zero fields are its defaults.
type Settings struct {
	SyncEvery      time.Duration // 30 s
	CollectEvery   time.Duration // 5 m
	CollectFirst   time.Duration // longest wait of the first pass for that of the synchronisation: half of CollectEvery
	GCFirst        time.Duration // 5 m, doubling to GCLongest
	GCLongest      time.Duration // 6 h
	OrphanGrace    time.Duration // 1 h
	ReportAfter    int           // 5 failed attempts
	Settle         time.Duration // 90 s from intent until a lookup that finds nothing is believed
	MaxWorkers     int           // 100
	PerCluster     int           // VM calls at once: 5
	PerProvider    int           // 100
	MaxUnavailable int           // 1
	NoForceStop    bool
	RollbackScale  bool             // on_scale_failure: rollback; default keep
	DrainBlocks    bool             // a drain that fails blocks the removal
	Recovery       cluster.Recovery // default restart
	OnFailure      cluster.OnFailure
	Tolerances     cluster.Tolerances
	Keep           cluster.Retention
	EndpointWait   time.Duration // 25 m
	JoinWait       time.Duration // 20 m
	CallTimeout    time.Duration // 60 s
	PollFirst      time.Duration // 1 s, growing to PollLongest
	PollLongest    time.Duration // 15 s
	ResyncEvery    time.Duration // 5 s between looks for unsettled clusters
}

// Metrics hears what happens. Every method may be called at once from several goroutines.
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
	Account, DomainID  string // of somebody else
	DiskGB             int    // root disk of a node; 0: the template decides
	Registry           Registry
	CIDRs              []string
	Recovery           cluster.Recovery // nil: the default
	OnFailure          cluster.OnFailure
	Provider           string // empty: that of the zone
	JobID              string // customjobid
	Command            string // as the caller named it; empty: createCluster
}

// Registry is where nodes get their images. All of it or nothing.
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
	Downtime  bool // upgrade: the endpoint may be away while the only control node is upgraded in place
	JobID     string
	Command   string
}

// PatchRequest changes settings; nil fields stay.
type PatchRequest struct {
	Revision    int64
	Size        *int
	Description *string
	Recovery    *cluster.Recovery
	OnFailure   *cluster.OnFailure
	CIDRs       *[]string
	GC          *bool // operator
}

// DryRun is what a change would do. Nothing of it is stored.
type DryRun struct {
	Steps     []DryRunStep      `json:"steps"`
	Resources []DryRunResource  `json:"resources"`
	Findings  []cluster.Finding `json:"findings"` // those with a code stand in the way, the others are remarks
}

// Err is the fault of what stands in the way of the change; nil if nothing does.
func (p *DryRun) Err() error { return refusalOf(p.Findings) }

// DryRunStep is a step that would run.
type DryRunStep struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Timeout string `json:"timeout,omitempty"`
	Tries   int    `json:"tries,omitempty"`
}

// DryRunResource is a resource that would be made, changed or deleted.
type DryRunResource struct {
	Act  string       `json:"act"` // create, delete, start, stop, adopt, replace, upgrade (in place), forget, close
	Kind cluster.Kind `json:"kind"`
	Name string       `json:"name"`
	Role cluster.Role `json:"role,omitempty"`
}

// DriftReport is desired, recorded and observed.
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

// DriftSide is one of the three.
type DriftSide struct {
	State   string      `json:"state"`
	Workers int         `json:"workers"`
	Control int         `json:"control"`
	Nodes   []DriftNode `json:"nodes,omitempty"`
}

// DriftNode is a node of a side.
type DriftNode struct {
	Name  string       `json:"name"`
	ID    string       `json:"id,omitempty"`
	Role  cluster.Role `json:"role,omitempty"`
	Power string       `json:"power,omitempty"`
	Ready string       `json:"ready,omitempty"` // true, false, unknown
}

// Leak is a resource that could not be deleted, was given up, or is nobody's.
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

// Config is how a cluster is reached.
type Config struct {
	ID, Name string
	Data     cluster.Secret
}

// Heartbeat is what a node says of itself when it calls home.
type Heartbeat = cluster.Heartbeat

// HeartbeatAnswer is what it is told.
type HeartbeatAnswer = cluster.HeartbeatAnswer
