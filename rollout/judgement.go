package rollout

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// judgement is what is judged: a movement, and what was seen of its pods.
type judgement struct {
	movement
	f Facts
}

func judgementOf(p Plan, at Position, f Facts) *judgement {
	j := &judgement{movement{p.Defaulted(-1), at}, f}
	j.p = at.recorded(j.p)
	if at.OriginalSize != nil && at.TargetSize != nil {
		j.p = j.p.Defaulted(total(at.Mode, *at.OriginalSize, *at.TargetSize))
	}
	return j
}

// targetHash is the revision that updated pods carry: known when the template is written.
func (j *judgement) targetHash() string {
	if j.at.TargetHash != "" {
		return j.at.TargetHash
	}
	if j.f.Target.Template == j.at.TargetRevision {
		return j.f.Target.UpdateRevision
	}
	return ""
}

// single reports whether pods are released one at a time.
func (j *judgement) single() bool {
	return j.counting() || j.paced()
}

// paced reports whether something is asked, or waited for, before each pod, also one that is born.
func (j *judgement) paced() bool {
	return j.batch().InstanceInterval > 0 || j.at.Rollback == nil && len(j.p.gates(BeforePod, j.at.CurrentBatch)) > 0
}

// revision is the one that pods are moved to.
func (j *judgement) revision() string {
	if j.at.Rollback != nil {
		return j.f.Target.UpdateRevision
	}
	return j.targetHash()
}

// changesReserved reports whether pods exist with ordinals that the set skips, or will not keep.
func (j *judgement) changesReserved() bool {
	w := j.f.Target
	if len(w.Reserved) == 0 {
		return false
	}
	reserved := ordinal.List(w.Reserved)
	return slices.ContainsFunc(j.f.podsOf(*w), func(p Pod) bool {
		return slices.Contains(reserved, p.Ordinal) || w.ordinals().Place(p.Ordinal) >= w.Replicas
	})
}

// released reports whether the workload may replace the pod at any moment.
func (j *judgement) released(p *Pod) bool {
	w := j.f.Target
	if w.UpdateType == OnDelete || j.at.Mode == Scale || p.Workload != "" && p.Workload != w.UID {
		return false
	}
	if w.counts() {
		return false
	}
	return w.ordinals().Place(p.Ordinal) >= w.kept() && p.Revision != j.f.Target.UpdateRevision
}

// toRevert is how many pods have the revision that a rollback leaves; those that terminate count too or not.
func (j *judgement) toRevert(terminating bool) int {
	n := 0
	for _, p := range j.f.podsOf(*j.f.Target) {
		if p.Revision == j.at.TargetHash && (terminating || !p.Terminating) {
			n++
		}
	}
	return n
}

// nextMinReady is when the next ready pod has been ready for minReadySeconds; 0: none will by time.
func (j *judgement) nextMinReady() time.Duration {
	w, next := *j.f.Target, time.Duration(0)
	if w.MinReadySeconds == 0 {
		return 0
	}
	for _, p := range j.f.podsOf(w) {
		left := time.Duration(w.MinReadySeconds)*time.Second - j.f.Now.Sub(p.ReadySince)
		if p.Ready && left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// replaced reports whether the workload is another object than the one that was claimed.
func (j *judgement) replaced() bool {
	return j.at.TargetUID != "" && j.f.Target != nil && j.f.Target.UID != j.at.TargetUID
}
