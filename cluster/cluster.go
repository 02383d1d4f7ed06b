package cluster

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// Desired is what callers change; the machine walks there.
type Desired string

// The desired states. Destroyed is final.
const (
	WantRunning   Desired = "Running"
	WantStopped   Desired = "Stopped"
	WantDestroyed Desired = "Destroyed"
)

// Limits of a cluster.
const (
	MaxWorkers     = 100
	MaxName        = 255
	MaxDescription = 4096
)

// Entity is a thing of a provider: its id, and the name it had when it was
// chosen, so that a record stays readable after the thing is gone.
type Entity struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Owner is whose a cluster is.
type Owner struct {
	AccountID string `json:"accountId"`
	DomainID  string `json:"domainId"`
}

// OnFailure is what becomes of a first start that fails half-way.
type OnFailure string

// The policies. The default is Rollback.
const (
	Rollback    OnFailure = "rollback" // CreateFailed; the delete run starts at once
	Lazy        OnFailure = "lazy"     // CreateFailed; the delete run begins at the collector's next pass
	KeepPartial OnFailure = "keep"     // Alert; what was made stays
)

// Reason is why a cluster is where it is.
type Reason struct {
	Code     fault.Code `json:"code,omitempty"`
	Text     string     `json:"text,omitempty"`
	Step     string     `json:"step,omitempty"`
	Resource string     `json:"resource,omitempty"`
}

// Cluster is a row of container_cluster.
type Cluster struct {
	ID          int64  // key of the store; 0: not stored yet
	UUID        string // public id
	Name        string
	Description string
	Owner       Owner

	Provider string // name of a configured provider
	Zone     Entity
	Offering Entity
	Template Entity
	Network  Entity // empty id until it is made
	KeyPair  string
	DiskGB   int    // root disk of a node; 0: the template decides
	Version  string // of what runs on the nodes; empty: the template decides

	Desired      Desired
	NodeCount    int // desired workers
	ControlCount int // desired control nodes; odd
	Autoscale    Autoscale
	OnFailure    OnFailure // empty: Rollback
	Recovery     Recovery  // of this cluster; nil: the default
	CIDRs        []string  // who may reach the endpoint; empty: everyone

	State      machine.State
	StateSince time.Time
	Revision   int64 // raised by each write; compare-and-set
	Position   machine.Position
	RunID      string   // of the run that works on it; empty: none
	Started    bool     // was Running at least once: a failing start is no failed create
	Request    *Request // what a caller asked for and no run has ended yet
	Reason     Reason

	Findings     []Finding // of the newest look, those that differ from a healthy cluster
	Alarm        bool      // a finding is beyond its tolerance
	SuspectSince time.Time // the first pass of the present findings
	ObservedAt   time.Time // the newest pass that changed something here
	RecoverTries int       // in a row by policy; healthy resets it
	RecoverNext  time.Time // the next try by policy; zero: none

	Endpoint, ConsoleEndpoint string
	Cores, MemoryMB           int // totals of all nodes
	Created, Removed          time.Time

	GC         bool // false: the collector leaves it alone
	GCAttempts int
	GCNext     time.Time
	Forget     bool // an operator forces it out of the books
}

// Autoscale is what an autoscaler was told. Zero: it is off.
type Autoscale struct {
	Enabled bool `json:"enabled,omitempty"`
	Min     int  `json:"min,omitempty"`
	Max     int  `json:"max,omitempty"`
}

// AskKind is what a caller asks of a cluster beyond its desired state.
type RequestKind string

// The kinds.
const (
	RequestScale   RequestKind = "scale"
	RequestUpgrade RequestKind = "upgrade"
	RequestRecover RequestKind = "recover"
	RequestStart   RequestKind = "start"
	RequestStop    RequestKind = "stop"
	RequestDelete  RequestKind = "delete"
)

// Ask is a caller's wish that waits for its transition, and then is the input
// of the run of that visit.
type Request struct {
	Kind          RequestKind `json:"kind"`
	Job           string      `json:"job"`
	Forced        bool        `json:"forced,omitempty"`   // stop, delete
	Victims       []string    `json:"victims,omitempty"`  // scale: names of worker nodes
	Version       string      `json:"version,omitempty"`  // upgrade
	Template      Entity      `json:"template,omitzero"`  // upgrade
	Surge         int         `json:"surge,omitempty"`    // upgrade; 0: 1
	Recovery      Recovery    `json:"recovery,omitempty"` // recover: for this time
	Consent       bool        `json:"consent,omitempty"`  // the last control node may be replaced
	Downtime      bool        `json:"downtime,omitempty"` // upgrade: the endpoint may be away while the only control node is upgraded in place
	PreviousCount int         `json:"before,omitempty"`   // scale: workers wanted before it
}

// Role is what a node does.
type Role string

// The roles.
const (
	Control Role = "control"
	Worker  Role = "worker"
)

