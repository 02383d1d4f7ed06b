package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// FindingType is what differs.
type FindingType string

// The types of findings: of drift, and Plan for what stands in the way of a plan.
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
	Downtime            FindingType = "downtime" // of a plan: the endpoint will be away
)

// Finding is one difference between what should be and what is.
type Finding struct {
	Type     FindingType `json:"type"`
	Resource string      `json:"resource,omitempty"` // name of the node or resource
	ID       string      `json:"id,omitempty"`       // provider's
	Since    time.Time   `json:"since,omitzero"`
	Passes   int         `json:"passes,omitempty"` // in a row that have seen it
	Evidence string      `json:"evidence,omitempty"`
	Alarm    bool        `json:"alarm,omitempty"` // beyond its tolerance
	Then     string      `json:"then,omitempty"`  // what the policy will do
	At       time.Time   `json:"at,omitzero"`     // and when
	Code     fault.Code  `json:"code,omitempty"`
}

// Recovery is what may be done to a cluster without a person: a set of
// restart, replace and adopt. nil means the default; an empty one nothing.
type Recovery []Remedy

// Remedy is one kind of repair.
type Remedy string

// The remedies.
const (
	Restart Remedy = "restart" // start VMs that are stopped
	Replace Remedy = "replace" // a new VM for a missing or broken one; fills up to the desired count
	Adopt   Remedy = "adopt"   // enter what carries our tags into the books
)

// Tolerances before a finding is an alarm, and other times of synchronisation. Zero
// fields are the defaults.
type Tolerances struct {
	Transitional     time.Duration // 10 m in Starting, Stopping, Migrating
	Passes           int           // 3 of unknown_state, not_ready, endpoint_unreachable
	HeartbeatTimeout time.Duration // 90 s until a node is not ready
	Policy           Recovery      // of clusters that have none; nil: restart
	Retry            Backoff       // between recoveries by policy; RecoverBackoff
	// Versions are the configured ones: id -> x.y.z. A node says x.y.z.
	Versions map[string]string
}

// DefaultHello is how long a hello is fresh.
const DefaultHeartbeatTimeout = 90 * time.Second

// OrDefault fills in the defaults.
func (t Tolerances) OrDefault() Tolerances {
	t.Transitional = cmp.Or(t.Transitional, 10*time.Minute)
	t.Passes = cmp.Or(t.Passes, 3)
	t.HeartbeatTimeout = cmp.Or(t.HeartbeatTimeout, DefaultHeartbeatTimeout)
	t.Retry = cmp.Or(t.Retry, RecoverBackoff)
	t.Policy = t.Policy.Or(nil)
	return t
}

// Observed is what one pass has seen of a cluster.
type Observed struct {
	At              time.Time       // when the list began; zero: now
	SendsHeartbeats bool            // the provider's VMs say hello: readiness is known
	Resources       []Resource      // what carries this cluster's tags, of the kinds in Listed
	Listed          map[Kind]bool   // kinds whose list was complete: only there absence means something
	Proven          map[string]bool // provider id -> read singly and ErrGone, after the list
	Foreign         []Resource      // not ours, in our network
	ForeignComplete bool            // Foreign is all there is: else what was found before stays
	Endpoint        error           // of the last probe; nil: answered, or not probed
	Err             error           // why the provider could not be seen
}

// Meet takes in a VM that was seen in the cluster's network without its tags: it
// is foreign, or one of the books that has lost them.
func (o *Observed) AddFromNetwork(b *Record, r Resource) {
	switch {
	case !b.Contains(r):
		o.Foreign = append(o.Foreign, r)
	case !slices.ContainsFunc(o.Resources, func(old Resource) bool { return old.Kind == r.Kind && old.ID == r.ID }):
		o.Resources = append(o.Resources, r)
	}
}

// Put takes a newer reading of a resource in place of the one that was listed.
func (o *Observed) Put(r Resource) {
	for i := range o.Resources {
		if o.Resources[i].Kind == r.Kind && o.Resources[i].ID == r.ID {
			o.Resources[i] = r
			return
		}
	}
	o.Resources = append(o.Resources, r)
}
