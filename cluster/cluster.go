package cluster

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// Desired is the state that callers ask for. The controller moves the cluster
// towards it.
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
	MaxDescription = 4096
)

// Entity is an object of a provider: its id, and its name at the time when it was
// chosen. The name keeps a record readable after the object is gone.
type Entity struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Owner is the account and the domain that a cluster belongs to.
type Owner struct {
	AccountID string `json:"accountId"`
	DomainID  string `json:"domainId"`
}

// OnFailure says what happens when the first start of a cluster fails.
type OnFailure string

// The policies. The default is Rollback.
const (
	Rollback    OnFailure = "rollback" // CreateFailed; the delete run starts at once
	Lazy        OnFailure = "lazy"     // CreateFailed; the delete run begins with the next pass of the collector
	KeepPartial OnFailure = "keep"     // Alert; the created resources stay
)

// Reason says why a cluster is in its state.
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
	Network  Entity // the id is empty until the network is created
	KeyPair  string
	DiskGB   int    // root disk of a node in GB; 0: that of the template
	Version  string // version that runs on the nodes; empty: that of the template

	Desired      Desired
	NodeCount    int // desired workers
	ControlCount int // desired control nodes; odd
	Autoscale    Autoscale
	OnFailure    OnFailure // empty: Rollback
	Recovery     Recovery  // of this cluster; nil: the default
	CIDRs        []string  // networks that may reach the endpoint; empty: all

	State      machine.State
	StateSince time.Time
	Revision   int64 // raised by each write; compare-and-set
	Position   machine.Position
	RunID      string   // id of the run that works on it; empty: none
	Started    bool     // was Running at least once: then a failed start is no failed create
	Request    *Request // what a caller requested and no run has completed yet
	Reason     Reason

	Findings     []Finding // differences that the newest observation found
	Alarm        bool      // a finding is beyond its tolerance
	SuspectSince time.Time // time of the first pass that saw the present findings
	ObservedAt   time.Time // time of the newest pass that changed something here
	RecoverTries int       // consecutive tries by policy; 0 again once healthy
	RecoverNext  time.Time // time of the next try by policy; zero: none

	Endpoint, ConsoleEndpoint string
	Cores, MemoryMB           int // totals of all nodes
	Created, Removed          time.Time

	GC         bool // false: the collector skips this cluster
	GCAttempts int
	GCNext     time.Time
	Forget     bool // an operator gives it up: it is no longer tracked
}

// Autoscale holds the bounds of an autoscaler. The zero value: it is off.
type Autoscale struct {
	Enabled bool `json:"enabled,omitempty"`
	Min     int  `json:"min,omitempty"`
	Max     int  `json:"max,omitempty"`
}

// RequestKind is an operation that a caller requests besides a change of the
// desired state.
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

// Request is an operation that a caller requested. It waits for its transition;
// then it is the input of the run of that transition.
type Request struct {
	Kind          RequestKind `json:"kind"`
	Job           string      `json:"job"`
	Forced        bool        `json:"forced,omitempty"`   // stop, delete
	Victims       []string    `json:"victims,omitempty"`  // scale: names of worker nodes
	Version       string      `json:"version,omitempty"`  // upgrade
	Template      Entity      `json:"template,omitzero"`  // upgrade
	Surge         int         `json:"surge,omitempty"`    // upgrade; 0: 1
	Recovery      Recovery    `json:"recovery,omitempty"` // recover: policy for this recovery only
	Consent       bool        `json:"consent,omitempty"`  // the last control node may be replaced
	Downtime      bool        `json:"downtime,omitempty"` // upgrade: the endpoint may be unavailable while the only control node is upgraded in place
	PreviousCount int         `json:"before,omitempty"`   // scale: desired workers before the request
}

// Role is the role of a node.
type Role string

// The roles.
const (
	Control Role = "control"
	Worker  Role = "worker"
)

// Node is one VM of a cluster: a row of container_cluster_vm_map. Removed rows
// stay, so that no ordinal is used twice.
type Node struct {
	ID          int64
	ClusterID   int64
	VMID        string // id of the VM at the provider; empty until known
	Key         string // key of the journal row of its VM
	Name        string
	Role        Role
	Ordinal     int
	Version     string
	Template    Entity    // template that it was created from
	Address     string    // from the provider or from a heartbeat; may be empty
	ReadyAt     time.Time // time of the first heartbeat that said ready; zero: never
	HeartbeatAt time.Time // time of the newest heartbeat
	NotReady    string    // why the newest heartbeat said not ready; empty: ready or unknown
	Removed     time.Time // zero: it belongs to the cluster
}

