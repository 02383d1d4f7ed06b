package restores

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// The conditions of a restore. All of them are there from the first visit.
const (
	ReadyCondition         = condition.TypeReady       // the restore is complete
	ProgressingCondition   = condition.TypeProgressing // it runs, or what holds it up
	FieldsIgnoredCondition = "FieldsIgnored"           // the spec has fields that are not acted upon
)

// conditions derives all conditions from the facts and what the pass has come to: Ready, Progressing, FieldsIgnored.
func (p *pass) conditions(report chain.Report) []metav1.Condition {
	return []metav1.Condition{p.ready(report), p.progressing(report), p.fieldsIgnored()}
}

// silent reports whether the state of the restore is not known.
func (p *pass) silent() bool { return p.silence != nil && !p.unmade }

func (p *pass) ready(report chain.Report) metav1.Condition {
	switch out := report.Outcome(); {
	case p.ended():
		return p.end(ReadyCondition, metav1.ConditionTrue)
	case p.silent():
		return condition.FromError(ReadyCondition, metav1.ConditionUnknown, p.silence)
	default:
		return condition.Ready(out)
	}
}

// end is the condition of a restore that has ended; status is that of a complete one.
func (p *pass) end(kind string, status metav1.ConditionStatus) metav1.Condition {
	if fdb.RestoreState(p.restore.Status.State) == fdb.RestoreAborted {
		return condition.New(kind, metav1.ConditionFalse, "Aborted", "the restore %s was aborted; what was restored stays", p.tag)
	}
	return condition.New(kind, status, "Completed", "the restore %s is complete", p.tag)
}

// progressing is the first link that holds the restore up. What a person must mend is no progress.
func (p *pass) progressing(report chain.Report) metav1.Condition {
	if p.ended() {
		return p.end(ProgressingCondition, metav1.ConditionFalse)
	}
	out := report.Outcome()
	c := condition.Progressing(out)
	if kind, known := fault.Lookup(out.Reason()); known && !out.IsDone() && kind.Class != fault.Transient {
		c.Status = metav1.ConditionFalse
	}
	if p.silent() {
		c.Status = metav1.ConditionUnknown
	}
	if out.Reason() == chain.ReasonHeld && p.plan != "" {
		c.Message += "; " + foundationdb.ApproveAnnotation + ": " + p.plan + " lets this plan pass once"
	}
	return c
}

func (p *pass) fieldsIgnored() metav1.Condition {
	v := p.at.Version
	paths := slices.Clone(p.unknown)
	if p.restore.Spec.EncryptionKeyPath != "" && v != (fdb.Version{}) && !v.Has(fdb.FeatureBackupEncryption) {
		paths = append(paths, "spec.encryptionKeyPath")
	}
	if slices.Sort(paths); len(paths) > 0 {
		return condition.New(FieldsIgnoredCondition, metav1.ConditionTrue, "NotActedUpon", "%s", strings.Join(paths, ", "))
	}
	if old := meta.FindStatusCondition(p.before.Conditions, FieldsIgnoredCondition); old != nil && v == (fdb.Version{}) && p.restore.Spec.EncryptionKeyPath != "" {
		return *old
	}
	return condition.New(FieldsIgnoredCondition, metav1.ConditionFalse, "None", "all fields are acted upon")
}

// warn tells people what has begun to hold the restore up.
func (p *pass) warn(report chain.Report) {
	c := p.progressing(report)
	if _, known := fault.Lookup(c.Reason); !known || c.Status == metav1.ConditionTrue {
		return
	}
	if old := meta.FindStatusCondition(p.before.Conditions, ProgressingCondition); old != nil && old.Reason == c.Reason && old.Message == c.Message {
		return
	}
	p.objects.Tell(p.restore, port.Event{Reason: c.Reason, Message: c.Message, Warning: true})
}
