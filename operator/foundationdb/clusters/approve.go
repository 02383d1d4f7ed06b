package clusters

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/kube/condition"
)

// The annotations by which people hold and approve.
const (
	HoldAnnotation    = "pawl.dev/hold"    // links that must not act, separated by commas; * holds all
	ApproveAnnotation = "pawl.dev/approve" // the hash of the plan that may pass once
	AdoptedAnnotation = "pawl.dev/adopted" // when the take-over from another operator was approved
)

// TypeAdopted is the condition of a cluster that another operator has made: False until its take-over is
// approved.
const TypeAdopted = "Adopted"

// adoptionHolds are the links that recreate, replace or restart what another operator has made.
var adoptionHolds = []string{"DeletePodsForBuggification", "ReplaceMisconfiguredProcessGroups", "BounceProcesses", "UpdatePods"}

// Hash names what a plan would do now: another plan has another hash.
func Hash(planned []chain.Planned) string {
	h := sha256.New()
	for _, step := range planned {
		if step.Behind != "" {
			break
		}
		for _, a := range step.Acts {
			_, _ = fmt.Fprintf(h, "%q %q %q\n", step.Link, a.Name, a.Targets)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// held are the links that must not act in this pass.
func (p *pass) held() []string {
	var links []string
	for link := range strings.SplitSeq(p.stored.Annotations[HoldAnnotation], ",") {
		if link = strings.TrimSpace(link); link != "" {
			links = append(links, link)
		}
	}
	if p.foreign && p.stored.Annotations[AdoptedAnnotation] == "" {
		links = append(links, adoptionHolds...)
	}
	return links
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

// adoption is the condition of a cluster that another operator has made; nil: it is our own.
func (p *pass) adoption() *metav1.Condition {
	var c metav1.Condition
	switch at := p.stored.Annotations[AdoptedAnnotation]; {
	case p.foreign && at == "":
		c = condition.New(TypeAdopted, metav1.ConditionFalse, "ApprovalMissing",
			"another operator has made this cluster: nothing that it has made is recreated, replaced or restarted before the annotation %s has the hash of the plan, %s", ApproveAnnotation, p.hash)
	case p.foreign || meta.FindStatusCondition(p.stored.Status.Conditions, TypeAdopted) != nil:
		c = condition.New(TypeAdopted, metav1.ConditionTrue, "Approved", "the take-over was approved")
	default:
		return nil
	}
	return &c
}

// approve lets the plan pass once that a person has approved. The annotation is removed first: what is
// approved twice passes once.
func (p *pass) approve(ctx context.Context) error {
	if len(p.held()) == 0 {
		return nil
	}
	p.hash = Hash(cluster.Plan(p.copied()))
	approved := p.stored.Annotations[ApproveAnnotation]
	if approved == "" || approved != p.hash {
		return nil
	}
	annotations := map[string]any{ApproveAnnotation: nil}
	if p.foreign {
		annotations[AdoptedAnnotation] = p.now.UTC().Format(time.RFC3339)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "resourceVersion": p.stored.ResourceVersion}})
	if err != nil {
		return err
	}
	written := p.stored.DeepCopy()
	if err := p.objects.Patch(ctx, written, patch); err != nil {
		return err
	}
	p.stored.ResourceVersion, p.stored.Annotations = written.ResourceVersion, written.Annotations
	p.approved = true
	p.event("PlanApproved", "the plan %s passes once", p.hash)
	return nil
}

// links is the chain of this pass.
func (p *pass) links() chain.Chain[*pass] {
	if len(p.problems) > 0 {
		return refused
	}
	held := p.held()
	if len(held) == 0 || p.approved {
		return cluster
	}
	return cluster.Hold(func(link string) bool {
		return link != "UpdateStatus" && (slices.Contains(held, "*") || slices.Contains(held, link))
	})
}
