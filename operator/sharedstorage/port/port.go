// Package port is what the shared-storage operator asks of the world below it.
//
//	Storage    the one volume, and who may write it      volume, claim, grant (writer, epoch)
//	Instances  where engines run                         pods or processes
//	Engine     the database engine inside one instance   PostgreSQL
//	Manager    what watches the engines and fails over   pawl cluster-manager
//
// Every method is idempotent, returns what is, and does not wait: what is not
// there yet is told by the state that comes back, and the caller looks again. A
// key makes repeated calls of one intent one effect. An error that is no fault
// of this package leaves open whether the change happened. Exam: porttest.
//
// An instance has two names. Name is its own, given once and never used again: the
// pod or the folder. ID is the place it holds in the cluster, "1" or "t-6f2c…": a
// temporary reader takes over the ID of the instance it replaces. All methods
// name instances by Name.
package port

import (
	"context"
	"time"
)

// Ref names a cluster, and one of its instances where a method is about one.
type Ref struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`      // of the cluster object
	Instance  string `json:"instance,omitempty"` // Instance.Name
}

// String is namespace/name, and /instance where there is one.
func (r Ref) String() string {
	s := r.Namespace + "/" + r.Name
	if r.Instance != "" {
		s += "/" + r.Instance
	}
	return s
}

// Of names an instance of the cluster.
func (r Ref) Of(instance string) Ref {
	r.Instance = instance
	return r
}

// Cluster is the reference without the instance.
func (r Ref) Cluster() Ref { return r.Of("") }

// Ports are the four together.
type Ports struct {
	Storage   Storage
	Instances Instances
	Engine    Engine
	Manager   Manager
}

// Storage keeps the volume of a cluster and says who may write it.
type Storage interface {
	// Ensure creates or adopts the volume, formats it and lets it grow to
	// want.Size. STORAGE_SHRINK for less than there is, STORAGE_FAILED.
	Ensure(ctx context.Context, c Ref, want Volume, key string) (Volume, error)
	// Observe gives the volume as it is, and changes nothing. Its State is empty if
	// there is none.
	Observe(ctx context.Context, c Ref) (Volume, error)
	// Clone fills a new volume with the data of another cluster. Its State is
	// Cloning until the data are there. CLONE_SOURCE_MISSING.
	Clone(ctx context.Context, from, to Ref, key string) (Volume, error)
	// Grant lets this instance write, and no other. The same writer and epoch
	// again change nothing; an epoch that is not newer than that of another
	// writer is refused: SWITCH_REFUSED. An empty writer takes the grant away.
	Grant(ctx context.Context, c Ref, writer string, epoch int64) error
	// Restore makes the record of a volume anew that was deleted: its size, who may
	// write and under which epoch. wrote says that this writer did so under this
	// epoch; otherwise a lease of another one may still run, and the writer waits for
	// the end of it. What is there and not older stays as it is.
	Restore(ctx context.Context, c Ref, was Volume, wrote bool) (Volume, error)
	// Release gives the volume up, with its data unless they are to be kept. A
	// volume that is gone is no error.
	Release(ctx context.Context, c Ref, keep bool) error
}

// Volume is the shared volume: wanted or found.
type Volume struct {
	ID     string      `json:"id,omitempty"`    // the adapter's
	Claim  string      `json:"claim,omitempty"` // wanted: an existing claim to adopt
	Size   int64       `json:"size,omitempty"`  // bytes
	State  VolumeState `json:"state,omitempty"` // found
	Writer string      `json:"writer,omitempty"`
	Epoch  int64       `json:"epoch,omitempty"`
	From   string      `json:"from,omitempty"`   // asked of Restore: the cluster whose data it is being filled with
	Shared bool        `json:"shared,omitempty"` // found: the data live on the volume, and a new instance finds them there

	Message string `json:"message,omitempty"`
}

// VolumeState is where a volume stands.
type VolumeState string

// The states of a volume.
const (
	VolumePending VolumeState = "Pending"
	VolumeCloning VolumeState = "Cloning"
	VolumeGrowing VolumeState = "Growing" // larger already, its file system is not
	VolumeReady   VolumeState = "Ready"
)

// Instances makes and removes the places where engines run.
type Instances interface {
	// Ensure makes the instance want.Name, or gives the one of this name its ID
	// and Type; nothing else of an instance is ever changed in place.
	// TARGET_NODE_UNAVAILABLE, NO_AVAILABLE_NODE.
	Ensure(ctx context.Context, c Ref, want Instance) (Instance, error)
	// Remove takes the instance away, with its own data. Gone is no error; what
	// is still going away is in List as Leaving.
	Remove(ctx context.Context, c Ref, name string) error
	// List gives all instances of a cluster, by Name.
	List(ctx context.Context, c Ref) ([]Instance, error)
	// Nodes gives where instances can stand, by name.
	Nodes(ctx context.Context, c Ref) ([]Node, error)
}

// Checker is what Instances may offer beside: whether instances like this one
// could be made: count of them, with size bytes of storage each. It changes
// nothing. VERSION_UNSUPPORTED, NAMESPACE_QUOTA_EXCEEDED; what cannot be told is
// no error.
type Checker interface {
	Check(ctx context.Context, c Ref, want Instance, count int, size int64) error
}

// Instance is one place where an engine runs: wanted or found.
type Instance struct {
	Name string `json:"name"`
	ID   string `json:"id"`   // the place it holds in the cluster
	Type Type   `json:"type"` // as recorded with the instance; the role is the engine's

	Class   Class  `json:"class,omitzero"`
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`

	Node         string            `json:"node,omitempty"`         // wanted: there and nowhere else; found: where it is
	NodeSelector map[string]string `json:"nodeSelector,omitempty"` // wanted
	Spread       string            `json:"spread,omitempty"`       // wanted: the topology key to spread over

	Port    int32         `json:"port,omitempty"` // wanted: 0 lets the adapter choose
	Address string        `json:"address,omitempty"`
	State   InstanceState `json:"state,omitempty"`
	Since   time.Time     `json:"since,omitzero"` // of the state
	Message string        `json:"message,omitempty"`
}

// Type is what an instance is meant to be.
type Type string

// The types of instances.
const (
	Writer    Type = "rw"
	Reader    Type = "ro"
	Temporary Type = "tempro"
)

// InstanceState is where an instance stands. It says nothing about its engine.
type InstanceState string

// The states of an instance.
const (
	Pending     InstanceState = "Pending"
	Unscheduled InstanceState = "Unscheduled" // no node takes it
	Up          InstanceState = "Up"          // its agent answers, or can be asked
	Down        InstanceState = "Down"        // it is there and does not run
	Lost        InstanceState = "Lost"        // its node does not answer
	Leaving     InstanceState = "Leaving"
)

// Class is a size of instances.
type Class struct {
	Name       string            `json:"name"`
	CPU        int64             `json:"cpu,omitempty"`    // thousandths of a core; 0: not limited
	Memory     int64             `json:"memory,omitempty"` // bytes; 0: not limited
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Node is where instances can stand.
type Node struct {
	Name        string            `json:"name"`
	Ready       bool              `json:"ready"`
	Schedulable bool              `json:"schedulable"`
	Labels      map[string]string `json:"labels,omitempty"`
}
