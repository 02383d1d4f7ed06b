package view

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// RolloutKind is the kind of the objects that Rollout reads.
const RolloutKind = "Rollout"

// Rollout is a Rollout of a cluster, as its status tells.
type Rollout struct {
	Object     control.Ref      `json:"object"`
	Target     string           `json:"target"` // Kind name
	Position   rollout.Position `json:"position"`
	Conditions []Condition      `json:"conditions,omitempty"`
	Remedy     string           `json:"remedy,omitempty"`
	History    []rollout.Record `json:"history,omitempty"` // the newest ones, the oldest first
	Behind     bool             `json:"behind,omitempty"`  // the status is of an older spec
	Paused     bool             `json:"paused,omitempty"`  // the plan says so
	Batches    []RolloutBatch   `json:"batches,omitempty"`
	// Pods are those that no batch has: beside them, or of the revision before.
	Pods []RolloutPod `json:"pods,omitempty"`
	// Checks are what the present batch is asked: gates, metrics, webhooks and probes.
	Checks []rollout.Check `json:"checks,omitempty"`
	// Preview is what would happen while the annotation pawl.dev/dry-run keeps it from beginning.
	Preview []rollout.BatchPreview `json:"preview,omitempty"`
	// Verbs are what a person may ask for, and why not.
	Verbs []RolloutVerb `json:"verbs,omitempty"`
	// Unseen is why the pods are not shown.
	Unseen    string    `json:"unseen,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// RolloutBatch is one batch, and where it stands.
type RolloutBatch struct {
	Index  int          `json:"index"`
	Size   int          `json:"size"`
	Target int          `json:"target"`
	State  string       `json:"state" enum:"ToCome,Present,Done"`
	Phase  string       `json:"phase,omitempty" doc:"of the present batch: what is done now"`
	Start  *time.Time   `json:"start,omitempty"`
	End    *time.Time   `json:"end,omitempty"`
	Pods   []RolloutPod `json:"pods,omitempty"`
}

// States of a batch.
const (
	BatchToCome  = "ToCome"
	BatchPresent = "Present"
	BatchDone    = "Done"
)

// RolloutPod is one pod of the workload.
type RolloutPod struct {
	Name     string `json:"name"`
	Ordinal  *int   `json:"ordinal,omitempty"`
	Role     string `json:"role,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Revision string `json:"revision"`
	Updated  bool   `json:"updated" doc:"it has the revision that the rollout leads to"`
	Ready    bool   `json:"ready"`
	Leaving  bool   `json:"leaving,omitempty" doc:"it is being deleted"`
}

// RolloutVerb is something a person may ask for.
type RolloutVerb struct {
	Name string `json:"name" enum:"approve,pause,resume,retry,undo,abandon"`
	Why  string `json:"why,omitempty" doc:"why it is of no use now"`
}

// Rollouts is a page of Rollouts.
type Rollouts struct {
	Items []Rollout `json:"items"`
	Next  string    `json:"next,omitempty" doc:"cursor of the next page"`
}

// Condition is one condition of a status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RolloutOf reads a Rollout from its object.
func RolloutOf(o control.Object) (Rollout, error) {
	r := Rollout{Object: o.Ref, CreatedAt: o.CreatedAt}
	var spec struct {
		TargetRef   struct{ Kind, Name string } `json:"targetRef"`
		Application struct{ Name string }       `json:"application"`
		RolloutPlan struct {
			Paused         bool
			BatchPartition *int
		} `json:"rolloutPlan"`
	}
	var status struct {
		ObservedGeneration int64                       `json:"observedGeneration"`
		Workload           struct{ Kind, Name string } `json:"workload"`
		Summary            struct{ Remedy string }     `json:"summary"`
		History            map[string]rollout.Record   `json:"history"`
		Conditions         []Condition                 `json:"conditions"`

		Preview map[string]rollout.BatchPreview `json:"preview"`
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return r, rollout.StateUnknown.Errorf("the spec of %s cannot be read: %w", o.Ref, err)
	}
	r.Paused = spec.RolloutPlan.Paused
	if r.Target = spec.TargetRef.Kind + " " + spec.TargetRef.Name; spec.Application.Name != "" {
		r.Target = "Application " + spec.Application.Name
	}
	if len(o.Status) == 0 || string(o.Status) == "null" {
		r.Behind = true
		r.Verbs = r.verbs(spec.RolloutPlan.BatchPartition)
		return r, nil
	}
	for _, into := range []any{&r.Position, &status} {
		if err := json.Unmarshal(o.Status, into); err != nil {
			return r, rollout.StateUnknown.Errorf("the status of %s cannot be read: %w", o.Ref, err)
		}
	}
	if w := status.Workload; w.Name != "" { // that of a revision of an Application
		r.Target = w.Kind + " " + w.Name
	}
	r.Behind = status.ObservedGeneration < o.Generation
	r.Conditions, r.Remedy = status.Conditions, status.Summary.Remedy
	if w := r.Position.Waiting; w != nil && r.Remedy == "" {
		r.Remedy = remedies[w.Reason]
	}
	r.History = slices.SortedFunc(maps.Values(status.History), func(a, b rollout.Record) int { return a.Sequence - b.Sequence })
	r.Preview = slices.SortedFunc(maps.Values(status.Preview), func(a, b rollout.BatchPreview) int { return a.Index - b.Index })
	r.Batches = batchesOf(r.Position)
	r.Verbs = r.verbs(spec.RolloutPlan.BatchPartition)
	return r, nil
}

