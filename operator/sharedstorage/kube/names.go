package kube

import (
	"net"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The labels of what belongs to a cluster.
const (
	ClusterLabel   = "pawl.dev/cluster"
	ComponentLabel = "pawl.dev/component" // instance, manager, volume
	InstanceLabel  = "pawl.dev/instance"  // own name of an instance
	IDLabel        = "pawl.dev/id"        // the place it holds
	TypeLabel      = "pawl.dev/type"      // rw, ro, tempro: as recorded
	RoleLabel      = "pawl.dev/role"      // rw, ro: to whom clients are sent; the Services select by it

	wantAnnotation   = "pawl.dev/instance" // of a claim: the instance as it was wanted first
	grantAnnotation  = "pawl.dev/grant"    // of the Lease: writer and epoch
	volumeAnnotation = "pawl.dev/volume"   // of the Lease: the volume
	secretAnnotation = "pawl.dev/secret"   // of a pod: the version of the Secret that it is to take
	usedAnnotation   = "pawl.dev/used-by"  // of a claim without an instance: who had it
)

const (
	instanceComponent = "instance"
	managerComponent  = "manager"
	volumeComponent   = "volume" // data without an instance: the next writer begins with them
	copyComponent     = "copy"   // fills a volume with the data of another cluster

	enginePort  = 5432
	managerPort = 7297
	agentPort   = 7298

	dataPath    = "/data"
	secretPath  = "/etc/pawl/secret"
	toolPath    = "/opt/pawl"
	scratchPath = "/scratch" // the only place besides the volume that can be written

	tokenKey, passwordKey = "token", "password"
)

func grantName(c port.Ref) string       { return c.Name + "-grant" }
func secretName(c port.Ref) string      { return c.Name + "-auth" }
func managerName(c port.Ref) string     { return c.Name + "-manager" }
func instanceAccount(c port.Ref) string { return c.Name + "-instance" }

// PodName is that of the pod of an instance: its own, behind that of its cluster.
func PodName(id port.Ref) string {
	if strings.HasPrefix(id.Instance, id.Name+"-") {
		return id.Instance
	}
	return id.Name + "-" + id.Instance
}

func copyName(c port.Ref) string            { return c.Name + "-copy" }
func join(host string, number int32) string { return net.JoinHostPort(host, strconv.Itoa(int(number))) }

// meta is what all objects of a cluster have.
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
