package clusters

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const reasonClients = "ClientsTooOld"

// checkClientCompatibility reports an upgrade that waits for its clients. It was held when the pass
// began, so that all is judged by the version that holds: replacements and removals go on.
func checkClientCompatibility(p *pass) decision {
	if p.held.reason == "" {
		return decision{}
	}
	return later(p.held.again, p.held.reason, "%s", p.held.message)
}

// upgradeHold is what holds back an incompatible upgrade. The zero value: nothing does.
type upgradeHold struct {
	reason  string // in CamelCase
	message string
	needs   string        // what the cluster needs, among other things
	again   time.Duration // until it is looked at again
}

// holdUpgrade keeps the running version for this pass while clients could not follow an incompatible
// upgrade, or while nobody can say so; while some data cannot be read, since a server that is down comes back by the new
// files, with a version that those which run cannot talk to; and while there are pods whose servers cannot be told to,
// since an upgrade makes no pod anew. Once a server speaks the new protocol it is too late for that.
func (p *pass) holdUpgrade() {
	if !foundationdb.UpgradesIncompatibly(p.cluster) || !p.cluster.Status.Configured || p.reports(p.desired) {
		return
	}
	target, err := fdb.ParseVersion(p.desired)
	if err != nil {
		return
	}
	if p.status == nil {
		if !p.sidecarsAt(p.desired) {
			p.cluster.Spec.Version = p.cluster.Status.RunningVersion
		}
		return
	}
	if lines := p.database.Versions(); lines != nil && !slices.Contains(lines, target.Short()) { // nil: a plan, made elsewhere
		p.held = upgradeHold{port.ToolsMissing.Reason(), "there are no tools for " + target.Short() + ", to which the cluster is to be upgraded.", "the upgrade waits for tools", clientsAgain}
		p.cluster.Spec.Version = p.cluster.Status.RunningVersion
		return
	}
	if left := p.status.Cluster.Data.State.MinReplicasRemaining; (left == nil || *left == 0) && !p.sidecarsAt(p.desired) {
		p.held = upgradeHold{fdb.DataUnhealthy, "some data cannot be read: servers that are down would come back with " + p.desired + " alone", "the upgrade waits for data that cannot be read", startAgain}
		p.cluster.Spec.Version = p.cluster.Status.RunningVersion
		return
	}
	if p.findLacking(); len(p.lackVariable) > 0 {
		p.cluster.Spec.Version = p.cluster.Status.RunningVersion
	}
	if p.cluster.Spec.IgnoreUpgradabilityChecks {
		return
	}
	var ignored, servers []string
	for _, group := range p.cluster.Spec.AutomationOptions.IgnoreLogGroupsForUpgrade {
		ignored = append(ignored, string(group))
	}
	for i := range p.cluster.Status.ProcessGroups {
		servers = append(servers, p.cluster.Status.ProcessGroups[i].Addresses...)
	}
	if clients := fdb.UnsupportedClients(p.status, target, ignored, servers); len(clients) > 0 {
		p.held = upgradeHold{reasonClients, clientTexts(clients, p.desired), "clients hold back the upgrade", clientsAgain}
		p.cluster.Spec.Version = p.cluster.Status.RunningVersion
	}
}

// findLacking finds the pods that cannot take the files of the spec: those that stay are made anew first, those that go
// and still serve go first, since they would not restart with the others.
func (p *pass) findLacking() {
	p.lackVariable = map[v1beta2.ProcessGroupID]bool{}
	why := ""
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		id, known := p.ids[g.ProcessGroupID]
		pod := p.member(g.ProcessGroupID).pod
		if !known || g.Marked() && len(p.processes[g.ProcessGroupID]) == 0 || pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if name := foundationdb.LacksVariable(p.cluster, id, pod); name != "" {
			p.lackVariable[g.ProcessGroupID] = true
			why = string(g.ProcessGroupID) + " has no variable " + name
		}
	}
	if len(p.lackVariable) > 0 {
		p.held = upgradeHold{"UpgradeWaitsForPods", fmt.Sprintf("%d pods are made anew or go before the upgrade: %s", len(p.lackVariable), why), "pods are to be made anew or to go: " + why, startAgain}
	}
}

// reports reports whether a server of our data center runs a version.
func (p *pass) reports(version string) bool {
	for _, processes := range p.processes {
		for _, process := range processes {
			if process.Version == version && process.Class != fdb.ClassTest {
				return true
			}
		}
	}
	return false
}

// sidecarsAt reports whether a pod has the sidecar of a version already.
func (p *pass) sidecarsAt(version string) bool {
	c := *p.cluster
	c.Spec.Version = version
	for id, m := range p.members {
		if g := p.group(id); g != nil && m.pod != nil {
			if image, err := foundationdb.SidecarImage(&c, classOf(g)); err == nil && imageOf(m.pod, foundationdb.SidecarContainer) == image {
				return true
			}
		}
	}
	return false
}
