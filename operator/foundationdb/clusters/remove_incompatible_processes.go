package clusters

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// removeIncompatibleProcesses deletes the pods of servers that speak another protocol than the database:
// they take no part in it, so no gate applies. While the database is not available what they hold may be
// all that there is, so they stay.
func removeIncompatibleProcesses(p *pass) decision {
	if p.options.KeepIncompatible || foundationdb.UpgradesIncompatibly(p.cluster) || p.desired != p.cluster.Spec.Version || !p.cluster.Status.Health.Available {
		return decision{}
	}
	var victims []*corev1.Pod
	for _, text := range p.status.Cluster.IncompatibleConnections {
		a, err := fdb.ParseAddress(text)
		if err != nil || p.reportsAt(a) {
			continue
		}
		if g := p.groupAt(a); g != nil {
			pod := p.member(g.ProcessGroupID).pod
			if pod != nil && pod.DeletionTimestamp == nil && !slices.Contains(victims, pod) {
				victims = append(victims, pod)
			}
		}
	}
	return deletes(p, "delete pod of another protocol", victims, "its servers cannot talk to the database, and none of them reports",
		outcome.Later(startAgain, "IncompatibleProcesses", "%d pods have servers of another protocol", len(victims)))
}

// reportsAt reports whether a process reports at an address.
func (p *pass) reportsAt(a fdb.Address) bool {
	return slices.ContainsFunc(p.status.Cluster.Processes, func(process fdb.Process) bool {
		return slices.ContainsFunc(process.Addresses(), func(own fdb.Address) bool {
			return own.Host == a.Host && (a.Port == 0 || own.Port == a.Port)
		})
	})
}

// groupAt is the group of which the pod has an address; nil: none, or none of whose servers is silent.
func (p *pass) groupAt(a fdb.Address) *v1beta2.ProcessGroupStatus {
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		if pod != nil && slices.Contains(foundationdb.PublicIPs(pod), a.Host) && g.Has(v1beta2.MissingProcesses) {
			return g
		}
	}
	return nil
}
