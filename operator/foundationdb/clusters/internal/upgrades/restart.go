package upgrades

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

// patience is for how long a recovery may take that servers of the new version are missed in.
const patience = 2 * time.Minute

// Begun reports whether some of our servers speak the protocol of the new version already, and others not yet, and the
// database is not available for that, or does not recover: a restart has reached some of them only, or servers that
// stood still have begun with the new files.
func Begun(s servers.Servers) bool {
	if s.Status.Client.DatabaseStatus.Available == nil {
		return false
	}
	state, missed := s.Status.Cluster.RecoveryState.Name, time.Duration(0)
	if s.Cluster.Status.Health.Available {
		if missed = patience; state == "" || state == "fully_recovered" {
			return false
		}
	}
	return othersSpeak(s, missed)
}

// othersSpeak reports whether servers of ours, missed for so long, speak another protocol than the database.
func othersSpeak(s servers.Servers, missed time.Duration) bool {
	return slices.ContainsFunc(s.Status.Cluster.IncompatibleConnections, func(text string) bool {
		a, err := fdb.ParseAddress(text)
		if err != nil || s.ReportsAt(a) {
			return false
		}
		g := s.GroupAt(a)
		return g != nil && (missed == 0 || g.Lasts(v1beta2.MissingProcesses, missed, s.Now))
	})
}

// Waits says why not all servers can restart now, with a reason; empty: they can. They are those of groups that are to go too, and as many of
// each pod as it was made with.
func Waits(s servers.Servers, version string) (reason, message string) {
	expected, ready := 0, 0
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		if foundationdb.IgnoredAtRestart(*g, s.Cluster.Spec, s.Now) {
			continue
		}
		servers := foundationdb.ServersPerPod(s.Cluster.Spec, fdb.Class(g.ProcessClass))
		if pod := s.Pod(g.ProcessGroupID); pod != nil {
			servers = foundationdb.ServersIn(pod)
		}
		expected += servers
		ready += min(servers, len(s.Reported(g)))
	}
	for _, process := range s.Status.Cluster.Processes {
		if process.Class != fdb.ClassTest && (process.Address == (fdb.Address{}) || process.Version == "" || process.CommandLine == "") {
			return fdb.StatusIncomplete, "a server reports without address, version or arguments, and none may be left behind"
		}
	}
	if ready < expected {
		return "UpgradeWaitsForServers", fmt.Sprintf("%d of %d servers are ready for version %s", ready, expected, version)
	}
	return "", ""
}

// Unregistered are the groups whose servers are not at the version yet and that nobody has registered.
func Unregistered(s servers.Servers, version string, listed map[string]bool) []string {
	var missing []string
	for _, process := range s.Status.Cluster.Processes {
		id := process.Locality[fdb.InstanceLocality]
		if process.Class == fdb.ClassTest || process.Version == version || listed[id] {
			continue
		}
		if id == "" {
			id = fmt.Sprint(process.Address)
		}
		missing = append(missing, id)
	}
	return missing
}
