package clusters

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// The conditions of a cluster beside Ready and Progressing.
const (
	TypeReconciled      = "Reconciled"
	TypeAvailable       = "Available"
	TypeFullReplication = "FullReplication"
	TypeUpgradeBlocked  = "UpgradeBlocked"
	TypeDegraded        = "Degraded"
	TypeFieldsIgnored   = "FieldsIgnored"
	TypePaused          = "Paused"
)

// conclude writes what the pass has come to: conditions, counts and plan.
func (p *pass) conclude(r chain.Report) {
	p.count()
	s := &p.cluster.Status
	s.ObservedGeneration = p.cluster.Generation
	out := r.Outcome()
	if len(p.problems) > 0 && !out.IsFail() {
		out = outcome.Later(0, foundationdb.SpecInvalid.Reason(), "%s", p.refusal())
	}
	for _, c := range []metav1.Condition{
		p.readiness(), p.reconciliation(out), condition.Progressing(out),
		p.truth(TypeAvailable, s.Health.Available, "DatabaseAvailable", fdb.DatabaseUnavailable),
		p.truth(TypeFullReplication, s.Health.FullReplication, "FullyReplicated", "ReplicasMissing"),
		p.upgradeBlocked(), p.degraded(), p.resizing(), p.fieldsIgnored(),
		condition.New(TypePaused, metav1.ConditionFalse, "NotPaused", "the operator works on the cluster"),
	} {
		p.set(c)
	}
	if c := p.adoption(); c != nil {
		p.set(*c)
	}
	if c := p.statusPruned(); c != nil {
		p.set(*c)
	}
	s.Plan = p.plan()
}

func (p *pass) set(c metav1.Condition) {
	c.ObservedGeneration = p.cluster.Generation
	c.LastTransitionTime = metav1.NewTime(p.now).Rfc3339Copy()
	c.Message = shortened(c.Message)
	meta.SetStatusCondition(&p.cluster.Status.Conditions, c)
}

// longestMessage is how long the message of a condition may be, in bytes.
const longestMessage = 4000

func shortened(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage], "") + "…"
}

// pause says that the spec tells the operator to leave the cluster alone.
func (p *pass) pause() {
	p.set(condition.New(TypePaused, metav1.ConditionTrue, "Skipped", "spec.skip is set: nothing is done"))
	for _, t := range []string{condition.TypeReady, TypeReconciled, condition.TypeProgressing, TypeAvailable} {
		p.set(condition.New(t, metav1.ConditionUnknown, "Skipped", "spec.skip is set: nothing is observed"))
	}
}

// refusal is why the spec is refused, with all problems.
func (p *pass) refusal() string {
	texts := make([]string, len(p.problems))
	for i, problem := range p.problems {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "; ")
}

// truth is a condition about the database: unknown when it was not heard.
func (p *pass) truth(kind string, holds bool, reason, otherwise string) metav1.Condition {
	switch {
	case p.status == nil:
		return condition.New(kind, metav1.ConditionUnknown, p.silenceReason, "%s", p.silence)
	case holds:
		return condition.New(kind, metav1.ConditionTrue, reason, "the database says so")
	}
	return condition.New(kind, metav1.ConditionFalse, otherwise, "the database says so")
}

func (p *pass) readiness() metav1.Condition {
	s := p.cluster.Status
	switch {
	case p.status == nil && s.Configured:
		return condition.New(condition.TypeReady, metav1.ConditionUnknown, p.silenceReason, "%s", p.silence)
	case !s.Configured:
		return condition.New(condition.TypeReady, metav1.ConditionFalse, "NotConfigured", "the database has no configuration yet")
	case !s.Health.Available:
		return condition.New(condition.TypeReady, metav1.ConditionFalse, fdb.DatabaseUnavailable, "the database is not available")
	}
	return condition.New(condition.TypeReady, metav1.ConditionTrue, "Available", "the database is configured and available")
}

