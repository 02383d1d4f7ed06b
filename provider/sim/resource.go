package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// The states of VMs. Other resources are settingUp, then ready.
const (
	stateStarting  = "Starting"
	stateRunning   = "Running"
	stateStopping  = "Stopping"
	stateStopped   = "Stopped"
	stateDestroyed = "Destroyed" // destroyed, but not expunged
	stateExpunging = "Expunging"
	stateMigrating = "Migrating"
	stateError     = "Error"

	stateSettingUp = "Setup"
	stateReady     = "Ready"
)

var powers = map[string]cluster.Power{
	stateStarting: cluster.PoweringOn, stateRunning: cluster.PoweredOn, stateStopping: cluster.PoweringOff, stateStopped: cluster.PoweredOff,
	stateDestroyed: cluster.PowerGone, stateExpunging: cluster.PowerGone, stateMigrating: cluster.PoweringOn, stateError: cluster.PowerBroken,
	stateSettingUp: cluster.PoweringOn, stateReady: cluster.PoweredOn,
}

// resource is a resource of the cloud. It is stored as JSON.
type resource struct {
	Seq       int64
	Kind      cluster.Kind
	ID        string
	Name      string
	Identity  string
	Owner     cluster.Owner
	Spec      cluster.Spec // Spec.UserData is never set
	UserData  []byte       `json:",omitempty"`
	State     string
	Was       string `json:",omitempty"` // state before the current job
	Job       string `json:",omitempty"` // the current or newest job
	Address   string `json:",omitempty"`
	Host      int    `json:",omitempty"`
	Jobs      int    `json:",omitempty"` // number of jobs so far
	SourceNAT bool   `json:",omitempty"`
	Foreign   bool   `json:",omitempty"` // not created by a call
	Cores     int    `json:",omitempty"`
	MemoryMB  int    `json:",omitempty"`
	Nets      int    `json:",omitempty"` // of a network: its index in 10.0.0.0/8
	Hosts     int    `json:",omitempty"` // of a network: addresses assigned so far
	Created   time.Time
	Visible   time.Time `json:",omitzero"` // in Find and List from then on
	Services  []string  `json:",omitempty"`
	System    bool      `json:",omitempty"`

	Installation string            `json:",omitempty"` // tags; Pawl's three tags have their own fields
	Cluster      string            `json:",omitempty"`
	Key          string            `json:",omitempty"`
	Tags         map[string]string `json:",omitempty"`
	WantKey      wantKey           `json:",omitzero"` // stays when tags are stripped

	Node *node `json:",omitempty"` // of a VM whose user data configure a node
	gone bool
}

// name and wantKey (the key of cluster.Want) are unique among existing resources.
type (
	name    struct{ Kind, Name string }
	wantKey struct{ Installation, Cluster, Key string }
)

func (t *resource) name() name { return name{string(t.Kind), t.Name} }

func (t *resource) power() cluster.Power {
	if p, ok := powers[t.State]; ok {
		return p
	}
	return cluster.UnknownPower
}

func (t *resource) ref() cluster.Ref {
	return cluster.Ref{Kind: t.Kind, ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Identity: t.Identity}
}

func (t *resource) tags() map[string]string {
	all := make(map[string]string, len(t.Tags)+3)
	maps.Copy(all, t.Tags)
	for _, tag := range [...][2]string{{cluster.TagInstallation, t.Installation}, {cluster.TagCluster, t.Cluster}, {cluster.TagKey, t.Key}} {
		if tag[1] != "" {
			all[tag[0]] = tag[1]
		}
	}
	return all
}

func (t *resource) setTags(tags map[string]string) {
	t.Installation, t.Cluster, t.Key, t.Tags = tags[cluster.TagInstallation], tags[cluster.TagCluster], tags[cluster.TagKey], nil
	for key, value := range tags {
		switch key {
		case cluster.TagInstallation, cluster.TagCluster, cluster.TagKey:
		default:
			if t.Tags == nil {
				t.Tags = map[string]string{}
			}
			t.Tags[key] = value
		}
	}
}

func (t *resource) toCluster() cluster.Resource {
	spec := t.Spec
	spec.CIDRs, spec.VMs = slices.Clone(spec.CIDRs), slices.Clone(spec.VMs)
	return cluster.Resource{
		Kind: t.Kind, ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Identity: t.Identity, Tags: t.tags(), Power: t.power(),
		State: t.State, Address: t.Address, Created: t.Created, SourceNAT: t.SourceNAT, Spec: spec,
	}
}
