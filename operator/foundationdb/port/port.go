// Package port is what the FoundationDB operator asks of the world: the objects of Kubernetes, the
// database, and the sidecars of its pods.
//
//	clusters ─┐                ┌─ kube   controller-runtime, HTTP
//	backups  ─┼── port ◄───────┼─ tool   fdbcli, fdbbackup, fdbrestore
//	restores ─┘                └─ sim    all three in memory
//
// Package porttest is the conformance suite that each implementation passes.
package port

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Object is an object of Kubernetes: one of the three kinds of kube/api/fdb/v1beta2, or a Pod,
// PersistentVolumeClaim, Service, ConfigMap, Deployment or Node. Kind and version need not be set.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects reads and writes objects of Kubernetes. What it returns belongs to the caller and may be
// changed. Errors are faults: control.Exists, fault.WriteConflict and control.NotFound as the methods
// say, fault.APIUnavailable when it is not known whether a write has happened, anything else when the
// API server has refused.
type Objects interface {
	// Get fills object, of which namespace and name are set. It returns false if there is none.
	Get(ctx context.Context, object Object) (found bool, err error)
	// List fills list with all objects of its kind in the namespace that have the labels. It may be some
	// seconds late. An empty namespace means all, and for nodes it must be empty.
	List(ctx context.Context, list runtime.Object, namespace string, labels map[string]string) error
	// Create makes an object and fills it with what was stored. It fails with control.Exists.
	Create(ctx context.Context, object Object) error
	// Patch applies a JSON merge patch (RFC 7386) to metadata and spec, and fills object with what was
	// stored. It fails with control.NotFound, and with fault.WriteConflict if the patch has a
	// metadata.resourceVersion that is not the stored one.
	Patch(ctx context.Context, object Object, patch []byte) error
	// Delete deletes exactly this object: the one with its UID. One that is gone, or was made anew, is no
	// error.
	Delete(ctx context.Context, object Object) error
	// SaveStatus stores the status of one of the three kinds, and fills object with what was stored. It
	// fails with fault.WriteConflict if the stored object has another resource version, and with
	// control.NotFound.
	SaveStatus(ctx context.Context, object Object) error
	// UnknownFields returns the paths of the fields of spec that a stored object of one of the three kinds has and its
	// type does not: spec.automationOptions.fly, sorted. It may ask the API server itself; nil for what is not there.
	UnknownFields(ctx context.Context, object Object) ([]string, error)
	// Tell records an Event about an object. It does not wait, and it may be lost.
	Tell(about Object, event Event)
}

// Event tells people what has happened to an object.
type Event struct {
	Reason  string // in CamelCase
	Message string
	Warning bool
}

// Endpoint is a database, and the version of the tools that talk to it.
type Endpoint struct {
	Connection fdb.Connection // the content of the cluster file
	Version    fdb.Version
}

// Database runs the tools of FoundationDB. The version chooses the tools: those of its major.minor.
type Database interface {
	// Status reads the status document once. The fault fdb.StatusUnreadable, ToolsMissing or DatabaseSilent
	// says why there is none.
	Status(ctx context.Context, at Endpoint, limit Limit) (*fdb.Status, error)
	// Run runs one call, and judges what it printed. Version and ClusterFile of the call are set here.
	Run(ctx context.Context, at Endpoint, call fdb.Call) Answer
	// Transact reads ranges, lets decide judge, and commits its writes, in one transaction. decide is pure
	// and may be called again after a conflict; its error ends the transaction without a write, and is
	// Refused. Unknown: it may have been committed.
	Transact(ctx context.Context, at Endpoint, read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result
	// Versions are the lines of versions that there are tools for: 7.3.
	Versions() []string
}

// Limit is how long a status call may take.
type Limit int

// A status of a database that may not exist yet is waited for fdb.CallTimeout, any other
// fdb.LongCallTimeout.
const (
	Long Limit = iota
	Short
)

// Answer is the result of a call, and what the tool printed, which callers parse if they have asked for
// a document.
type Answer struct {
	fdb.Result
	Stdout string
}

// Sidecars talks to the sidecars of pods of the split image, over HTTP. Files are those below the
// sidecar's output folder. An error says that the sidecar cannot be reached, or did not understand.
type Sidecars interface {
	// Substitutions are the variables with which the pod's files are made.
	Substitutions(ctx context.Context, pod *corev1.Pod) (map[string]string, error)
	// Hash is the SHA-256 of a file in lower-case hexadecimal digits. Empty: there is none.
	Hash(ctx context.Context, pod *corev1.Pod, file string) (string, error)
	// Present reports whether a file is there: bin/7.3.69/fdbserver.
	Present(ctx context.Context, pod *corev1.Pod, file string) (bool, error)
	// Copy makes the files anew from the config map, as the pod sees it.
	Copy(ctx context.Context, pod *corev1.Pod) error
}

// The faults of databases that are not heard.
var (
	// ToolsMissing says that there are no tools for a version.
	ToolsMissing = fault.Declare(fault.Kind{
		Code: "FDB_TOOLS_MISSING", Class: fault.Blocked,
		Title:  "the operator has no tools for the version of the cluster",
		Remedy: "Add the version to foundationdb.versions of the chart, or put fdbcli, fdbbackup and fdbrestore of it into the folder that --fdb-tools names.",
		Guide:  "foundationdb.md#install",
	})
	// DatabaseSilent says that the database does not answer.
	DatabaseSilent = fault.Declare(fault.Kind{
		Code: "FDB_DATABASE_SILENT", Class: fault.Transient,
		Title:  "the database does not answer",
		Remedy: "See whether a majority of the coordinators runs and can be reached from the operator; pawl fdb analyze shows what it knows of each.",
		Guide:  "foundationdb.md#if-it-does-not-go-on",
	})
)

// EndpointOf returns the database of a cluster, and the version it runs. It fails with
// fdb.ConnectionInvalid, also while there is no connection string yet, and with fdb.VersionInvalid.
func EndpointOf(c *v1beta2.FoundationDBCluster) (Endpoint, error) {
	connection, err := fdb.ParseConnection(c.Status.ConnectionString)
	if err != nil {
		return Endpoint{}, err
	}
	version, err := fdb.ParseVersion(cmp.Or(c.Status.RunningVersion, c.Spec.Version))
	return Endpoint{Connection: connection, Version: version}, err
}
