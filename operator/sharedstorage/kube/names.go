package kube

import (
	"net"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The labels of the objects of a cluster.
const (
	ClusterLabel   = "pawl.dev/cluster"
	ComponentLabel = "pawl.dev/component" // instance, manager, volume
	InstanceLabel  = "pawl.dev/instance"  // name of an instance
	IDLabel        = "pawl.dev/id"        // the place that it holds
	TypeLabel      = "pawl.dev/type"      // rw, ro, tempro, as recorded
	RoleLabel      = "pawl.dev/role"      // rw or ro if clients are sent to it; the Services select by it

	wantAnnotation   = "pawl.dev/instance"    // on a claim: the instance as it was last requested; on a pod: as it was made
	grantAnnotation  = "pawl.dev/grant"       // on the Lease: writer and epoch
	volumeAnnotation = "pawl.dev/volume"      // on the Lease: the volume
	secretAnnotation = "pawl.dev/secret"      // on a pod: the version of the Secret that it should use
	usedAnnotation   = "pawl.dev/used-by"     // on a claim without an instance: who had it
	ownerAnnotation  = "pawl.dev/cluster-uid" // on a claim: uid of the cluster whose data it has

	suspendedAnnotation = "pawl.dev/suspended" // on a claim: since when its instance has no pod on purpose
)

const (
	instanceComponent = "instance"
	managerComponent  = "manager"
	volumeComponent   = "volume" // data without an instance: the next writer uses them
	copyComponent     = "copy"   // copies the data of another cluster into a volume

	enginePort  = 5432
	managerPort = 7297
	agentPort   = 7298

	dataPath    = "/data"
	secretPath  = "/etc/pawl/secret"
	metricsPath = "/etc/pawl/metrics"
	queriesKey  = "queries.yaml"
	toolPath    = "/opt/pawl"
	scratchPath = "/scratch" // the only writable place besides the volume

	tokenKey, passwordKey = "token", "password"
)

func grantName(c port.Ref) string   { return c.Name + "-grant" }
func secretName(c port.Ref) string  { return c.Name + "-auth" }
func managerName(c port.Ref) string { return c.Name + "-manager" }

// managerAccount is named so that an admission rule (deploy/chart/templates/managers.yaml) knows the
// accounts of cluster managers, and their cluster, by their names.
func managerAccount(c port.Ref) string { return c.Name + ".manager.pawl.dev" }

func instanceAccount(c port.Ref) string { return c.Name + "-instance" }

// PodName returns the name of the pod of an instance: the names of its cluster and of the
// instance.
func PodName(id port.Ref) string {
	if strings.HasPrefix(id.Instance, id.Name+"-") {
		return id.Instance
	}
	return id.Name + "-" + id.Instance
}

func copyName(c port.Ref) string            { return c.Name + "-copy" }
func join(host string, number int32) string { return net.JoinHostPort(host, strconv.Itoa(int(number))) }

// meta returns the metadata that all objects of a cluster have.
func meta(c port.Ref, name, component string) metav1.ObjectMeta {
	labels := map[string]string{
		"app.kubernetes.io/name": "pawl-sharedstorage", "app.kubernetes.io/instance": c.Name, "app.kubernetes.io/managed-by": "pawl", ClusterLabel: c.Name,
	}
	if component != "" {
		labels[ComponentLabel], labels["app.kubernetes.io/component"] = component, component
	}
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: labels}
}

const second = time.Second

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func ptr[T any](v T) *T { return &v }
