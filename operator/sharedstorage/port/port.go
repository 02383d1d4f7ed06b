// Package port has the interfaces through which the shared-storage operator reaches volumes,
// instances and engines.
//
//	Storage    where the data are, and who may write     volume, claims, grant (writer, epoch)
//	Instances  where engines run                         pods or processes
//	Engine     the database engine inside one instance   PostgreSQL
//	Manager    what watches the engines and fails over   pawl cluster-manager
//
// Every method is idempotent, returns the current state, and does not wait: if something is still
// under way, the returned state says so, and the caller polls. A key makes repeated calls for one
// purpose have one effect. After an error that is not a fault of this package the caller does not
// know whether the change happened. The conformance suite is in porttest.
//
// An adapter keeps data in one of two modes, and Volume.Mode says which. With Copies each instance has
// a copy on a claim or folder of its own, and readers stream from the writer; so does PostgreSQL.
// With Shared all instances open one volume. The operator is the same for both.
//
// An instance has two names. Name is its own and is never used again: the name of the pod or the
// folder. ID is the place it holds in the cluster, such as "1" or "t-6f2c…": a temporary reader
// takes over the ID of the instance that it replaces. All methods identify instances by Name.
package port

import (
	"context"
	"encoding/json"
	"time"
)

// Ref identifies a cluster, or one instance of it.
type Ref struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`      // UID of the cluster object
	Instance  string `json:"instance,omitempty"` // Instance.Name
}

// String returns namespace/name, followed by /instance if there is one.
func (r Ref) String() string {
	s := r.Namespace + "/" + r.Name
	if r.Instance != "" {
		s += "/" + r.Instance
	}
	return s
}

// Of returns the reference of an instance of the cluster.
func (r Ref) Of(instance string) Ref {
	r.Instance = instance
	return r
}

// Cluster returns the reference without the instance.
func (r Ref) Cluster() Ref { return r.Of("") }

// Ports are the ports of an operator.
type Ports struct {
	Storage   Storage
	Instances Instances
	Engine    Engine
	Manager   Manager
	Pooler    Pooler // nil: there are no poolers
}

// Storage manages the volume of a cluster and the grant, which says who may write.
type Storage interface {
	// Ensure creates or adopts the volume, formats it, and grows it to want.Size. It returns
	// STORAGE_SHRINK if want.Size is less than the present size, CLAIM_RETAINED if an earlier
	// cluster has left data and want does not adopt them, or STORAGE_FAILED.
	Ensure(ctx context.Context, c Ref, want Volume, key string) (Volume, error)
	// Observe returns the volume and changes nothing. State is empty if there is no volume.
	Observe(ctx context.Context, c Ref) (Volume, error)
	// Clone fills a new volume with the data of another cluster. Its State is Cloning until the
	// copy is complete. Its fault is CLONE_SOURCE_MISSING.
	Clone(ctx context.Context, from, to Ref, key string) (Volume, error)
	// Grant gives the right to write to this instance, and to no other. Repeating it with the same
	// writer and epoch changes nothing. An epoch that is not newer than that of another writer
	// returns SWITCH_REFUSED. An empty writer revokes the grant.
	Grant(ctx context.Context, c Ref, writer string, epoch int64) error
	// Restore creates the deleted record of a volume again: its size, who may write and under
	// which epoch. wrote means that this writer has written under this epoch. Otherwise the lease
	// of another writer may still run, and the new one waits until it has ended. A record that
	// exists and is not older stays.
	Restore(ctx context.Context, c Ref, was Volume, wrote bool) (Volume, error)
	// Release gives the volume up, and deletes its data unless keep is set. A missing volume is
	// not an error.
	Release(ctx context.Context, c Ref, keep bool) error
}

// Mode is how the instances of a cluster keep their data.
type Mode string

// The modes.
const (
	Copies Mode = "copies" // each instance has a copy of its own and streams from the writer
	Shared Mode = "shared" // all instances open one volume, so a new one finds the data there
)

// Text says what a mode means, for people.
func (m Mode) Text() string {
	if m == Shared {
		return "shared: all instances open it"
	}
	return "copies: each instance has a copy of its own"
}

// Volume is where the data of a cluster are, desired or observed: with Copies its size is that of each
// copy.
type Volume struct {
	ID     string      `json:"id,omitempty"`    // chosen by the adapter
	Claim  string      `json:"claim,omitempty"` // desired: an existing claim to adopt
	Adopt  bool        `json:"adopt,omitempty"` // desired: adopt the data that an earlier cluster of this name has left
	Size   int64       `json:"size,omitempty"`  // bytes
	State  VolumeState `json:"state,omitempty"` // observed
	Writer string      `json:"writer,omitempty"`
	Epoch  int64       `json:"epoch,omitempty"`
	From   string      `json:"from,omitempty"` // input of Restore: the cluster from which the data are being copied
	Mode   Mode        `json:"mode,omitempty"` // observed; empty: Copies

	Adopted []string `json:"adopted,omitempty"` // observed by Ensure: what this call has adopted of an earlier cluster

	Message string `json:"message,omitempty"`
}

// VolumeState is the state of a volume.
type VolumeState string

// The states of a volume.
const (
	VolumePending VolumeState = "Pending"
	VolumeCloning VolumeState = "Cloning"
	VolumeGrowing VolumeState = "Growing" // the volume is larger already, its file system is not
	VolumeReady   VolumeState = "Ready"
	// VolumeTerminating: somebody deletes a part of the volume that an instance still uses.
	VolumeTerminating VolumeState = "Terminating"
)

// Instances creates and removes the instances in which engines run.
type Instances interface {
	// Ensure creates the instance want.Name, or sets ID and Type of the existing one and starts it where
	// it does not run; it changes nothing else of an instance. Its faults are TARGET_NODE_UNAVAILABLE and NO_AVAILABLE_NODE.
	Ensure(ctx context.Context, c Ref, want Instance) (Instance, error)
	// Recreate makes an existing instance run as want says (class, version, image, placement, port,
	// Template) on the data that it has: its pod or process ends and another one starts. Name, ID and
	// Type stay. One that runs so already is left alone. While the former one still runs, the returned
	// state is that one's. Its faults are POD_LOST (there is no such instance), NO_AVAILABLE_NODE and
	// VERSION_UNSUPPORTED; with them nothing has changed.
	Recreate(ctx context.Context, c Ref, want Instance) (Instance, error)
	// Suspend ends the pod or process of an instance, and its engine cleanly, and keeps its data, its
	// record and its place. Nothing starts it again but Ensure or Recreate. While it is ending, the
	// returned state is another one than Suspended. Its fault is POD_LOST: there is no such instance.
	Suspend(ctx context.Context, c Ref, name string) (Instance, error)
	// Remove deletes the instance with its own data. A missing instance is not an error; List
	// shows one that is still being deleted as Leaving.
	Remove(ctx context.Context, c Ref, name string) error
	// List returns all instances of a cluster, sorted by Name.
	List(ctx context.Context, c Ref) ([]Instance, error)
	// Nodes returns the nodes on which instances can run, sorted by name.
	Nodes(ctx context.Context, c Ref) ([]Node, error)
}

// Checker is an optional interface of Instances. Check reports whether count instances like this
// one could be created, with size bytes of storage each; 0: it checks the version only. It changes nothing. Its faults are
// VERSION_UNSUPPORTED and NAMESPACE_QUOTA_EXCEEDED; if it cannot tell, it returns nil.
type Checker interface {
	Check(ctx context.Context, c Ref, want Instance, count int, size int64) error
}

// Instance is one instance, desired or observed.
type Instance struct {
	Name string `json:"name"`
	ID   string `json:"id"`   // the place that it holds in the cluster
	Type Type   `json:"type"` // as recorded with the instance; the role is that of the engine

	Class   Class  `json:"class,omitzero"`
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
	// Template is a hash of what a spec asks of how the instance runs. It stays with what runs: with
	// another one, the instance must be recreated. Empty: unknown.
	Template string `json:"template,omitempty"`

	Node         string            `json:"node,omitempty"`         // desired: this node and no other; observed: its node
	NodeSelector map[string]string `json:"nodeSelector,omitempty"` // desired
	Spread       string            `json:"spread,omitempty"`       // desired: the topology key to spread over
	SpreadAnyway bool              `json:"spreadAnyway,omitempty"` // desired: run where the spread cannot be kept, instead of waiting
	Domain       Domain            `json:"domain,omitempty"`       // observed: where its node stands, in the keys of the spread besides that of nodes
	Pod          json.RawMessage   `json:"pod,omitempty"`          // desired: what the spec asks of its pod; adapters without pods ignore it

	Port    int32         `json:"port,omitempty"` // desired: 0 lets the adapter choose
	Address string        `json:"address,omitempty"`
	State   InstanceState `json:"state,omitempty"`
	Since   time.Time     `json:"since,omitzero"` // begin of the state
	Message string        `json:"message,omitempty"`
}

// RunsAs reports whether an instance runs with the class, version and template of want.
func (i Instance) RunsAs(want Instance) bool {
	return i.Class.Name == want.Class.Name && i.Template == want.Template && (want.Version == "" || i.Version == want.Version)
}

// Type is the intended use of an instance.
type Type string

// The types of instances.
const (
	Writer    Type = "rw"
	Reader    Type = "ro"
	Temporary Type = "tempro"
)

// InstanceState is the state of an instance. It says nothing about its engine.
type InstanceState string

// The states of an instance.
const (
	Pending     InstanceState = "Pending"
	Unscheduled InstanceState = "Unscheduled" // no node accepts it
	Up          InstanceState = "Up"          // its agent answers, or can be called
	Down        InstanceState = "Down"        // it exists and does not run
	Lost        InstanceState = "Lost"        // its node does not answer
	Leaving     InstanceState = "Leaving"
	Suspended   InstanceState = "Suspended" // Suspend has ended it
)

// Class is a size of instances.
type Class struct {
	Name       string            `json:"name"`
	CPU        int64             `json:"cpu,omitempty"`    // thousandths of a core; 0: not limited
	Memory     int64             `json:"memory,omitempty"` // bytes; 0: not limited
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Node is a node on which instances can run.
type Node struct {
	Name        string            `json:"name"`
	Ready       bool              `json:"ready"`
	Schedulable bool              `json:"schedulable"`
	Labels      map[string]string `json:"labels,omitempty"`
}
