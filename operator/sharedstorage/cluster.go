package sharedstorage

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Finalizer keeps a deleted cluster until DeleteCluster has ended.
const Finalizer = "pawl.dev/sharedstorage"

// Cluster is one SharedStorageCluster as a ClusterStore loaded it.
type Cluster struct {
	Kind        string   // kind of the object; the operator sets it
	Ref         port.Ref // without Instance
	Generation  int64
	CreatedAt   time.Time
	DeletedAt   time.Time // zero: the cluster is not being deleted
	Annotations map[string]string
	Finalized   bool // the object has the Finalizer

	Spec   v1alpha1.SharedStorageClusterSpec // with all defaults filled in
	Status v1alpha1.SharedStorageClusterStatus

	// Refused is why the store does not let the operator serve this cluster, such as
	// CLUSTER_TYPE_UNSUPPORTED; nil when it does.
	Refused error

	// Version belongs to the store, which uses it for compare-and-set.
	Version any
	// Facts are what the operator observed at the start of this pass.
	Facts *Facts
}

// ClusterStore loads and saves clusters: Kubernetes objects, or objects in SQLite.
type ClusterStore interface {
	// Load returns the newest version of a cluster, or control.NotFound.
	Load(ctx context.Context, ref port.Ref) (*Cluster, error)
	// Save writes status and finalizer if the cluster still has the version that was loaded,
	// otherwise it returns fault.WriteConflict. It sets c.Version.
	Save(ctx context.Context, c *Cluster) error
	// Annotate changes one annotation from one value to another ("" means absent). If the
	// annotation has a third value, it changes nothing and returns fault.WriteConflict. It sets
	// c.Version.
	Annotate(ctx context.Context, c *Cluster, key, from, to string) error
	// Classes returns the instance classes of a namespace.
	Classes(ctx context.Context, namespace string) (map[string]port.Class, error)
}

// Facts are what the operator observed of a cluster in one pass. Unknown has what it could not
// observe.
type Facts struct {
	At        time.Time
	Instances []port.Instance
	Engines   map[string]port.Status // by instance name; absent: the engine did not answer
	Topology  port.Topology
	Volume    port.Volume
	Classes   map[string]port.Class
	Nodes     []port.Node      // asked only while all instances are on one node
	Unfit     map[string]error // by part of the spec: why the adapter cannot provide it

	declared    *declared.Report    // of users, databases, publications and subscriptions; nil: this pass did nothing about them
	certificate *certificateFact    // nil: this pass did nothing about certificates
	Repository  *port.Repository    // of spec.backup; asked only if there is one
	Poolers     []port.PoolerStatus // asked only if the spec or the status has some
	Unknown     map[string]error    // by subject: "instances", "manager", "volume", "classes", "nodes", "poolers", "engine/<name>"
}
