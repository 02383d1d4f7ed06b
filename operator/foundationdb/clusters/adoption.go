package clusters

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const (
	// AdoptedAnnotation tells when the take-over from another operator was approved.
	AdoptedAnnotation = adoption.Annotation
	// TypeAdopted is the condition of a cluster that another operator has made: False until its take-over is
	// approved.
	TypeAdopted = adoption.Type
)

// keepClaims lets the groups of another operator keep their claims, which it names otherwise.
func (p *pass) keepClaims() {
	if !p.owner.MayBeForeign() {
		return
	}
	for id, m := range p.members {
		if known, ok := p.ids[id]; ok {
			p.pods.KeepClaim(known, m.Claim)
		}
	}
}

// approve lets the plan pass once that a person has approved. The annotation is removed first: what is
// approved twice passes once. A cluster of our own whose status does not keep that is marked as ours: without a
// condition the next instance of the operator would take it for another's.
func (p *pass) approve(ctx context.Context) error {
	if !p.owner.Foreign && p.memory.pruned.Has("conditions") && p.stored.Annotations[AdoptedAnnotation] == "" {
		if err := p.annotate(ctx, map[string]any{AdoptedAnnotation: p.now.UTC().Format(time.RFC3339)}); err != nil {
			return err
		}
	}
	if p.owner.Holds() == nil {
		return nil
	}
	p.hash = foundationdb.PlanHash(cluster.Plan(p.copied()))
	p.tellHash()
	approved := p.stored.Annotations[foundationdb.ApproveAnnotation]
	if approved == "" || approved != p.hash {
		return nil
	}
	annotations := map[string]any{foundationdb.ApproveAnnotation: nil}
	if p.owner.Foreign {
		annotations[AdoptedAnnotation] = p.now.UTC().Format(time.RFC3339)
	}
	if err := p.annotate(ctx, annotations); err != nil {
		return err
	}
	p.approved = true
	p.event("PlanApproved", "the plan %s passes once", p.hash)
	return nil
}

// annotate changes annotations of the cluster, of exactly the version that was read. nil removes one.
func (p *pass) annotate(ctx context.Context, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "resourceVersion": p.stored.ResourceVersion}})
	if err != nil {
		return err
	}
	written := p.stored.DeepCopy()
	if err := p.objects.Patch(ctx, written, patch); err != nil {
		return err
	}
	p.stored.ResourceVersion, p.stored.Annotations = written.ResourceVersion, written.Annotations
	return nil
}

// links is the chain of this pass.
func (p *pass) links() chain.Chain[*pass] {
	if len(p.problems) > 0 {
		return refused
	}
	holds := p.owner.Holds()
	if holds == nil || p.approved {
		return cluster
	}
	return cluster.Hold(func(link string) bool { return link != "UpdateStatus" && holds(link) })
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

// tellHash tells by an Event which plan waits for an approval, where the status cannot.
func (p *pass) tellHash() {
	if !p.memory.pruned.Has("conditions") || p.hash == "" || p.hash == p.memory.hash {
		return
	}
	p.memory.hash = p.hash
	p.event("ApprovalMissing", "links are held: the annotation %s: %s lets what they would do pass", foundationdb.ApproveAnnotation, p.hash)
}