// Phase is the state of a journal row in its lifecycle.
type Phase string

// The phases. A create call is sent only while the row is Intent.
const (
	Intent       Phase = "intent"   // written before the call
	Accepted     Phase = "accepted" // the provider has answered
	Present      Phase = "present"  // a lookup has seen it
	Closing      Phase = "closing"  // to be deleted
	Gone         Phase = "gone"     // proven to be gone
	NeverCreated Phase = "never_created"
	Leaked       Phase = "leaked"    // deleting failed too often
	Forgotten    Phase = "forgotten" // an operator gave it up
)

// Open reports whether a resource may exist in this phase.
func (p Phase) Open() bool { return p != Gone && p != NeverCreated && p != Forgotten }

// Origin says how a resource came into the journal.
type Origin string

// The origins. An OriginGiven resource belongs to the user and is never deleted.
const (
	OriginCreated Origin = "made"
	OriginAdopted Origin = "adopted"
	OriginGiven   Origin = "given"
)

// JournalRow is a row of container_cluster_resource: one resource of the provider.
// It is written before the call that creates the resource.
type JournalRow struct {
	ID        int64
	ClusterID int64
	Revision  int64 // compare-and-set: a write of a worker without its lease fails
	Kind      Kind
	Name      string // chosen by Pawl before the call
	Key       string // unique per cluster
	RunID     string
	Step      string
	Attempt   int
	CallID    string // uuid chosen by Pawl; sent where the provider accepts one
	JobID     string // id of the open call at the provider

	ProviderID string
	Identity   string // proves that it is the same resource
	Phase      Phase
	Origin     Origin
	Spec       Spec // the desired resource, without user data

	Attempts  int // tries of the present create or delete
	LastCode  fault.Code
	LastError string
	IntentAt  time.Time
	PresentAt time.Time
	ClosingAt time.Time
	GoneAt    time.Time
	NextAt    time.Time // time of the next try of the collector
}

// Details is a row of container_cluster_details. The store encrypts the secret
// fields.
type Details struct {
	ClusterID        int64
	Username         string
	Password         Secret
	RegistryUsername string
	RegistryPassword Secret
	RegistryURL      string
	RegistryEmail    string
	NetworkCleanup   bool // false: the network belongs to the user
	ConfigData       Secret
	CACert           string // PEM
	CAKey            Secret // PEM
	JoinTokenHash    string // hex of SHA-256; empty: revoked
	JoinTokenExpires time.Time
	JoinTokenRun     string
	Credentials      map[string]string // node name -> hex SHA-256 of its credential
}

// JobStatus is the status of a job.
type JobStatus int

// The statuses, with the numbers of the query API.
const (
	JobOpen   JobStatus = 0
	JobDone   JobStatus = 1
	JobFailed JobStatus = 2
)

// Job is an operation that a caller requested: the async job of the query API.
type Job struct {
	ID        string // uuid; the caller's customjobid if it gave one
	ClusterID int64
	Cluster   string // uuid
	Command   string // name of the command in the request
	Kind      string // create, start, stop, scale, upgrade, recover, delete, forget
	Digest    string // hash of command and parameters: the same id with another digest is refused
	Owner     Owner
	User      string // name of the caller, for the audit trail
	Status    JobStatus
	Code      fault.Code // fault of a failed job
	Text      string
	Step      string
	Password  Secret // only in the create job, for the owner
	RunID     string
	Created   time.Time
	Completed time.Time
}

// Event is one entry in the history of a cluster and in the event stream.
type Event struct {
	Seq      int64           `json:"seq"` // grows over all clusters
	At       time.Time       `json:"at"`
	Cluster  string          `json:"cluster"` // uuid
	Owner    Owner           `json:"-"`
	Type     string          `json:"type"` // cluster, drift, leak, audit
	State    string          `json:"state,omitempty"`
	From     string          `json:"from,omitempty"`
	Revision int64           `json:"revision,omitempty"`
	Event    string          `json:"event,omitempty"` // event of the lifecycle, or the requested operation
	Reason   Reason          `json:"reason,omitzero"`
	RunID    string          `json:"run,omitempty"`
	Job      string          `json:"job,omitempty"`
	Actor    string          `json:"actor,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Record is everything that is stored about one cluster, except Details, jobs and
// events.
type Record struct {
	Cluster Cluster
	Nodes   []Node // without the removed ones
	Journal []JournalRow
}
