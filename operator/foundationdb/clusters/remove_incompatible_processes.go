package clusters

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/outcome"
)

// removeIncompatibleProcesses deletes the pods of servers that speak another protocol than the database:
// they take no part in it, so no gate applies. While the database is not available what they hold may be
// all that there is, so they stay, but for those that an upgrade has left behind.
func removeIncompatibleProcesses(p *pass) decision {
	if p.options.KeepIncompatible || foundationdb.UpgradesIncompatibly(p.cluster) || p.desired != p.cluster.Spec.Version {
		return decision{}
	}
	if !p.cluster.Status.Health.Available {
		return removeLeftBehind(p)
	}
	var victims []*corev1.Pod
	for _, text := range p.status.Cluster.IncompatibleConnections {
		a, err := fdb.ParseAddress(text)
		if err != nil || p.servers().ReportsAt(a) {
			continue
		}
		if g := p.servers().GroupAt(a); g != nil {
			pod := p.member(g.ProcessGroupID).Pod
			if pod != nil && pod.DeletionTimestamp == nil && !slices.Contains(victims, pod) {
				victims = append(victims, pod)
			}
		}
	}
	return deletes("delete pod of another protocol", victims, "its servers cannot talk to the database, and none of them reports",
		outcome.Later(startAgain, "IncompatibleProcesses", "%d pods have servers of another protocol", len(victims)))
}

// removeLeftBehind deletes the pods of servers that an upgrade has left behind, where the database is not available for
// that: all at once, since it waits for all of them.
func removeLeftBehind(p *pass) decision {
	if p.unavailableFor() < recoveryWait {
		return decision{}
	}
	pods := upgrades.LeftBehind(p.servers(), recoveryWait)
	return deletes("delete pod that the upgrade has left behind", pods, "the coordinators speak "+p.desired+" already, which its servers do not; its claim stays",
		outcome.Later(startAgain, "UpgradeLeftBehind", "%d pods have servers of the version from before the upgrade, which nobody reaches any more", len(pods)))
}
