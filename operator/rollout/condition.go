package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// The conditions of a Rollout, beside Ready and Progressing.
const (
	Paused        = "Paused"        // by a person, a failure, or held by batchPartition until somebody approves
	Stalled       = "Stalled"       // it does not go on by itself
	HoldUnguarded = "HoldUnguarded" // only the operator's own patches keep the hold
	RolledBack    = "RolledBack"    // the pods went back to the source
	Succeeded     = "Succeeded"     // the newest rollout has ended well
)

// ConditionTypes are all conditions: a Rollout has them from the first visit.
var ConditionTypes = []string{condition.TypeReady, condition.TypeProgressing, Paused, Stalled, HoldUnguarded, RolledBack, Succeeded}

// heldReason is the wait for an approval.
const heldReason = "HeldByPartition"

// reading is what the conditions of one pass are made of.
type reading struct {
	at       rollout.Position
	out      outcome.Outcome
	observed bool // the workload was observed
	held     bool
	kind     rollout.Kind // of the workload
	guarded  bool
	source   string // the revision that the pods had before; empty: that of the position
	// rehearsed is true while pawl.dev/dry-run keeps the rollout from beginning.
	rehearsed bool
	now       time.Time
}

// conditions say what is asked for and there, what goes on, and what stands still.
func (r reading) conditions() []metav1.Condition {
	return []metav1.Condition{r.ready(), r.progressing(), r.paused(), r.stalled(), r.unguarded(), r.rolledBack(), r.succeeded()}
}

// idle reports whether nothing is asked for that is not there.
func (r reading) idle() bool {
	return !r.rehearsed && r.at.State == rollout.Succeeded || r.at.State == rollout.Locating && r.at.Waiting != nil && r.at.Waiting.Reason == rollout.NothingToRoll.Reason()
}

func (r reading) ready() metav1.Condition {
	const kind = condition.TypeReady
	switch {
	case r.failed() != nil:
		return condition.Ready(r.out)
	case r.at.State == "":
		return condition.New(kind, metav1.ConditionUnknown, "NotObserved", "the workload was not observed yet")
	case r.idle():
		return condition.New(kind, metav1.ConditionTrue, "Done", "all pods are as they are asked for")
	case r.at.State == rollout.Failed:
		return condition.New(kind, metav1.ConditionFalse, r.failure().Reason, "%s", r.failure().Message)
	}
	if r.batches() {
		return condition.New(kind, metav1.ConditionFalse, "PodsChange", "the pods are changed in batches")
	}
	return condition.New(kind, metav1.ConditionFalse, r.reason(), "%s", r.message())
}

// batches reports whether batches are under way and nothing stops them. What the present one waits for
// stands in status.waiting: conditions that changed with each batch would be sent with each.
func (r reading) batches() bool {
	return (r.at.State == rollout.InBatch || r.at.State == rollout.RollingBack) && !r.isPaused()
}

func (r reading) progressing() metav1.Condition {
	const kind = condition.TypeProgressing
	switch {
	case r.failed() != nil:
		return condition.Progressing(r.out)
	case r.at.State == "":
		return condition.New(kind, metav1.ConditionUnknown, "NotObserved", "the workload was not observed yet")
	case r.idle():
		return condition.New(kind, metav1.ConditionFalse, "Done", "%s", r.place())
	case r.at.State == rollout.Failed:
		return condition.New(kind, metav1.ConditionFalse, r.failure().Reason, "%s", r.failure().Message)
	case r.isPaused():
		return condition.New(kind, metav1.ConditionFalse, r.reason(), "%s", r.message())
	}
	if r.batches() {
		return condition.New(kind, metav1.ConditionTrue, strings.ToUpper(string(r.at.State[:1]))+string(r.at.State[1:]), "status.waiting says what the present batch waits for")
	}
	return condition.New(kind, metav1.ConditionTrue, r.reason(), "%s", r.message())
}

func (r reading) paused() metav1.Condition {
	switch {
	case r.at.State == "":
		return condition.New(Paused, metav1.ConditionUnknown, "NotObserved", "the workload was not observed yet")
	case r.at.Pause != nil:
		return condition.New(Paused, metav1.ConditionTrue, r.at.Pause.Reason, "%s", withRemedy(r.at.Pause.Reason, r.at.Pause.Message))
	case r.isPaused():
		return condition.New(Paused, metav1.ConditionTrue, r.at.Waiting.Reason, "%s", r.at.Waiting.Message)
	}
	return condition.New(Paused, metav1.ConditionFalse, "NotPaused", "nothing holds it")
}

