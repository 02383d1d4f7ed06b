package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/outcome"
)

// observe brings the status of the cluster up to what was gathered. Nothing is written yet.
func (p *pass) observe() {
	s := &p.cluster.Status
	p.owner = adoption.OwnerOf(p.stored, len(p.members), p.options.AdoptAtOnce)
	recoverStatus(s, p.configMap, p.desired)
	groups.Adopt(p.cluster, p.members)
	p.order()
	if connection, told := probe.Observe(p.servers()); told {
		p.connect(connection)
	}
	if s.RunningVersion != p.stored.Status.RunningVersion {
		p.validate()
	}
	p.holdUpgrade()
	for _, id := range p.cluster.Spec.ProcessGroupsToRemove {
		p.ours.Mark(id, false, p.now)
	}
	for _, id := range p.cluster.Spec.ProcessGroupsToRemoveWithoutExclusion {
		p.ours.Mark(id, true, p.now)
	}
	groups.ObservePods(p.cluster, p.member)
	s.RequiredAddresses = requiredAddresses(p.cluster)

	wanted, err := foundationdb.ConfigMap(p.cluster)
	if err == nil {
		p.wanted = wanted
	} else if len(p.problems) == 0 {
		p.problems = append(p.problems, foundationdb.Problem{Path: "spec", Reason: err.Error()})
	}
	s.HasIncorrectConfigMap = p.wanted == nil || !covers(p.configMap, p.wanted)
	s.HasIncorrectServiceConfig = servicesDiffer(p.servers(), p.headless, p.member)
	p.pods = p.memory.pods.Renewed(p.cluster)
	p.memory.pods = p.pods
	p.keepClaims()
	judge := groups.Judge{Servers: p.servers(), Desired: p.desired, Pods: p.pods, Wanted: p.wanted, Nodes: p.nodes, Limits: p.limits}
	judge.Observe(p.member)
	p.count()
}

// recoverStatus fills in what a lost status has forgotten.
func recoverStatus(s *v1beta2.FoundationDBClusterStatus, configMap *corev1.ConfigMap, version string) {
	if s.ConnectionString == "" && configMap != nil {
		if _, err := fdb.ParseConnection(configMap.Data[foundationdb.ClusterFileKey]); err == nil {
			s.ConnectionString = configMap.Data[foundationdb.ClusterFileKey]
		}
	}
	if s.RunningVersion == "" && configMap != nil {
		if _, err := fdb.ParseVersion(configMap.Data[foundationdb.RunningVersionKey]); err == nil {
			s.RunningVersion = configMap.Data[foundationdb.RunningVersionKey]
		}
	}
	if s.RunningVersion == "" {
		s.RunningVersion = version
	}
}

// order sorts the groups, so that the status does not depend on the order of lists.
func (p *pass) order() {
	slices.SortFunc(p.cluster.Status.ProcessGroups, func(a, b v1beta2.ProcessGroupStatus) int {
		return strings.Compare(string(a.ProcessGroupID), string(b.ProcessGroupID))
	})
	p.index()
}

// requiredAddresses are those of the spec and those of the coordinators, which keep theirs until they
// have moved.
func requiredAddresses(c *v1beta2.FoundationDBCluster) v1beta2.RequiredAddressSet {
	tls := c.Spec.MainContainer.EnableTLS
	need := v1beta2.RequiredAddressSet{TLS: tls, NonTLS: !tls}
	if connection, err := fdb.ParseConnection(c.Status.ConnectionString); err == nil {
		for _, a := range connection.Coordinators {
			need.TLS = need.TLS || a.TLS
			need.NonTLS = need.NonTLS || !a.TLS
		}
	}
	return need
}

// covers reports whether a stored config map has the files that are wanted and no other, and at least
// the wanted labels and annotations.
func covers(stored, wanted *corev1.ConfigMap) bool {
	return stored != nil && maps.Equal(stored.Data, wanted.Data) && includes(stored.Labels, wanted.Labels) && includes(stored.Annotations, wanted.Annotations)
}

// includes reports whether a map has all entries of another one.
func includes(all, some map[string]string) bool {
	for name, value := range some {
		if have, ok := all[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// count fills in what follows from the rest of the status.
func (p *pass) count() {
	s := &p.cluster.Status
	desired := 0
	for _, n := range foundationdb.Groups(p.cluster.Spec) {
		desired += max(0, n)
	}
	s.DesiredProcessGroups, s.ReconciledProcessGroups = desired, 0
	for i := range s.ProcessGroups {
		g := &s.ProcessGroups[i]
		if !g.Marked() && (g.Has(v1beta2.ProcessGroupConditionReady) || len(g.ProcessGroupConditions) == 1 && g.Has(v1beta2.ProcessHasHighRunLoopBusy)) {
			s.ReconciledProcessGroups++
		}
	}
	s.Groups = fmt.Sprintf("%d/%d", s.ReconciledProcessGroups, s.DesiredProcessGroups)
	judged := *p.cluster
	judged.Spec.Version = p.desired
	s.Generations, p.asDesired = foundationdb.Generations(&judged, foundationdb.GenerationFacts{})
}

// reconciled reports whether nothing is left to do.
func (p *pass) reconciled() bool {
	return p.asDesired && p.held.Reason == ""
}

// updateStatus is the first link. What it says has been observed before the chain began.
func updateStatus(p *pass) decision {
	if len(p.problems) > 0 {
		return later(0, foundationdb.SpecInvalid.Reason(), "%s", p.findings().Refusal())
	}
	return acts(outcome.Done(), p.synchronising()...)
}

// concludeStatus is the last link.
func concludeStatus(p *pass) decision {
	p.count()
	if p.reconciled() {
		if p.memory.lockMayBeOurs {
			return acts(outcome.Done(), act{Name: "release the lock", Do: releaseLock})
		}
		return decision{}
	}
	return later(settleAgain, "NotReconciled", "%s", p.findings().Needs())
}
