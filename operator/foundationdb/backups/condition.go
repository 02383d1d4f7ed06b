package backups

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// The conditions of a backup. All of them are there from the first visit.
const (
	ReadyCondition         = condition.TypeReady       // the backup is as the spec says
	ProgressingCondition   = condition.TypeProgressing // what is under way, or what holds it up
	FieldsIgnoredCondition = "FieldsIgnored"           // the spec has fields that are not acted upon
	PauseIsGlobalCondition = "PauseIsGlobal"           // Paused is refused, since other backups of the cluster run
)

// conditions derives all conditions from the facts and what the pass has come to.
func (p *pass) conditions(report chain.Report) []metav1.Condition {
	return []metav1.Condition{p.ready(report), p.progressing(report), p.fieldsIgnored(), p.pauseIsGlobal()}
}

// silent reports whether the state of the backup is not known.
func (p *pass) silent() bool {
	return p.managed() && p.silence != nil && !p.unmade && p.refused == nil
}

func (p *pass) ready(report chain.Report) metav1.Condition {
	out := report.Outcome()
	switch {
	case p.backup.DeletionTimestamp != nil:
		return condition.New(ReadyCondition, metav1.ConditionFalse, "Deleting", "the object is being deleted")
	case p.silent():
		return condition.FromError(ReadyCondition, metav1.ConditionUnknown, p.silence)
	case out.IsDone() && p.wish().Reconciled:
		return condition.New(ReadyCondition, metav1.ConditionTrue, p.state(), "the backup %s is as it should be", p.tag())
	case out.IsDone():
		return condition.New(ReadyCondition, metav1.ConditionFalse, "Unreconciled", "the backup %s is not yet as it should be", p.tag())
	}
	return condition.Ready(out)
}

// state is the state of a backup that is as it should be.
func (p *pass) state() string {
	v := p.wish()
	switch {
	case !p.managed():
		return "AgentsReady"
	case v.Run && v.Pause:
		return "Paused"
	case v.Run:
		return "Running"
	case p.live.State == fdb.BackupCompleted && p.live.Restorable:
		return "Completed"
	default:
		return "Stopped"
	}
}

// progressing is the first link that holds the backup up. What a person must mend is no progress.
func (p *pass) progressing(report chain.Report) metav1.Condition {
	out := report.Outcome()
	c := condition.Progressing(out)
	if kind, known := fault.Lookup(out.Reason()); known && !out.IsDone() && kind.Class != fault.Transient {
		c.Status = metav1.ConditionFalse
	}
	if p.silent() {
		c.Status = metav1.ConditionUnknown
	}
	if out.Reason() == chain.ReasonHeld && p.plan != "" {
		c.Message += "; pawl.dev/approve: " + p.plan + " lets this plan pass once"
	}
	return c
}

func (p *pass) fieldsIgnored() metav1.Condition {
	if paths := slices.Sorted(slices.Values(append(p.ignored(), p.unknown...))); len(paths) > 0 {
		return condition.New(FieldsIgnoredCondition, metav1.ConditionTrue, "NotActedUpon", "%s", strings.Join(paths, ", "))
	}
	return condition.New(FieldsIgnoredCondition, metav1.ConditionFalse, "None", "all fields are acted upon")
}

func (p *pass) pauseIsGlobal() metav1.Condition {
	if !p.pauseRefused() {
		return condition.New(PauseIsGlobalCondition, metav1.ConditionFalse, "NotRefused", "no pause is refused")
	}
	c := condition.FromFault(PauseIsGlobalCondition, PauseRefused, "the backups %s of the cluster %s want to run", list(p.running()), p.backup.Spec.ClusterName)
	c.Status = metav1.ConditionTrue
	return c
}

// warn tells people what has begun to hold the backup up.
func (p *pass) warn(report chain.Report) {
	c := p.progressing(report)
	if _, known := fault.Lookup(c.Reason); !known || c.Status == metav1.ConditionTrue {
		return
	}
	if old := meta.FindStatusCondition(p.before.Conditions, ProgressingCondition); old != nil && old.Reason == c.Reason && old.Message == c.Message {
		return
	}
	p.objects.Tell(p.backup, port.Event{Reason: c.Reason, Message: c.Message, Warning: true})
}
