package clusters

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/conditions"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

const (
	maxPlan    = 50 // entries of a plan; the rest is counted
	maxTargets = 10 // of an entry
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
