package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// FindingType says what differs.
type FindingType string

// The types of findings: differences of a cluster, and PlanObstacle for a reason
// why a plan cannot be carried out.
const (
	Missing             FindingType = "missing"
	PowerState          FindingType = "power_state"
	UnknownState        FindingType = "unknown_state"
	NotReady            FindingType = "not_ready"
	EndpointUnreachable FindingType = "endpoint_unreachable"
	RuleChanged         FindingType = "rule_changed"
	NetworkMissing      FindingType = "network_missing"
	AddressMissing      FindingType = "address_missing"
	ExtraOwned          FindingType = "extra_owned"
	Count               FindingType = "count"
	Foreign             FindingType = "foreign"
	Unreachable         FindingType = "provider_unreachable"
	Outdated            FindingType = "version"
	PlanObstacle        FindingType = "plan"
	Downtime            FindingType = "downtime" // of a plan: the endpoint will be unavailable
)

// Finding is one difference between the desired and the actual cluster.
type Finding struct {
	Type     FindingType `json:"type"`
	Resource string      `json:"resource,omitempty"` // name of the node or resource
	ID       string      `json:"id,omitempty"`       // provider's
	Since    time.Time   `json:"since,omitzero"`
	Passes   int         `json:"passes,omitempty"` // consecutive passes that saw it
	Evidence string      `json:"evidence,omitempty"`
	Alarm    bool        `json:"alarm,omitempty"` // beyond its tolerance
	Then     string      `json:"then,omitempty"`  // what the policy will do next
	At       time.Time   `json:"at,omitzero"`     // when the policy will do it
	Code     fault.Code  `json:"code,omitempty"`
}

// Recovery is the set of repairs that Pawl may make without a person: restart,
// replace and adopt. nil is the default; an empty set allows nothing.
type Recovery []Remedy

// Remedy is one kind of repair.
type Remedy string

// The remedies.
const (
	Restart Remedy = "restart" // start VMs that are stopped
	Replace Remedy = "replace" // create a new VM for a missing or broken one, and missing nodes up to the desired count
	Adopt   Remedy = "adopt"   // record VMs that carry the tags of Pawl
)

// Tolerances say when a finding becomes an alarm, and hold other times of the
// synchronisation. Zero fields are the defaults.
type Tolerances struct {
	Transitional     time.Duration // longest time in Starting, Stopping, Migrating; default 10 m
	Passes           int           // passes with unknown_state, not_ready or endpoint_unreachable; default 3
	HeartbeatTimeout time.Duration // longest time without a heartbeat; default 90 s
	Policy           Recovery      // policy of clusters without one; nil: restart
	Retry            Backoff       // pauses between recoveries by policy; default recoverBackoff
	// Versions are the configured versions: id -> x.y.z. A node reports x.y.z.
	Versions map[string]string
}

// DefaultHeartbeatTimeout is the default of Tolerances.HeartbeatTimeout.
const DefaultHeartbeatTimeout = 90 * time.Second

// OrDefault fills in the defaults.
func (t Tolerances) OrDefault() Tolerances {
	t.Transitional = cmp.Or(t.Transitional, 10*time.Minute)
	t.Passes = cmp.Or(t.Passes, 3)
	t.HeartbeatTimeout = cmp.Or(t.HeartbeatTimeout, DefaultHeartbeatTimeout)
	t.Retry = cmp.Or(t.Retry, recoverBackoff)
	t.Policy = t.Policy.Or(nil)
	return t
}

// Observed is what one pass has observed of a cluster.
type Observed struct {
	At              time.Time       // time when the list began; zero: now
	SendsHeartbeats bool            // the VMs of the provider send heartbeats: readiness is known
	Resources       []Resource      // resources with the tags of this cluster, of the kinds in Listed
	Listed          map[Kind]bool   // kinds whose list was complete; only these prove that a resource is missing
	Proven          map[string]bool // ids for which a single read after the list returned ErrGone
	Foreign         []Resource      // VMs of others in the network of the cluster
	ForeignComplete bool            // Foreign is complete; if not, earlier findings stay
	Endpoint        error           // error of the last probe; nil: it answered, or it was not probed
	Err             error           // why the provider could not be read
}

// AddFromNetwork adds a VM that was seen in the network of the cluster without its
// tags. It is foreign, unless the record contains it: then it has lost its tags.
func (o *Observed) AddFromNetwork(b *Record, r Resource) {
	switch {
	case !b.Contains(r):
		o.Foreign = append(o.Foreign, r)
	case !slices.ContainsFunc(o.Resources, func(old Resource) bool { return old.Kind == r.Kind && old.ID == r.ID }):
		o.Resources = append(o.Resources, r)
	}
}

// Put replaces a listed resource by a newer read of it.
func (o *Observed) Put(r Resource) {
	for i := range o.Resources {
		if o.Resources[i].Kind == r.Kind && o.Resources[i].ID == r.ID {
			o.Resources[i] = r
			return
		}
	}
	o.Resources = append(o.Resources, r)
}
