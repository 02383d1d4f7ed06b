package clusters

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/conditions"
	"github.com/pawl-dev/pawl/outcome"
)

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

// some lists names, at most 20 of them.
func some[T ~string](names []T) string { return conditions.Some(names) }

func names(ids []v1beta2.ProcessGroupID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}