func batchesOf(at rollout.Position) []RolloutBatch {
	all := make([]RolloutBatch, len(at.Batches))
	for i := range all {
		so := at.Batches[i]
		b := RolloutBatch{Index: i, Size: so.Size, Target: so.Target, State: BatchToCome, Start: so.Start, End: so.End}
		switch {
		case at.State == rollout.Succeeded, i < at.CurrentBatch, i == at.CurrentBatch && (at.State.Terminal() || so.End != nil):
			b.State = BatchDone
		case i == at.CurrentBatch:
			b.State = BatchPresent
		}
		if i == at.CurrentBatch && !at.State.Terminal() {
			b.Phase = string(at.BatchState)
		}
		all[i] = b
	}
	return all
}

// With is the rollout with its pods, and what the present batch is asked.
func (r Rollout) With(p rollout.Plan, f rollout.Facts) Rollout {
	r.Checks = rollout.Checks(p, r.Position, f)
	r.Batches = slices.Clone(r.Batches)
	shown := map[string]bool{}
	for i, pods := range rollout.Members(p, r.Position, f) {
		r.Batches[i].Pods = nil
		for _, pod := range pods {
			shown[pod.Name] = true
			r.Batches[i].Pods = append(r.Batches[i].Pods, podOf(pod, r.Position, f))
		}
	}
	r.Pods = nil
	for _, pod := range f.Pods {
		if !shown[pod.Name] {
			r.Pods = append(r.Pods, podOf(pod, r.Position, f))
		}
	}
	return r
}

func podOf(p rollout.Pod, at rollout.Position, f rollout.Facts) RolloutPod {
	target := at.TargetHash
	if target == "" && f.Target != nil {
		target = f.Target.UpdateRevision
	}
	v := RolloutPod{Name: p.Name, Role: p.Role, Zone: p.Zone, Revision: p.Revision, Updated: p.Revision == target, Ready: p.Ready && !p.Terminating, Leaving: p.Terminating}
	if p.Ordinal >= 0 {
		v.Ordinal = &p.Ordinal
	}
	return v
}

// verbs says which requests are of use now.
func (r Rollout) verbs(partition *int) []RolloutVerb {
	at := r.Position
	moves := at.State != "" && at.State != rollout.Locating && !at.State.Terminal()
	why := map[string]string{}
	allowed := len(at.Batches) - 1
	if partition != nil {
		allowed = *partition
	}
	if at.Approved != nil {
		allowed = max(allowed, at.Approved.Batch)
	}
	switch {
	case !moves:
		why["approve"], why["abandon"] = "No rollout is under way.", "No rollout is under way."
	case at.State == rollout.RollingBack:
		why["approve"] = "The pods go back: that waits for no approval."
	case allowed >= len(at.Batches)-1:
		why["approve"] = "All batches may run already."
	}
	if r.Paused {
		why["pause"] = "The plan says paused already."
	}
	if at.Pause == nil {
		why["resume"], why["retry"] = "Nothing is paused.", "Nothing is paused."
		if w := at.Waiting; w != nil && w.Reason == heldByPartition {
			why["resume"] = "batchPartition holds it: approve lets it go on."
		}
	}
	switch {
	case at.State == rollout.RollingBack:
		why["undo"] = "The pods go back already."
	case at.SourceRevision == "" && at.Mode != rollout.Scale || !moves && at.State != rollout.Succeeded:
		why["undo"] = "There is nothing to take back."
	}
	all := make([]RolloutVerb, 0, 6)
	for _, name := range []string{"approve", "pause", "resume", "retry", "undo", "abandon"} {
		all = append(all, RolloutVerb{Name: name, Why: why[name]})
	}
	return all
}

const heldByPartition = "HeldByPartition"

// remedies of waits that are no faults: a person has asked for them.
var remedies = map[string]string{
	heldByPartition: "Approve the next batch, as `pawl rollout approve NAME --reason TEXT` does, or raise batchPartition.",
	"PausedByUser":  "Resume it, as `pawl rollout resume NAME` does, or set paused of the plan to false.",
	"DryRun":        "Remove the annotation pawl.dev/dry-run to begin.",
}

// Is reports whether a condition is True.
func (r Rollout) Is(condition string) bool {
	return slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type == condition && c.Status == "True" })
}

// Exit is the exit code of a command that waited for the rollout: success, failure, something that
// needs a person, or still under way.
func (r Rollout) Exit() int {
	switch {
	case r.Behind:
		return ExitActive
	case r.Is("Ready"):
		return ExitDone
	case r.Position.State == rollout.Failed:
		return ExitFailed
	case r.Is("Paused"), r.Is("Stalled"):
		return ExitRemedy
	}
	return ExitActive
}
