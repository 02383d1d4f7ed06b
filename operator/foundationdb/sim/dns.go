package sim

import (
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
)

// resolveNames cuts off the coordinators whose name of the cluster file has no IP any more, for a moment: it is
// called again and again.
func (w *World) resolveNames() (lost int) {
	for _, a := range w.database.Connection().Coordinators {
		if _, err := netip.ParseAddr(a.Host); err != nil && !w.resolves(a.Host) {
			w.database.Inject(fdbsim.Fault{Kind: fdbsim.FaultPartition, Address: a, For: w.options.Times.Watch + time.Second})
			lost++
		}
	}
	return lost
}

// forgetNames judges the deletion of a service on behalf of an owner: the names that it gave are gone.
func (w *World) forgetNames(s *corev1.Service, owner string) {
	w.database.By(owner, func() {
		if all := len(w.database.Connection().Coordinators); owner != "" && all > 0 && 2*w.resolveNames() >= all {
			w.database.Broken(3, "the service %s is deleted, and the names of a majority of coordinators with it", nameOf(s))
		}
	})
}

// resolves reports whether the name of a pod has an IP: its service gives it one, to a pod that has asked for the
// name. A pod that is not there is none of our trouble.
func (w *World) resolves(host string) bool {
	parts := strings.SplitN(host, ".", 5)
	if len(parts) < 4 || parts[3] != "svc" {
		return true // not a name of Kubernetes
	}
	p := get[*corev1.Pod](w.store, name{parts[2], parts[0]})
	if p == nil || p.Status.PodIP == "" {
		return true
	}
	s := get[*corev1.Service](w.store, name{parts[2], parts[1]})
	return s != nil && has(p.Labels, s.Spec.Selector) && p.Spec.Hostname == parts[0] && p.Spec.Subdomain == parts[1] && (ready(p) || s.Spec.PublishNotReadyAddresses)
}

// leads reports whether a name is that of the pod of a server. The server need not know it: a client looks it up.
func (w *World) leads(server, host string) bool {
	s := w.servers[server]
	if s == nil {
		return false
	}
	o := s.p.object()
	return o != nil && o.Spec.Hostname != "" && strings.HasPrefix(host, o.Spec.Hostname+"."+o.Spec.Subdomain+"."+o.Namespace+".svc.")
}