func (p *pass) reconciliation(out outcome.Outcome) metav1.Condition {
	switch {
	case len(p.problems) > 0:
		return condition.FromFault(TypeReconciled, foundationdb.SpecInvalid, "%s", p.refusal())
	case p.reconciled() && !out.IsFail():
		return condition.New(TypeReconciled, metav1.ConditionTrue, "AsDesired", "the cluster is as its spec says")
	case p.status == nil && p.cluster.Status.Configured:
		return condition.New(TypeReconciled, metav1.ConditionUnknown, p.silenceReason, "%s", p.silence)
	}
	return condition.New(TypeReconciled, metav1.ConditionFalse, "InProgress", "%s", p.needs())
}

// needs says what is left to do.
func (p *pass) needs() string {
	g := p.cluster.Status.Generations
	var texts []string
	for _, need := range []struct {
		generation int64
		text       string
	}{
		{g.NeedsGrow, "groups are missing"}, {g.NeedsShrink, "groups are to go"}, {g.NeedsConfigurationChange, "the database is to be configured"},
		{g.NeedsCoordinatorChange, "coordinators are to change"}, {g.NeedsMonitorConfUpdate, "the config map is to be written"},
		{g.NeedsServiceUpdate, "services are to change"}, {g.NeedsBounce, "servers are to restart"}, {g.NeedsPodDeletion, "pods are to be made anew"},
		{g.MissingDatabaseStatus, "the database is not available"}, {g.HasExtraListeners, "servers listen with and without TLS"},
		{g.NeedsLockConfigurationChanges, "the deny list of the lock is to change"}, {g.HasUnhealthyProcess, "groups are not as they should be"},
	} {
		if need.generation == p.cluster.Generation {
			texts = append(texts, need.text)
		}
	}
	if p.held.needs != "" {
		texts = append(texts, p.held.needs)
	}
	return strings.Join(texts, "; ")
}

func (p *pass) upgradeBlocked() metav1.Condition {
	switch {
	case p.held.reason == "":
		return condition.New(TypeUpgradeBlocked, metav1.ConditionFalse, "NothingBlocks", "no client holds back an upgrade")
	case p.held.reason == port.ToolsMissing.Reason():
		return condition.New(TypeUpgradeBlocked, metav1.ConditionTrue, p.held.reason, "%s %s", p.held.message, port.ToolsMissing.Remedy)
	}
	return condition.New(TypeUpgradeBlocked, metav1.ConditionTrue, p.held.reason, "%s", p.held.message)
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

// degraded tells which groups carry a condition for which they will be replaced, or that replicas are
// missing.
func (p *pass) degraded() metav1.Condition {
	var failed []string
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if !g.Marked() && foundationdb.Fails(g) {
			failed = append(failed, string(g.ProcessGroupID))
		}
	}
	switch {
	case len(failed) > 0:
		return condition.New(TypeDegraded, metav1.ConditionTrue, "GroupsFail", "%s", some(failed))
	case p.status == nil:
		return condition.New(TypeDegraded, metav1.ConditionUnknown, p.silenceReason, "%s", p.silence)
	}
	if v := fdb.FullFaultTolerance(p.status); !v.Open {
		return condition.New(TypeDegraded, metav1.ConditionTrue, v.Reason, "%s", v.Message)
	}
	return condition.New(TypeDegraded, metav1.ConditionFalse, "AllWell", "all groups serve and no replica is missing")
}

func (p *pass) fieldsIgnored() metav1.Condition {
	ignored := slices.Concat(foundationdb.Ignored(p.stored.Spec), p.ignored)
	slices.Sort(ignored)
	if len(ignored) > 0 {
		return condition.New(TypeFieldsIgnored, metav1.ConditionTrue, "NotActedUpon", "%s", strings.Join(ignored, ", "))
	}
	return condition.New(TypeFieldsIgnored, metav1.ConditionFalse, "AllActedUpon", "all fields of the spec have an effect")
}

// some lists names, at most 20 of them.
func some[T ~string](names []T) string {
	const most = 20
	texts := make([]string, 0, most+1)
	for i, name := range names {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		texts = append(texts, string(name))
	}
	return strings.Join(texts, ", ")
}

func names(ids []v1beta2.ProcessGroupID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}
