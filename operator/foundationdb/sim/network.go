package sim

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
)

// network gives IPs, and resolves the names of pods.
type network struct {
	w         *World
	addresses int // that were given to pods
	services  int // IPs that were given to services
}

// resolve cuts off the coordinators whose name of the cluster file has no IP any more, for a moment: it is
// called again and again.
func (nw *network) resolve() (lost int) {
	for _, a := range nw.w.database.Connection().Coordinators {
		if _, err := netip.ParseAddr(a.Host); err != nil && !nw.resolves(a.Host) {
			nw.w.database.Inject(fdbsim.Fault{Kind: fdbsim.FaultPartition, Address: a, For: nw.w.options.Times.Watch + time.Second})
			lost++
		}
	}
	return lost
}

// forget judges the deletion of a service on behalf of an owner: the names that it gave are gone.
func (nw *network) forget(s *corev1.Service, owner string) {
	nw.w.database.By(owner, func() {
		if all := len(nw.w.database.Connection().Coordinators); owner != "" && all > 0 && 2*nw.resolve() >= all {
			nw.w.database.Broken(3, "the service %s is deleted, and the names of a majority of coordinators with it", nameOf(s))
		}
	})
}

// resolves reports whether the name of a pod has an IP: its service gives it one, to a pod that has asked for the
// name. A pod that is not there is none of our trouble.
func (nw *network) resolves(host string) bool {
	parts := strings.SplitN(host, ".", 5)
	if len(parts) < 4 || parts[3] != "svc" {
		return true // not a name of Kubernetes
	}
	p := get[*corev1.Pod](nw.w.store, name{parts[2], parts[0]})
	if p == nil || p.Status.PodIP == "" {
		return true
	}
	s := get[*corev1.Service](nw.w.store, name{parts[2], parts[1]})
	return s != nil && has(p.Labels, s.Spec.Selector) && p.Spec.Hostname == parts[0] && p.Spec.Subdomain == parts[1] && (ready(p) || s.Spec.PublishNotReadyAddresses)
}

// leads reports whether a name is that of the pod of a server. The server need not know it: a client looks it up.
func (nw *network) leads(server, host string) bool {
	s := nw.w.kubelet.servers[server]
	if s == nil {
		return false
	}
	o := s.p.object()
	return o != nil && o.Spec.Hostname != "" && strings.HasPrefix(host, o.Spec.Hostname+"."+o.Spec.Subdomain+"."+o.Namespace+".svc.")
}

// podIPs returns new IPs for a pod.
func (nw *network) podIPs() []string {
	nw.addresses++
	var ips []string
	for _, family := range nw.w.options.Families {
		if family == 6 {
			ips = append(ips, fmt.Sprintf("fd00::%x", nw.addresses))
			continue
		}
		ips = append(ips, fmt.Sprintf("10.1.%d.%d", nw.addresses/250, nw.addresses%250+1))
	}
	return ips
}

// serviceIP returns a new IP for a service.
func (nw *network) serviceIP(s *corev1.Service) string {
	nw.services++
	family := nw.w.options.Families[0]
	if len(s.Spec.IPFamilies) > 0 {
		family = map[corev1.IPFamily]int{corev1.IPv4Protocol: 4, corev1.IPv6Protocol: 6}[s.Spec.IPFamilies[0]]
	}
	if family == 6 {
		return fmt.Sprintf("fd01::%x", nw.services)
	}
	return fmt.Sprintf("10.96.%d.%d", nw.services/250, nw.services%250+1)
}
