package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// observe brings the status of the cluster up to what was gathered. Nothing is written yet.
func (p *pass) observe() {
	s := &p.cluster.Status
	p.observeOwner()
	p.recover()
	p.adopt()
	p.observeDatabase()
	if s.RunningVersion != p.stored.Status.RunningVersion {
		p.validate()
	}
	p.holdUpgrade()
	p.mark()
	p.observePods()
	s.RequiredAddresses = p.requiredAddresses()

	wanted, err := foundationdb.ConfigMap(p.cluster)
	if err == nil {
		p.wanted = wanted
	} else if len(p.problems) == 0 {
		p.problems = append(p.problems, foundationdb.Problem{Path: "spec", Reason: err.Error()})
	}
	s.HasIncorrectConfigMap = p.wanted == nil || !covers(p.configMap, p.wanted)
	s.HasIncorrectServiceConfig = p.servicesDiffer()
	p.pods = p.memory.pods.Renewed(p.cluster)
	p.memory.pods = p.pods
	p.keepClaims()
	p.observeGroups()
	p.count()
}

// recover fills in what a lost status has forgotten.
func (p *pass) recover() {
	s := &p.cluster.Status
	if s.ConnectionString == "" && p.configMap != nil {
		if _, err := fdb.ParseConnection(p.configMap.Data[foundationdb.ClusterFileKey]); err == nil {
			s.ConnectionString = p.configMap.Data[foundationdb.ClusterFileKey]
		}
	}
	if s.RunningVersion == "" && p.configMap != nil {
		if _, err := fdb.ParseVersion(p.configMap.Data[foundationdb.RunningVersionKey]); err == nil {
			s.RunningVersion = p.configMap.Data[foundationdb.RunningVersionKey]
		}
	}
	if s.RunningVersion == "" {
		s.RunningVersion = p.desired
	}
}

// adopt makes groups of children that belong to none. A group is saved before its children are made, so
// a claim without a group is that of a database that was there before: it is never created again.
func (p *pass) adopt() {
	for _, id := range slices.Sorted(maps.Keys(p.members)) {
		m := p.members[id]
		parsed, err := fdb.ParseGroupID(string(id))
		if p.ours[id] != nil || err != nil || m.pod == nil && m.claim == nil && m.service == nil {
			continue
		}
		p.cluster.Status.ProcessGroups = append(p.cluster.Status.ProcessGroups, v1beta2.ProcessGroupStatus{
			ProcessGroupID: id, ProcessClass: v1beta2.ProcessClass(parsed.Class),
		})
		p.cluster.Status.Configured = p.cluster.Status.Configured || m.claim != nil
	}
	p.order()
}

// order sorts the groups, so that the status does not depend on the order of lists.
func (p *pass) order() {
	slices.SortFunc(p.cluster.Status.ProcessGroups, func(a, b v1beta2.ProcessGroupStatus) int {
		return strings.Compare(string(a.ProcessGroupID), string(b.ProcessGroupID))
	})
	p.index()
}

// observeDatabase takes over what the database says of itself.
func (p *pass) observeDatabase() {
	s := &p.cluster.Status
	if p.status == nil {
		s.Health.Available, s.Health.Healthy = false, false
		return
	}
	d := p.status
	s.Health = v1beta2.ClusterHealth{
		Available: yes(d.Client.DatabaseStatus.Available), Healthy: yes(d.Client.DatabaseStatus.Healthy),
		FullReplication: yes(d.Cluster.FullReplication), DataMovementPriority: number(d.Cluster.Data.MovingData.HighestPriority),
	}
	counts := map[string]int{}
	for _, processes := range p.processes {
		for _, process := range processes {
			if process.Version != "" && process.Class != fdb.ClassTest {
				counts[process.Version]++
			}
		}
	}
	s.RunningVersion = fdb.RunningVersion(counts, s.RunningVersion)
	if !s.Health.Available {
		return
	}
	missing := d.Cluster.Layers.Error == configurationMissing
	s.Configured = s.Configured || !missing
	if live := d.Cluster.Configuration; live != nil && !missing {
		s.DatabaseConfiguration = foundationdb.ConfigurationIn(live.Normalized())
	}
	if c, err := fdb.ParseConnection(d.Cluster.ConnectionString); err == nil {
		p.connect(c)
	}
	if verdict, err := fdb.JudgeCoordinators(d, foundationdb.Wish(p.cluster)); err == nil {
		s.NeedsNewCoordinators = !verdict.Valid
	}
}