// stalled is True when only a person can help: after a failure, a deadline or a fault.
func (r reading) stalled() metav1.Condition {
	err := r.failed()
	switch {
	case err != nil && fault.Of(err).Uncharged:
		return condition.FromError(Stalled, metav1.ConditionUnknown, err)
	case err != nil:
		return condition.FromError(Stalled, metav1.ConditionTrue, err)
	case r.at.State == "":
		return condition.New(Stalled, metav1.ConditionUnknown, "NotObserved", "the workload was not observed yet")
	case r.at.Pause != nil && r.at.Pause.By != rollout.ByUser:
		return condition.New(Stalled, metav1.ConditionTrue, r.at.Pause.Reason, "%s", withRemedy(r.at.Pause.Reason, r.at.Pause.Message))
	case r.at.State == rollout.Failed:
		return condition.New(Stalled, metav1.ConditionTrue, r.failure().Reason, "%s. %s", r.failure().Message, r.remedy())
	case r.blocked() != "":
		return condition.New(Stalled, metav1.ConditionTrue, r.blocked(), "%s", withRemedy(r.blocked(), r.at.Waiting.Message))
	case r.at.PlanRefused != "":
		return condition.New(Stalled, metav1.ConditionFalse, rollout.PlanChangeRefused.Reason(), "%s", withRemedy(rollout.PlanChangeRefused.Reason(), r.at.PlanRefused))
	case r.at.Waiting != nil && r.at.Waiting.Deadline != nil && r.now.After(*r.at.Waiting.Deadline):
		return condition.New(Stalled, metav1.ConditionTrue, r.reason(), "past its deadline: %s", r.message())
	}
	return condition.New(Stalled, metav1.ConditionFalse, "NotStalled", "nothing needs a person")
}

func (r reading) unguarded() metav1.Condition {
	switch {
	case !r.observed:
		return condition.New(HoldUnguarded, metav1.ConditionUnknown, "NotObserved", "the workload was not observed")
	case !r.held:
		return condition.New(HoldUnguarded, metav1.ConditionFalse, "NothingHeld", "the workload is not held")
	case r.guarded:
		return condition.New(HoldUnguarded, metav1.ConditionFalse, "Guarded", "the admission rule protects the hold")
	}
	if r.kind == rollout.Deployment {
		return condition.New(HoldUnguarded, metav1.ConditionTrue, "NoRuleForKind",
			"no admission rule holds a Deployment: nobody else should write its template or its size, which is put back")
	}
	return condition.New(HoldUnguarded, metav1.ConditionTrue, "NoAdmissionRule",
		"a write of somebody else may release pods: install the admission rule of the chart (rollout.guard), or remove the annotation %s of the workload", UnguardedAnnotation)
}

func (r reading) rolledBack() metav1.Condition {
	switch {
	case r.at.State == "":
		return condition.New(RolledBack, metav1.ConditionUnknown, "NotObserved", "the workload was not observed yet")
	case r.at.Rollback == nil:
		return condition.New(RolledBack, metav1.ConditionFalse, "NotRolledBack", "no rollback has begun")
	case r.at.State == rollout.Failed:
		return condition.New(RolledBack, metav1.ConditionTrue, "RolledBack", "the pods went back to %s: %s", r.sourceName(), r.at.Rollback.Reason)
	}
	return condition.New(RolledBack, metav1.ConditionFalse, "RollingBack", "the pods go back to %s: %s", r.sourceName(), r.at.Rollback.Reason)
}

func (r reading) succeeded() metav1.Condition {
	switch {
	case r.at.State == rollout.Succeeded && r.at.Mode == rollout.Scale && r.at.TargetSize != nil:
		return condition.New(Succeeded, metav1.ConditionTrue, "Succeeded", "there are %d pods", *r.at.TargetSize)
	case r.at.State == rollout.Succeeded:
		return condition.New(Succeeded, metav1.ConditionTrue, "Succeeded", "all pods have revision %s", r.at.TargetRevision)
	case r.at.State == rollout.Failed:
		return condition.New(Succeeded, metav1.ConditionFalse, r.failure().Reason, "%s", r.failure().Message)
	case r.at.State == "" || r.idle():
		return condition.New(Succeeded, metav1.ConditionUnknown, "NothingRolled", "no rollout has ended")
	}
	return condition.New(Succeeded, metav1.ConditionUnknown, "UnderWay", "the rollout is under way")
}

