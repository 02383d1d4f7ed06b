package cluster

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Judgement is what one look says of a cluster, and what is to be written of it.
type HealthDecision struct {
	Decided  bool      // false: it was not seen well enough, or its state is not judged
	Findings []Finding // what differs, in a fixed order, each with Since, Passes, Alarm, Then and At
	Alarm    bool      // a finding is beyond its tolerance
	Healthy  bool      // nothing differs that could ever be an alarm
	Err      error     // why the provider could not be seen
	Changed  bool      // what Apply writes differs from the cluster

	SuspectSince time.Time
	RecoverTries int
	RecoverNext  time.Time
}

// Apply writes a judgement into a cluster. One that has not judged writes nothing.
func (j HealthDecision) Apply(c *Cluster, now time.Time) {
	if !j.Decided {
		return
	}
	c.Findings, c.Alarm, c.SuspectSince = j.Findings, j.Alarm, j.SuspectSince
	c.RecoverTries, c.RecoverNext, c.ObservedAt = j.RecoverTries, j.RecoverNext, now
}

// grain is what times are cut to, so that every store keeps them as they are.
const timePrecision = time.Millisecond

// Judge compares a cluster's books with what a pass has seen. Clusters that
// are Running, Stopped or Alert and are not to be destroyed are judged, unless
// the provider could not be seen or the look is older than the state: a failed
// page means not seen, never gone.
//
// In Alert the judgement says when Recover (or Stop, where Stopped is desired)
// is tried: at once when the cluster is healthy again; else, where the policy
// can do something about it, after pauses of Tolerances.Retry.
func DecideHealth(c *Cluster, b *Record, seen Observed, now time.Time, tol Tolerances) HealthDecision {
	now = now.UTC().Truncate(timePrecision)
	if seen.Err != nil {
		return HealthDecision{Err: seen.Err, Findings: []Finding{
			{Type: Unreachable, Resource: c.Provider, Since: now, Evidence: seen.Err.Error()}}}
	}
	if !canDecide(c, seen) {
		return HealthDecision{}
	}
	l := newComparison(c, b, seen, now, tol)
	differences := l.differences()
	j := HealthDecision{Decided: true, Healthy: true, RecoverTries: c.RecoverTries}
	for _, d := range differences {
		f := l.newFinding(d)
		j.Findings = append(j.Findings, f)
		j.Alarm = j.Alarm || f.Alarm
		if d.tolerance == alarmNever {
			continue
		}
		j.Healthy = false
		if j.SuspectSince.IsZero() || f.Since.Before(j.SuspectSince) {
			j.SuspectSince = f.Since
		}
	}
	plan := l.plan(differences, c.Recovery.Or(l.tolerances.Policy), RecoveryOptions{})
	l.scheduleRecovery(&j, plan)
	if l.shouldRun {
		plan.describe(j.Findings, j.RecoverNext)
	} else {
		l.describeStopped(j.Findings, j.RecoverNext)
	}
	j.Changed = j.Alarm != c.Alarm || !j.SuspectSince.Equal(c.SuspectSince) || j.RecoverTries != c.RecoverTries ||
		!j.RecoverNext.Equal(c.RecoverNext) || !slices.EqualFunc(j.Findings, c.Findings, Finding.equal)
	return j
}

func canDecide(c *Cluster, seen Observed) bool {
	return slices.Contains([]machine.State{Running, Stopped, Alert}, c.State) && c.Desired != WantDestroyed &&
		seen.Listed[VM] && (seen.At.IsZero() || !seen.At.Before(c.StateSince))
}

// weigh gives a finding its age and says whether it is an alarm.
func (l *comparison) newFinding(d difference) Finding {
	f := d.Finding
	f.Since, f.Passes = l.now, 1
	if old, ok := l.previous[f.key()]; ok && (d.tolerance == alarmAfterTime) == inTransition(old) {
		f.Since = old.Since
		if d.tolerance == alarmAfterPasses {
			f.Passes = min(old.Passes+1, l.tolerances.Passes) // no further: a cluster that stays as it is is not written
		}
	}
	switch d.tolerance {
	case alarmAtOnce:
		f.Alarm = true
	case alarmAfterTime:
		f.Alarm = l.now.Sub(f.Since) >= l.tolerances.Transitional
	case alarmAfterPasses:
		f.Alarm = f.Passes >= l.tolerances.Passes
	}
	return f
}

// onItsWay reports a finding of a VM that was starting, stopping or migrating.
func inTransition(f Finding) bool {
	return f.Type == PowerState && len(f.Evidence) > len(transitionPrefix) && f.Evidence[:len(transitionPrefix)] == transitionPrefix
}

// next says when the cluster is tried to be brought back.
func (l *comparison) scheduleRecovery(j *HealthDecision, plan RecoveryPlan) {
	c := l.cluster
	if c.State != Alert {
		if j.Healthy {
			j.RecoverTries = 0
		}
		return
	}
	j.RecoverNext = c.RecoverNext
	if j.RecoverNext.Before(c.StateSince) {
		j.RecoverNext = time.Time{} // of an earlier alert
	}
	policy := c.Recovery.Or(l.tolerances.Policy)
	possible := j.Healthy || !plan.Empty()
	if c.Desired == WantStopped {
		possible = j.Healthy || len(policy) > 0
	}
	mended := j.Healthy && c.Alarm
	switch {
	case mended:
		j.RecoverTries, j.RecoverNext = 1, l.now
	case !possible:
		j.RecoverNext = time.Time{}
	case j.RecoverNext.IsZero():
		j.RecoverNext = l.now
		if at := c.StateSince.Add(l.tolerances.Retry.After(c.RecoverTries, c.UUID)).UTC().Truncate(timePrecision); at.After(l.now) && c.RecoverTries > 0 {
			j.RecoverNext = at
		}
		j.RecoverTries++
	}
}

// tellStopped writes into the findings of a cluster that is to be stopped what is
// done about them: VMs that run are stopped, and all else is left until it is
// started or recovered.
func (l *comparison) describeStopped(findings []Finding, at time.Time) {
	allowed := len(l.cluster.Recovery.Or(l.tolerances.Policy)) > 0
	for i := range findings {
		f := &findings[i]
		switch {
		case f.Type == Foreign:
			f.Then = "left alone"
		case f.Type == PowerState && !inTransition(*f) && allowed:
			f.Then, f.At = "stop it", at
		case f.Type == PowerState && !inTransition(*f):
			f.Then, f.Code = "nothing: stopping is not allowed", RecoveryForbidden.Code
		case inTransition(*f) || f.Type == UnknownState:
			f.Then = "wait"
		default:
			f.Then = "nothing while the cluster is stopped"
		}
	}
}

// same reports findings that are written alike.
func (f Finding) equal(o Finding) bool {
	since, at := f.Since.Equal(o.Since), f.At.Equal(o.At)
	f.Since, f.At, o.Since, o.At = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return since && at && f == o
}
