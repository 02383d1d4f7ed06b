package sharedstorage

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Finalizer holds a deleted cluster until DeleteCluster has ended.
const Finalizer = "pawl.dev/sharedstorage"

// Cluster is one SharedStorageCluster as it was read, wherever it is kept.
type Cluster struct {
	Kind        string   // of its object; filled in by the operator
	Ref         port.Ref // Instance is empty
	Generation  int64
	CreatedAt   time.Time
	DeletedAt   time.Time // the deletion mark; zero: none
	Annotations map[string]string
	Finalized   bool // it carries Finalizer

	Spec   v1alpha1.SharedStorageClusterSpec // with all defaults filled in
	Status v1alpha1.SharedStorageClusterStatus

	// Refused says why the home cannot have it served, such as
	// CLUSTER_TYPE_UNSUPPORTED. nil: it can be.
	Refused error

	// Version is the home's own, for compare-and-set.
	Version any
	// Facts are what the world was like when this pass began.
	Facts *Facts
}

// ClusterStore is where clusters live: Kubernetes objects, or objects in SQLite.
type ClusterStore interface {
	// Load gives the newest version of a cluster, control.NotFound for one that is gone.
	Load(ctx context.Context, ref port.Ref) (*Cluster, error)
	// Save writes status and finalizer of exactly the version that was loaded:
	// fault.WriteConflict if it was changed in between. It sets c.Version.
	Save(ctx context.Context, c *Cluster) error
	// Annotate changes one annotation from one value to another ("" is absent),
	// and does nothing with fault.WriteConflict if it has a third. It sets c.Version.
	Annotate(ctx context.Context, c *Cluster, key, from, to string) error
	// Classes gives the sizes there are in a namespace.
	Classes(ctx context.Context, namespace string) (map[string]port.Class, error)
}

// Facts are what is, gathered once per pass. What could not be asked is in Unknown.
type Facts struct {
	At        time.Time
	Instances []port.Instance
	Engines   map[string]port.Status // by instance name; absent: it could not be asked
	Topology  port.Topology
	Volume    port.Volume
	Classes   map[string]port.Class
	Unfit     map[string]error // by part of the spec: why the adapter could not make what is asked for
	Unknown   map[string]error // by what was asked: "instances", "manager", "volume", "classes", "engine/<name>"
}