// blocked is the reason of a wait that only a person ends; empty: there is none.
func (r reading) blocked() string {
	if r.at.Waiting == nil || r.idle() {
		return ""
	}
	if why, ok := fault.Lookup(r.at.Waiting.Reason); ok && why.Class != fault.Transient && why != rollout.GateClosed {
		return r.at.Waiting.Reason
	}
	return ""
}

// failed is the error that ended the pass.
func (r reading) failed() error {
	if r.out.IsFail() {
		return r.out.Err()
	}
	return nil
}

func (r reading) failure() rollout.Failure {
	if r.at.Failure != nil {
		return *r.at.Failure
	}
	return rollout.Failure{Reason: "Failed", Message: "the rollout has failed"}
}

func (r reading) isPaused() bool {
	return r.at.Pause != nil || r.at.Waiting != nil && (r.at.Waiting.Reason == heldReason || r.at.Waiting.Reason == dryRunReason)
}

// standing is what is counted of the Rollout.
func (r reading) standing() standing {
	s := standing{state: r.at.State, stalled: r.stalled().Status == metav1.ConditionTrue}
	switch {
	case r.at.Pause != nil:
		s.paused = r.at.Pause.Since
	case r.isPaused():
		s.paused = r.at.Waiting.Since
	}
	return s
}

func (r reading) reason() string {
	if r.at.Waiting != nil {
		return r.at.Waiting.Reason
	}
	return "UnderWay"
}

func (r reading) message() string {
	if w := r.at.Waiting; w != nil && w.Message != "" {
		return r.place() + ": " + w.Message
	}
	return r.place()
}

func (r reading) place() string {
	if len(r.at.Batches) == 0 || r.at.State != rollout.InBatch && r.at.State != rollout.RollingBack {
		return string(r.at.State)
	}
	return fmt.Sprintf("%s, %s, %s", r.at.State, batchText(r.at.CurrentBatch, len(r.at.Batches)), r.at.BatchState)
}

// batchText names a batch by its index, as plans and requests do, and counts it.
func batchText(index, all int) string { return fmt.Sprintf("batch %d (%d/%d)", index, index+1, all) }

// remedy is what to do about what stands still; empty if nothing does.
func (r reading) remedy() string {
	reason := ""
	switch {
	case r.failed() != nil:
		return fault.Of(r.failed()).Remedy
	case r.at.Pause != nil:
		reason = r.at.Pause.Reason
	case r.at.State == rollout.Failed && r.at.Rollback != nil:
		return "Write a template that works: the pods are back at " + r.sourceName() + r.nextHeld() + "."
	case r.at.Refused():
		return strings.TrimSpace(r.refusedRemedy() + " A changed plan begins again, and so does " + r.another() + ". Until then a workload that is held keeps its pods.")
	case r.at.State == rollout.Failed:
		if why, ok := fault.Lookup(r.failure().Reason); ok {
			return why.Remedy + r.again(why)
		}
		return "The pods stay as they are. Write another template, or the old one, to begin again."
	case r.at.Waiting != nil:
		reason = r.at.Waiting.Reason
	}
	if why, ok := fault.Lookup(reason); ok && !r.idle() {
		return why.Remedy
	}
	if r.at.PlanRefused != "" {
		return withRemedy(rollout.PlanChangeRefused.Reason(), r.at.PlanRefused)
	}
	return ""
}

// sourceName is the revision that the pods had before.
func (r reading) sourceName() string { return cmp.Or(r.source, r.at.SourceRevision) }

// nextHeld says what becomes of the template after a rollback. Nothing holds that of a Deployment.
func (r reading) nextHeld() string {
	if r.kind == rollout.Deployment || !r.held {
		return ""
	}
	return ", and the next one is held"
}

// again says how to begin again after a failure with a remedy. The template of a Deployment is not
// written by pawl rollout restart, and one without a source needs another Rollout.
func (r reading) again(why *fault.Kind) string {
	if why == rollout.SourceMissing {
		return ""
	}
	return " Then begin again, with " + r.another() + "."
}

// another is what begins a rollout anew.
func (r reading) another() string {
	if r.kind == rollout.Deployment {
		return "another template"
	}
	return "another template or pawl rollout restart"
}

// refusedRemedy is that of the fault with which the plan was refused.
func (r reading) refusedRemedy() string {
	if why, ok := fault.Lookup(r.failure().Reason); ok {
		return why.Remedy
	}
	return ""
}

// withRemedy adds the remedy of a reason that is the code of a fault.
func withRemedy(reason, message string) string {
	if why, ok := fault.Lookup(reason); ok && why.Remedy != "" {
		return message + ". " + why.Remedy
	}
	return message
}
