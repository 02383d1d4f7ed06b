// Package upgrades says what holds back an upgrade to a version that cannot talk to the one that runs, before it begins and
// once the servers are to restart, and which servers it has left behind.
package upgrades

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const (
	reasonClients = "ClientsTooOld"
	soon          = 15 * time.Second // until it is looked at again
	late          = time.Minute
)

// Hold is what holds back an incompatible upgrade. The zero value: nothing does.
type Hold struct {
	Reason  string // in CamelCase
	Message string
	Needs   string        // what the cluster needs, among other things
	Again   time.Duration // until it is looked at again
}

// Judge finds out what holds back an incompatible upgrade: clients could not follow it,
// or nobody can say so; some data cannot be read, since a server that is down comes back by the new
// files, with a version that those which run cannot talk to; or there are pods whose servers cannot be told to,
// since an upgrade makes no pod anew. Once a server speaks the new protocol it is too late for that. versions are the lines of
// which there are tools; nil: any. The upgrade is held without a word while the database is silent.
func Judge(s servers.Servers, desired string, versions func() []string) (hold Hold, held bool) {
	if !foundationdb.UpgradesIncompatibly(s.Cluster) || !s.Cluster.Status.Configured || s.Run(desired) {
		return Hold{}, false
	}
	target, err := fdb.ParseVersion(desired)
	if err != nil {
		return Hold{}, false
	}
	if s.Status == nil {
		return Hold{}, !sidecarsAt(s, desired)
	}
	if lines := versions(); lines != nil && !slices.Contains(lines, target.Short()) {
		return Hold{port.ToolsMissing.Reason(), "there are no tools for " + target.Short() + ", to which the cluster is to be upgraded.", "the upgrade waits for tools", late}, true
	}
	if left := s.Status.Cluster.Data.State.MinReplicasRemaining; (left == nil || *left == 0) && !sidecarsAt(s, desired) && !othersSpeak(s, 0) || left != nil && *left == 0 && !ahead(s) {
		return Hold{fdb.DataUnhealthy, "some data cannot be read: servers that are down would come back with " + desired + " alone", "the upgrade waits for data that cannot be read", soon}, true
	}
	lacking, hold := Lacking(s)
	if s.Cluster.Spec.IgnoreUpgradabilityChecks {
		return hold, len(lacking) > 0
	}
	var ignored, addresses []string
	for _, group := range s.Cluster.Spec.AutomationOptions.IgnoreLogGroupsForUpgrade {
		ignored = append(ignored, string(group))
	}
	for i := range s.Cluster.Status.ProcessGroups {
		addresses = append(addresses, s.Cluster.Status.ProcessGroups[i].Addresses...)
	}
	if clients := fdb.UnsupportedClients(s.Status, target, ignored, addresses); len(clients) > 0 {
		return Hold{reasonClients, clientTexts(clients, desired), "clients hold back the upgrade", late}, true
	}
	return hold, len(lacking) > 0
}

// Lacking finds the pods that cannot take the files of the spec: those that stay are made anew first, those that go
// and still serve go first, since they would not restart with the others.
func Lacking(s servers.Servers) (lacking map[v1beta2.ProcessGroupID]bool, hold Hold) {
	lacking = map[v1beta2.ProcessGroupID]bool{}
	why := ""
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		id, err := fdb.ParseGroupID(string(g.ProcessGroupID))
		pod := s.Pod(g.ProcessGroupID)
		if err != nil || g.Marked() && len(s.Processes[g.ProcessGroupID]) == 0 || pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if name := foundationdb.LacksVariable(s.Cluster, id, pod); name != "" {
			lacking[g.ProcessGroupID] = true
			why = string(g.ProcessGroupID) + " has no variable " + name
		}
	}
	if len(lacking) > 0 {
		hold = Hold{"UpgradeWaitsForPods", fmt.Sprintf("%d pods are made anew or go before the upgrade: %s", len(lacking), why), "pods are to be made anew or to go: " + why, soon}
	}
	return lacking, hold
}

// ahead reports whether the upgrade has begun, or may have: the database is not available, or servers of ours speak another
// protocol already.
func ahead(s servers.Servers) bool { return !s.Cluster.Status.Health.Available || othersSpeak(s, 0) }

// sidecarsAt reports whether a pod has the sidecar of a version already.
func sidecarsAt(s servers.Servers, version string) bool {
	c := *s.Cluster
	c.Spec.Version = version
	for i := range c.Status.ProcessGroups {
		g := &c.Status.ProcessGroups[i]
		if pod := s.Pod(g.ProcessGroupID); pod != nil {
			if image, err := foundationdb.SidecarImage(&c, fdb.Class(g.ProcessClass), foundationdb.ImageTypeOf(pod)); err == nil && foundationdb.ContainerImage(pod, foundationdb.SidecarContainer) == image {
				return true
			}
		}
	}
	return false
}

// clientTexts names clients, at most ten of them.
func clientTexts(clients []fdb.Client, version string) string {
	texts := make([]string, 0, 10)
	for i, c := range clients {
		if i == cap(texts) {
			texts = append(texts, fmt.Sprintf("and %d more", len(clients)-i))
			break
		}
		texts = append(texts, c.String())
	}
	count := "1 client"
	if len(clients) != 1 {
		count = fmt.Sprintf("%d clients", len(clients))
	}
	return fmt.Sprintf("%s would lose the database at %s: %s", count, version, strings.Join(texts, ", "))
}
