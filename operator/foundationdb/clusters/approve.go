package clusters

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// AdoptedAnnotation tells when the take-over from another operator was approved.
const AdoptedAnnotation = "pawl.dev/adopted"

// TypeAdopted is the condition of a cluster that another operator has made: False until its take-over is
// approved.
const TypeAdopted = "Adopted"

// adoptionHolds are the links that recreate, replace or restart what another operator has made.
var adoptionHolds = []string{"DeletePodsForBuggification", "ReplaceMisconfiguredProcessGroups", "BounceProcesses", "UpdatePods"}

// holds returns which links must not act in this pass; nil: none.
func (p *pass) holds() func(link string) bool {
	byPerson := foundationdb.Holds(p.stored.Annotations)
	if !p.foreign || p.stored.Annotations[AdoptedAnnotation] != "" {
		return byPerson
	}
	return func(link string) bool {
		return slices.Contains(adoptionHolds, link) || byPerson != nil && byPerson(link)
	}
}

// observeOwner finds out whether another operator has made the cluster: it has groups, or children, and
// no condition of ours.
func (p *pass) observeOwner() {
	c := meta.FindStatusCondition(p.stored.Status.Conditions, TypeAdopted)
	switch {
	case p.options.AdoptAtOnce:
		p.foreign = false
	case c != nil:
		p.foreign = c.Status == metav1.ConditionFalse
	default:
		p.foreign = len(p.stored.Status.Conditions) == 0 && len(p.members)+len(p.stored.Status.ProcessGroups) > 0
	}
}

// adopted reports whether another operator has made the cluster, or may have.
func (p *pass) adopted() bool {
	return p.foreign || p.options.AdoptAtOnce || p.stored.Annotations[AdoptedAnnotation] != "" || meta.FindStatusCondition(p.stored.Status.Conditions, TypeAdopted) != nil
}

// keepClaims lets the groups of another operator keep their claims, which it names otherwise.
func (p *pass) keepClaims() {
	if !p.adopted() {
		return
	}
	for id, m := range p.members {
		if known, ok := p.ids[id]; ok {
			p.pods.KeepClaim(known, m.claim)
		}
	}
}

// adoption is the condition of a cluster that another operator has made; nil: it is our own.
func (p *pass) adoption() *metav1.Condition {
	var c metav1.Condition
	switch at := p.stored.Annotations[AdoptedAnnotation]; {
	case p.foreign && at == "":
		c = condition.New(TypeAdopted, metav1.ConditionFalse, "ApprovalMissing",
			"another operator has made this cluster: nothing that it has made is recreated, replaced or restarted before the annotation %s has the hash of the plan, %s", foundationdb.ApproveAnnotation, p.hash)
	case p.foreign || meta.FindStatusCondition(p.stored.Status.Conditions, TypeAdopted) != nil:
		c = condition.New(TypeAdopted, metav1.ConditionTrue, "Approved", "the take-over was approved")
	default:
		return nil
	}
	return &c
}

// approve lets the plan pass once that a person has approved. The annotation is removed first: what is
// approved twice passes once. A cluster of our own whose status does not keep that is marked as ours: without a
// condition the next instance of the operator would take it for another's.
func (p *pass) approve(ctx context.Context) error {
	if !p.foreign && p.forgetsConditions() && p.stored.Annotations[AdoptedAnnotation] == "" {
		if err := p.annotate(ctx, map[string]any{AdoptedAnnotation: p.now.UTC().Format(time.RFC3339)}); err != nil {
			return err
		}
	}
	if p.holds() == nil {
		return nil
	}
	p.hash = foundationdb.PlanHash(cluster.Plan(p.copied()))
	p.tellHash()
	approved := p.stored.Annotations[foundationdb.ApproveAnnotation]
	if approved == "" || approved != p.hash {
		return nil
	}
	annotations := map[string]any{foundationdb.ApproveAnnotation: nil}
	if p.foreign {
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
	holds := p.holds()
	if holds == nil || p.approved {
		return cluster
	}
	return cluster.Hold(func(link string) bool { return link != "UpdateStatus" && holds(link) })
}
