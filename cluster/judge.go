package cluster

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Judgement is what one look says of a cluster, and what is to be written of it.
type Judgement struct {
	Judged   bool      // false: it was not seen well enough, or its state is not judged
	Findings []Finding // what differs, in a fixed order, each with Since, Passes, Alarm, Then and At
	Alarm    bool      // a finding is beyond its tolerance
	Healthy  bool      // nothing differs that could ever be an alarm
	Trouble  error     // why the provider could not be seen
	Changed  bool      // what Apply writes differs from the cluster

	SuspectSince time.Time
	RecoverTries int
	RecoverNext  time.Time
}

// Apply writes a judgement into a cluster. One that has not judged writes nothing.
func (j Judgement) Apply(c *Cluster, now time.Time) {
	if !j.Judged {
		return
	}
	c.Findings, c.Alarm, c.SuspectSince = j.Findings, j.Alarm, j.SuspectSince
	c.RecoverTries, c.RecoverNext, c.ObservedAt = j.RecoverTries, j.RecoverNext, now
}

// grain is what times are cut to, so that every store keeps them as they are.
const grain = time.Millisecond

// Judge compares a cluster's books with what a pass has seen. Clusters that
// are Running, Stopped or Alert and are not to be destroyed are judged, unless
// the provider could not be seen or the look is older than the state: a failed
// page means not seen, never gone.
//
// In Alert the judgement says when Recover (or Stop, where Stopped is desired)
// is tried: at once when the cluster is healthy again; else, where the policy
// can do something about it, after pauses of Tolerances.Retry.
func Judge(c *Cluster, b *Record, seen Observed, now time.Time, tol Tolerances) Judgement {
	now = now.UTC().Truncate(grain)
	if seen.Trouble != nil {
		return Judgement{Trouble: seen.Trouble, Findings: []Finding{
			{Type: Unreachable, Resource: c.Provider, Since: now, Evidence: seen.Trouble.Error()}}}
	}
	if !judged(c, seen) {
		return Judgement{}
	}
	l := newLook(c, b, seen, now, tol)
	differences := l.differences()
	j := Judgement{Judged: true, Healthy: true, RecoverTries: c.RecoverTries}
	for _, d := range differences {
		f := l.weigh(d)
		j.Findings = append(j.Findings, f)
		j.Alarm = j.Alarm || f.Alarm
		if d.patience == never {
			continue
		}
		j.Healthy = false
		if j.SuspectSince.IsZero() || f.Since.Before(j.SuspectSince) {
			j.SuspectSince = f.Since
		}
	}
	plan := l.plan(differences, c.Recovery.Or(l.tol.Policy), RecoveryOptions{})
	l.next(&j, plan)
	if l.up {
		plan.tell(j.Findings, j.RecoverNext)
	} else {
		l.tellStopped(j.Findings, j.RecoverNext)
	}
	j.Changed = j.Alarm != c.Alarm || !j.SuspectSince.Equal(c.SuspectSince) || j.RecoverTries != c.RecoverTries ||
		!j.RecoverNext.Equal(c.RecoverNext) || !slices.EqualFunc(j.Findings, c.Findings, Finding.same)
	return j
}

func judged(c *Cluster, seen Observed) bool {
	return slices.Contains([]machine.State{Running, Stopped, Alert}, c.State) && c.Desired != WantDestroyed &&
		seen.Listed[VM] && (seen.At.IsZero() || !seen.At.Before(c.StateSince))
}

// weigh gives a finding its age and says whether it is an alarm.
func (l *look) weigh(d difference) Finding {
	f := d.Finding
	f.Since, f.Passes = l.now, 1
	if old, ok := l.before[f.key()]; ok && (d.patience == passing) == onItsWay(old) {
		f.Since = old.Since
		if d.patience == passes {
			f.Passes = min(old.Passes+1, l.tol.Passes) // no further: a cluster that stays as it is is not written
		}
	}
	switch d.patience {
	case atOnce:
		f.Alarm = true
	case passing:
		f.Alarm = l.now.Sub(f.Since) >= l.tol.Transitional
	case passes:
		f.Alarm = f.Passes >= l.tol.Passes
	}
	return f
}

// onItsWay reports a finding of a VM that was starting, stopping or migrating.
func onItsWay(f Finding) bool {
	return f.Type == PowerState && len(f.Evidence) > len(transition) && f.Evidence[:len(transition)] == transition
}

// next says when the cluster is tried to be brought back.
func (l *look) next(j *Judgement, plan RecoveryPlan) {
	c := l.c
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
	policy := c.Recovery.Or(l.tol.Policy)
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
		if at := c.StateSince.Add(l.tol.Retry.After(c.RecoverTries, c.UUID)).UTC().Truncate(grain); at.After(l.now) && c.RecoverTries > 0 {
			j.RecoverNext = at
		}
		j.RecoverTries++
	}
}

// tellStopped writes into the findings of a cluster that is to be stopped what is
// done about them: VMs that run are stopped, and all else is left until it is
// started or recovered.
func (l *look) tellStopped(findings []Finding, at time.Time) {
	allowed := len(l.c.Recovery.Or(l.tol.Policy)) > 0
	for i := range findings {
		f := &findings[i]
		switch {
		case f.Type == Foreign:
			f.Then = "left alone"
		case f.Type == PowerState && !onItsWay(*f) && allowed:
			f.Then, f.At = "stop it", at
		case f.Type == PowerState && !onItsWay(*f):
			f.Then, f.Code = "nothing: stopping is not allowed", RecoveryForbidden.Code
		case onItsWay(*f) || f.Type == UnknownState:
			f.Then = "wait"
		default:
			f.Then = "nothing while the cluster is stopped"
		}
	}
}

// same reports findings that are written alike.
func (f Finding) same(o Finding) bool {
	since, at := f.Since.Equal(o.Since), f.At.Equal(o.At)
	f.Since, f.At, o.Since, o.At = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return since && at && f == o
}
