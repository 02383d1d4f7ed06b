package foundationdb

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// WantsHeadlessService reports whether the spec asks for the service that gives the pods their names.
func WantsHeadlessService(spec v1beta2.FoundationDBClusterSpec) bool {
	return DefinesDNS(spec) || or(spec.Routing.HeadlessService, false)
}

// HeadlessService returns the service that gives the pods their names, or nil if the spec does not ask for it. The
// names are there before a pod is ready, as coordinators are found by them.
func HeadlessService(c *v1beta2.FoundationDBCluster) *corev1.Service {
	if !WantsHeadlessService(c.Spec) {
		return nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, Labels: ChildLabels(c), OwnerReferences: ownersOf(c)},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: MatchLabels(c), IPFamilies: familiesOf(c.Spec), PublishNotReadyAddresses: true,
		},
	}
}

// GroupService returns the service whose IP is the public one of a group, or nil if the spec does not ask for it. It
// has the ports of all servers of the pod.
func GroupService(c *v1beta2.FoundationDBCluster, id fdb.GroupID) *corev1.Service {
	if c.Spec.Routing.PublicIPSource != v1beta2.PublicIPService {
		return nil
	}
	var ports []corev1.ServicePort
	for n := range ServersPerPod(c.Spec, id.Class) {
		for _, a := range fdb.AddressesOf("", fdb.Required{TLS: true, NonTLS: true}, n+1) {
			name := "non-tls"
			if a.TLS {
				name = "tls"
			}
			if n > 0 {
				name += "-" + strconv.Itoa(n+1)
			}
			ports = append(ports, corev1.ServicePort{Name: name, Port: int32(a.Port)}) //nolint:gosec // of a few servers
		}
	}
	selector := MatchLabels(c)
	maps.Copy(selector, map[string]string{idLabels(c.Spec)[0]: id.String()})
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: PodName(c, id), Namespace: c.Namespace, Labels: GroupLabels(c, id), OwnerReferences: ownersOf(c)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Ports: ports, Selector: selector, IPFamilies: familiesOf(c.Spec), PublishNotReadyAddresses: true,
		},
	}
}

// familiesOf returns the IP families of services. nil: that of the Kubernetes cluster.
func familiesOf(spec v1beta2.FoundationDBClusterSpec) []corev1.IPFamily {
	if or(spec.Routing.PodIPFamily, 0) == 6 {
		return []corev1.IPFamily{corev1.IPv6Protocol}
	}
	return nil
}
