package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// id returns the same id for the same seed, kind, name and number of uses of the name.
func (c *Cloud) id(n name) (id, identity string) {
	c.names[n]++
	return c.hash(c.names[n], n.Kind+"/"+n.Name)
}

func (c *Cloud) hash(count int, key string) (id, identity string) {
	h := sha256.New()
	var n [16]byte
	binary.BigEndian.PutUint64(n[:], c.o.Seed)
	binary.BigEndian.PutUint64(n[8:], uint64(count))
	h.Write(n[:])
	h.Write([]byte(key))
	b := h.Sum(nil)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]), fmt.Sprintf("%x", b[16:28])
}

// index holds resources in the order of their creation. It compacts itself when half of
// its entries are removed.
type index struct {
	items        []*resource
	removedCount int
}

func (x *index) add(t *resource) {
	if n := len(x.items); n == 0 || x.items[n-1].Seq < t.Seq {
		x.items = append(x.items, t)
		return
	}
	at, there := x.after(t.Seq-1), false
	if at < len(x.items) {
		there = x.items[at] == t
	}
	if there {
		x.removedCount--
		return
	}
	x.items = slices.Insert(x.items, at, t)
}

// after returns the position of the first resource after a sequence number.
func (x *index) after(seq int64) int {
	at, _ := slices.BinarySearchFunc(x.items, seq+1, func(t *resource, seq int64) int {
		switch {
		case t.Seq < seq:
			return -1
		case t.Seq > seq:
			return 1
		}
		return 0
	})
	return at
}

// removed records that a resource no longer belongs to the index; belongs reports which
// still do.
func (x *index) removed(belongs func(*resource) bool) {
	if x.removedCount++; x.removedCount > 32 && x.removedCount*2 > len(x.items) {
		x.items, x.removedCount = slices.DeleteFunc(x.items, func(t *resource) bool { return !belongs(t) }), 0
	}
}
