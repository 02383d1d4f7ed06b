package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/conditions"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

const (
	maxPlan    = 50 // entries of a plan; the rest is counted
	maxTargets = 10 // of an entry
)

const (
	// AdoptedAnnotation tells when the take-over from another operator was approved.
	AdoptedAnnotation = adoption.Annotation
	// TypeAdopted is the condition of a cluster that another operator has made: False until its take-over is
	// approved.
	TypeAdopted = adoption.Type
)

// plan is what the next pass would do, and what blocks it.
func (p *pass) plan() []v1beta2.PlanEntry {
	if len(p.problems) == 0 && p.reconciled() && len(p.cluster.Status.ProcessGroups) > 0 && p.status != nil {
		if v := p.cluster.Status.Generations; v.HasPendingRemoval == 0 {
			return nil
		}
	}
	return Entries(p.links().Plan(p.copied()), p.stored.Status.Plan, p.hash, p.now)
}

// copied is the pass as a plan may change it.
func (p *pass) copied() *pass {
	c := *p
	c.cluster = p.cluster.DeepCopy()
	c.members = make(map[v1beta2.ProcessGroupID]*member, len(p.members))
	for id, m := range p.members {
		one := *m
		c.members[id] = &one
	}
	if p.status != nil {
		s := *p.status
		s.Cluster.Processes = slices.Clone(p.status.Cluster.Processes)
		c.status = &s
		c.processes = servers.ByGroup(c.status, c.cluster.Spec.DataCenter)
	}
	c.processes = maps.Clone(c.processes)
	c.index()
	return &c
}

// Entries returns the entries of a plan as a status has them. What was blocked before for the same reason
// keeps its time. The hash is that of the plan, where links are held.
func Entries(planned []chain.Planned, before []v1beta2.PlanEntry, hash string, now time.Time) []v1beta2.PlanEntry {
	var entries []v1beta2.PlanEntry
	for _, step := range planned {
		entries = append(entries, entriesOf(step, before, hash, now)...)
	}
	if len(entries) > maxPlan {
		rest := len(entries) - maxPlan
		entries = append(entries[:maxPlan:maxPlan], v1beta2.PlanEntry{Link: "…", Action: fmt.Sprintf("and %d more", rest)})
	}
	return entries
}

func entriesOf(step chain.Planned, before []v1beta2.PlanEntry, hash string, now time.Time) []v1beta2.PlanEntry {
	blocked := v1beta2.PlanEntry{Link: step.Link}
	switch {
	case step.Held:
		blocked.Reason, blocked.Message = chain.ReasonHeld, "a person must let it pass"
		blocked.Remedy = "Set the annotation " + foundationdb.ApproveAnnotation + " to " + hash + " to let the plan pass once, or change " + foundationdb.HoldAnnotation + "."
	case step.Behind != "":
		blocked.Reason, blocked.Message = "Behind", step.Behind+" comes first"
	}
	var entries []v1beta2.PlanEntry
	for _, a := range step.Acts {
		e := blocked
		e.Action, e.Targets, e.Now = a.Name, clipped(a.Targets), blocked.Reason == ""
		entries = append(entries, since(e, before, now))
	}
	if out := step.Outcome; !step.Held && len(step.Acts) == 0 && !out.IsDone() && step.Link != "UpdateStatus" {
		e := v1beta2.PlanEntry{Link: step.Link, Action: "wait", Reason: out.Reason(), Message: conditions.Shortened(out.Message())}
		if out.IsFail() {
			e.Reason, e.Message, e.Remedy = fault.Of(out.Err()).Reason(), fault.Message(out.Err()), fault.Of(out.Err()).Remedy
		}
		if step.Opens > 0 {
			at := metav1.NewTime(now.Add(step.Opens)).Rfc3339Copy()
			e.NotBefore = &at
		}
		entries = append(entries, since(e, before, now))
	}
	return entries
}

// jitter is how far off a moment must be to be told anew: the status document tells times less exactly than it is read.
const jitter = 30 * time.Second

// since gives an entry that is blocked the time at which that began.
func since(e v1beta2.PlanEntry, before []v1beta2.PlanEntry, now time.Time) v1beta2.PlanEntry {
	if e.Reason == "" {
		return e
	}
	for _, old := range before {
		if old.Link == e.Link && old.Action == e.Action && old.Reason == e.Reason && old.Since != nil {
			e.Since = old.Since
			if e.NotBefore != nil && old.NotBefore != nil && old.NotBefore.After(now) && e.NotBefore.Sub(old.NotBefore.Time).Abs() < jitter {
				e.NotBefore = old.NotBefore
			}
			return e
		}
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	e.Since = &at
	return e
}

func clipped(targets []string) []string {
	if len(targets) <= maxTargets {
		return targets
	}
	return append(slices.Clone(targets[:maxTargets]), fmt.Sprintf("and %d more", len(targets)-maxTargets))
}

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
	if p.memory.pruned.Has("conditions") && p.hash != "" && p.hash != p.memory.hash { // the status cannot tell it
		p.memory.hash = p.hash
		p.event("ApprovalMissing", "links are held: the annotation %s: %s lets what they would do pass", foundationdb.ApproveAnnotation, p.hash)
	}
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