// configurationMissing is what layers say while there is no configuration (fdbserver/Status.actor.cpp at
// 7.3.69).
const configurationMissing = "configurationMissing"

// requiredAddresses are those of the spec and those of the coordinators, which keep theirs until they
// have moved.
func (p *pass) requiredAddresses() v1beta2.RequiredAddressSet {
	tls := p.cluster.Spec.MainContainer.EnableTLS
	need := v1beta2.RequiredAddressSet{TLS: tls, NonTLS: !tls}
	if c, err := fdb.ParseConnection(p.cluster.Status.ConnectionString); err == nil {
		for _, a := range c.Coordinators {
			need.TLS = need.TLS || a.TLS
			need.NonTLS = need.NonTLS || !a.TLS
		}
	}
	return need
}

// mark marks the groups that the removal lists name.
func (p *pass) mark() {
	spec := p.cluster.Spec
	for _, id := range spec.ProcessGroupsToRemove {
		p.markGroup(id, false)
	}
	for _, id := range spec.ProcessGroupsToRemoveWithoutExclusion {
		p.markGroup(id, true)
	}
}

// markGroup marks a group for removal, if there is one.
func (p *pass) markGroup(id v1beta2.ProcessGroupID, skipExclusion bool) {
	g := p.group(id)
	if g == nil {
		return
	}
	if g.RemovalTimestamp == nil {
		at := metav1.NewTime(p.now).Rfc3339Copy()
		g.RemovalTimestamp = &at
	}
	g.ExclusionSkipped = g.ExclusionSkipped || skipExclusion
}

// observePods takes over how the pods are made.
func (p *pass) observePods() {
	s, spec := &p.cluster.Status, p.cluster.Spec
	images := map[v1beta2.ImageType]bool{spec.ImageType: true}
	storage, logs := map[int]bool{spec.StorageServersPerPod: true}, map[int]bool{spec.LogServersPerPod: true}
	s.HasListenIPsForAllPods = true
	for id, g := range p.ours {
		pod, class := p.member(id).pod, classOf(g)
		if pod == nil { // it comes back as its data ask for
			c := foundationdb.WithDataOf(p.cluster, class, p.member(id).claim)
			images[c.Spec.ImageType], storage[c.Spec.StorageServersPerPod], logs[c.Spec.LogServersPerPod] = true, true, true
			continue
		}
		images[foundationdb.ImageTypeOf(pod)] = true
		switch {
		case class == fdb.ClassStorage:
			storage[p.member(id).servers()] = true
		case class.LogLike():
			logs[p.member(id).servers()] = true
		}
		s.HasListenIPsForAllPods = s.HasListenIPsForAllPods && foundationdb.HasListenIP(pod)
	}
	s.ImageTypes = slices.Sorted(maps.Keys(images))
	s.StorageServersPerDisk, s.LogServersPerDisk = slices.Sorted(maps.Keys(storage)), slices.Sorted(maps.Keys(logs))
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
	return p.asDesired && p.held.reason == ""
}

// updateStatus is the first link. What it says has been observed before the chain began.
func updateStatus(p *pass) decision {
	if len(p.problems) > 0 {
		return later(0, foundationdb.SpecInvalid.Reason(), "%s", p.refusal())
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
	return later(settleAgain, "NotReconciled", "%s", p.needs())
}

func yes(b *bool) bool { return b != nil && *b }

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
