package cluster

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// HealthDecision is what one pass decides about a cluster, and what it writes into
// the cluster.
type HealthDecision struct {
	Decided  bool      // false: the observation is incomplete, or clusters in this state are not checked
	Findings []Finding // the differences, in a fixed order, with Since, Passes, Alarm, Then and At
	Alarm    bool      // a finding is beyond its tolerance
	Healthy  bool      // no difference that could become an alarm
	Err      error     // why the provider could not be read
	Changed  bool      // Apply would change the cluster

	SuspectSince time.Time
	RecoverTries int
	RecoverNext  time.Time
}

// Apply writes a decision into a cluster. Without Decided it writes nothing.
func (j HealthDecision) Apply(c *Cluster, now time.Time) {
	if !j.Decided {
		return
	}
	c.Findings, c.Alarm, c.SuspectSince = j.Findings, j.Alarm, j.SuspectSince
	c.RecoverTries, c.RecoverNext, c.ObservedAt = j.RecoverTries, j.RecoverNext, now
}

// timePrecision is the precision of times, so that every store returns them
// unchanged.
const timePrecision = time.Millisecond

// DecideHealth compares the record of a cluster with what a pass observed. It
// checks clusters that are Running, Stopped or Alert and that nobody wants
// destroyed. It decides nothing if the provider could not be read, or if the
// observation is older than the state: a failed page means not seen, never gone.
//
// In Alert it also sets the time of the next Recover (or Stop, if Stopped is
// desired): at once when the cluster is healthy again; else, if the policy allows a
// repair, after the pauses of Tolerances.Retry.
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

// newFinding sets the age of a finding and whether it is an alarm.
func (l *comparison) newFinding(d difference) Finding {
	f := d.Finding
	f.Since, f.Passes = l.now, 1
	if old, ok := l.previous[f.key()]; ok && (d.tolerance == alarmAfterTime) == inTransition(old) {
		f.Since = old.Since
		if d.tolerance == alarmAfterPasses {
			f.Passes = min(old.Passes+1, l.tolerances.Passes) // not higher: an unchanged cluster is not written
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

// inTransition reports a finding of a VM that was starting, stopping or migrating.
func inTransition(f Finding) bool {
	return f.Type == PowerState && len(f.Evidence) > len(transitionPrefix) && f.Evidence[:len(transitionPrefix)] == transitionPrefix
}

// scheduleRecovery sets the time of the next recovery.
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
		j.RecoverNext = time.Time{} // it belongs to an earlier alert
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

// describeStopped writes into the findings of a cluster that should be stopped what
// happens next: running VMs are stopped; everything else waits until the cluster is
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

// equal reports whether two findings are stored alike.
func (f Finding) equal(o Finding) bool {
	since, at := f.Since.Equal(o.Since), f.At.Equal(o.At)
	f.Since, f.At, o.Since, o.At = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return since && at && f == o
}
