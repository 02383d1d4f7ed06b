package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/conditions"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
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
	p.noteAvailability()
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
	if s.RunningVersion == "" || s.ConnectionString == "" { // no server has started yet
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

// The conditions of a cluster beside Ready and Progressing.
const (
	TypeReconciled      = conditions.Reconciled
	TypeAvailable       = conditions.Available
	TypeFullReplication = conditions.FullReplication
	TypeUpgradeBlocked  = conditions.UpgradeBlocked
	TypeDegraded        = conditions.Degraded
	TypeFieldsIgnored   = conditions.FieldsIgnored
	TypePaused          = conditions.Paused
	TypeResizing        = conditions.Resizing // its volumes grow
)

// conclude writes what the pass has come to: conditions, counts and plan.
func (p *pass) conclude(r chain.Report) {
	p.count()
	s := &p.cluster.Status
	s.ObservedGeneration = p.cluster.Generation
	out := r.Outcome()
	if len(p.problems) > 0 && !out.IsFail() {
		out = outcome.Later(0, foundationdb.SpecInvalid.Reason(), "%s", p.findings().Refusal())
	}
	f := p.findings()
	if f.Judged {
		_, f.Growing = p.growths()
	}
	for _, c := range f.All(out) {
		p.set(c)
	}
	if c := p.owner.Condition(p.hash); c != nil {
		p.set(*c)
	}
	if c := statusPruned(&p.memory.pruned, p.stored.Status.Conditions); c != nil {
		p.set(*c)
	}
	s.Plan = p.plan()
}

// findings are what the pass has found out so far.
func (p *pass) findings() conditions.Findings {
	return conditions.Findings{
		Stored: p.stored, Cluster: p.cluster, Database: p.status, Silence: p.silence, SilenceReason: p.silenceReason,
		Problems: p.problems, Ignored: p.ignored, Held: p.held, Reconciled: p.reconciled(), Judged: p.pods != nil && p.cluster.Spec.Version != "",
	}
}

func (p *pass) set(c metav1.Condition) { conditions.Set(p.cluster, c, p.now) }

// pause says that the spec tells the operator to leave the cluster alone.
func (p *pass) pause() {
	p.set(condition.New(TypePaused, metav1.ConditionTrue, "Skipped", "spec.skip is set: nothing is done"))
	for _, t := range []string{condition.TypeReady, TypeReconciled, condition.TypeProgressing, TypeAvailable} {
		p.set(condition.New(t, metav1.ConditionUnknown, "Skipped", "spec.skip is set: nothing is observed"))
	}
}

// TwoOperators says that somebody else writes the status of a cluster.
var TwoOperators = fault.Declare(fault.Kind{
	Code: "FDB_TWO_OPERATORS", Class: fault.Blocked,
	Title:  "another program writes the status of the cluster too",
	Remedy: "Stop the other operator, look at the cluster, and then set the annotation pawl.dev/adopted to another value.",
	Guide:  "foundationdb.md#coming-from-the-other-operator",
})

// StatusPruned says that the API server drops fields of the status.
var StatusPruned = fault.Declare(fault.Kind{
	Code: "FDB_STATUS_PRUNED", Class: fault.Blocked,
	Title:  "the CRD of the cluster drops fields of its status",
	Remedy: "Install the CRDs of this operator (foundationdb.crds of the chart); until then pawl fdb plan and the Events tell what the status cannot.",
	Guide:  "foundationdb.md#coming-from-the-other-operator",
})

// TypeStatusPruned is the condition of a cluster whose CRD, that of another operator, drops fields of the status. It is
// there once that has been seen, and only if that CRD keeps conditions.
const TypeStatusPruned = "StatusPruned"

// statusPruned is the condition of a cluster with conditions as before; nil: nothing was ever dropped.
func statusPruned(pruned *stored.Pruned, before []metav1.Condition) *metav1.Condition {
	var c metav1.Condition
	switch {
	case len(pruned.Fields) > 0:
		c = condition.FromFault(TypeStatusPruned, StatusPruned, "%s", prunedMessage(pruned))
		c.Status = metav1.ConditionTrue
	case pruned.Observed && meta.FindStatusCondition(before, TypeStatusPruned) != nil:
		c = condition.New(TypeStatusPruned, metav1.ConditionFalse, "AllKept", "the CRD that is installed keeps all fields of the status")
	default:
		return nil
	}
	return &c
}

// prunedMessage says which fields of the status are dropped.
func prunedMessage(pruned *stored.Pruned) string {
	return "the CRD that is installed does not keep " + pruned.String()
}

// blockedByPeer says that nothing is done any more, once.
func (p *pass) blockedByPeer() {
	for _, t := range []string{TypeReconciled, condition.TypeProgressing} {
		c := condition.FromFault(t, TwoOperators, "the status has changed between two writes of this operator")
		c.Status = metav1.ConditionFalse
		p.set(c)
	}
	p.objects.Tell(p.stored, port.Event{Reason: TwoOperators.Reason(), Message: TwoOperators.Remedy, Warning: true})
}

// some lists names, at most 20 of them.
func some[T ~string](names []T) string { return conditions.Some(names) }

func names(ids []v1beta2.ProcessGroupID) []string {
	return texts(ids, func(id v1beta2.ProcessGroupID) string { return string(id) })
}