// Node is one VM of a cluster: a row of container_cluster_vm_map. Rows that
// are removed stay, so that an ordinal is never used again.
type Node struct {
	ID          int64
	ClusterID   int64
	VMID        string // provider's; empty until it names the VM
	Key         string // of the journal row of its VM
	Name        string
	Role        Role
	Ordinal     int
	Version     string
	Template    Entity    // what it was made of
	Address     string    // as the provider or its hello told; may be empty
	ReadyAt     time.Time // first ready hello; zero: never
	HeartbeatAt time.Time // newest hello
	NotReady    string    // the newest hello's reason for not being ready; empty: ready or unknown
	Removed     time.Time // zero: it belongs to the cluster
}

// Phase is where a journal row is in its life.
type Phase string

// The phases. A create call is only ever sent while a row is Intent.
const (
	Intent       Phase = "intent"   // written before the call
	Accepted     Phase = "accepted" // the provider answered
	Present      Phase = "present"  // read back
	Closing      Phase = "closing"  // to be deleted
	Gone         Phase = "gone"     // proven
	NeverCreated Phase = "never_created"
	Leaked       Phase = "leaked"    // deleting failed too often
	Forgotten    Phase = "forgotten" // given up by an operator
)

// Open reports a phase behind which a resource may exist.
func (p Phase) Open() bool { return p != Gone && p != NeverCreated && p != Forgotten }

// Origin is how a resource came into the books.
type Origin string

// The origins. A given resource is the user's and never deleted.
const (
	OriginCreated Origin = "made"
	OriginAdopted Origin = "adopted"
	OriginGiven   Origin = "given"
)

// JournalRow is a row of container_cluster_resource: one provider resource,
// written before the call that makes it.
type JournalRow struct {
	ID        int64
	ClusterID int64
	Revision  int64 // compare-and-set: a worker that lost its lease loses here
	Kind      Kind
	Name      string // chosen by us before the call
	Key       string // unique per cluster
	RunID     string
	Step      string
	Attempt   int
	CallID    string // uuid chosen by us; sent where the provider allows
	JobID     string // of the call under way, as the provider named it

	ProviderID string
	Identity   string // what proves that it is the same thing
	Phase      Phase
	Origin     Origin
	Spec       Spec // what was wanted, without user data

	Attempts  int // of the present direction
	LastCode  fault.Code
	LastError string
	IntentAt  time.Time
	PresentAt time.Time
	ClosingAt time.Time
	GoneAt    time.Time
	NextAt    time.Time // the collector's next try
}

// Details is a row of container_cluster_details. Secret fields are sealed in the store.
type Details struct {
	ClusterID        int64
	Username         string
	Password         Secret
	RegistryUsername string
	RegistryPassword Secret
	RegistryURL      string
	RegistryEmail    string
	NetworkCleanup   bool // false: the user gave the network
	ConfigData       Secret
	CACert           string // PEM
	CAKey            Secret // PEM
	JoinTokenHash    string // hex of SHA-256; empty: revoked
	JoinTokenExpires time.Time
	JoinTokenRun     string
	Credentials      map[string]string // node name -> hex SHA-256 of its credential
}

// JobStatus is where a job is.
type JobStatus int

// The statuses, as the query face numbers them.
const (
	JobOpen   JobStatus = 0
	JobDone   JobStatus = 1
	JobFailed JobStatus = 2
)

// Job is an operation that a caller asked for: the async job of the query face.
type Job struct {
	ID        string // uuid; the caller's customjobid if it gave one
	ClusterID int64
	Cluster   string // uuid
	Command   string // as the caller named it
	Kind      string // create, start, stop, scale, upgrade, recover, delete, forget
	Digest    string // of command and parameters: the same id with another digest is refused
	Owner     Owner
	User      string // who asked, for the audit trail
	Status    JobStatus
	Code      fault.Code // of a failed one
	Text      string
	Step      string
	Password  Secret // only of the owner's create job
	RunID     string
	Created   time.Time
	Completed time.Time
}

// Event is one line of a cluster's history and of the event stream.
type Event struct {
	Seq      int64           `json:"seq"` // growing, over all clusters
	At       time.Time       `json:"at"`
	Cluster  string          `json:"cluster"` // uuid
	Owner    Owner           `json:"-"`
	Type     string          `json:"type"` // cluster, drift, leak, audit
	State    string          `json:"state,omitempty"`
	From     string          `json:"from,omitempty"`
	Revision int64           `json:"revision,omitempty"`
	Event    string          `json:"event,omitempty"` // of the lifecycle, or what was asked
	Reason   Reason          `json:"reason,omitzero"`
	RunID    string          `json:"run,omitempty"`
	Job      string          `json:"job,omitempty"`
	Actor    string          `json:"actor,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Book is all that is recorded of one cluster.
type Record struct {
	Cluster Cluster
	Nodes   []Node // living ones
	Journal []JournalRow
}
