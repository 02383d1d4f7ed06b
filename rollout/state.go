package rollout

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// locate finds the target, its source, and which movement it is.
func locate(s *pass) {
	w := s.f.Wanted
	switch {
	case s.f.MissingRevision != "":
		s.wait(0, TargetRevisionMissing.Reason(), "there is no revision %s", s.f.MissingRevision)
		return
	case s.f.Recorded:
		s.wait(time.Millisecond, "Locating", "the workloads of %s are looked for", w.TargetRevision)
		return
	case !slices.ContainsFunc(rows, func(r Rules) bool { return r.Kind == w.Kind }):
		_, err := RulesOf(w.Kind, Rollout)
		s.stopRollout(err)
		return
	case s.f.Unserved != "":
		s.wait(0, KindNotServed.Reason(), "the API server does not serve %s", s.f.Unserved)
		return
	case s.f.Target == nil:
		s.wait(0, TargetMissing.Reason(), "the workload does not exist")
		return
	case !s.f.Target.observed():
		s.wait(0, WorkloadBusy.Reason(), "%s %s has not observed its newest spec", s.f.Target.Kind, s.f.Target.Name)
		return
	}
	t := *s.f.Target
	mode, found := s.f.mode(t)
	if !found {
		nothingToRoll(s, t)
		return
	}
	s.at.Mode, s.at.Named, s.at.TargetUID = mode, w.Named, t.UID
	s.at.TargetRevision, s.at.SourceRevision = w.TargetRevision, w.SourceRevision
	s.at.SourceHash = s.f.sourceHash(t)
	if s.at.SourceRevision == "" && mode == Rollout {
		s.at.SourceRevision = s.at.SourceHash
	}
	s.at.Number++
	s.send(AppLocated, "", string(mode)+" to "+w.text())
}

// mode is a rollout if pods do not carry the target, a scale if only the size differs.
func (f Facts) mode(t WorkloadFacts) (Mode, bool) {
	w := f.Wanted
	switch {
	case w.Named && !w.HasSource:
		return Scale, true
	case w.Named: // the pods may have the target under another name
		there := t.Kind != Deployment && t.Template == w.TargetRevision && f.count(t, t.UpdateRevision).old == 0 && t.CurrentRevision == t.UpdateRevision
		return Rollout, !there
	}
	if t.Kind == Deployment {
		if w.HasSource || f.count(t, t.UpdateRevision).old > 0 {
			done := w.HasSource && len(f.Sources) > 0 && f.sourceReplicas() == 0
			return Rollout, !done
		}
	} else if f.count(t, t.UpdateRevision).old > 0 || t.CurrentRevision != t.UpdateRevision && t.Replicas > 0 {
		return Rollout, true
	}
	return Scale, w.TargetSize != nil && *w.TargetSize != t.Replicas
}

// sourceHash is the revision that most ready pods carry which do not carry the target. Before the template
// of a named target is written, no pod carries it.
func (f Facts) sourceHash(t WorkloadFacts) string {
	if n := len(f.Sources); n > 0 {
		return f.Sources[n-1].UpdateRevision
	}
	if t.Kind == Deployment {
		return ""
	}
	pods := map[string]int{}
	for _, p := range f.podsOf(t) {
		if p.Ready && !p.Terminating && (p.Revision != t.UpdateRevision || f.Wanted.Named && t.Template != f.Wanted.TargetRevision) {
			pods[p.Revision]++
		}
	}
	most := t.CurrentRevision
	for _, revision := range slices.Sorted(maps.Keys(pods)) {
		if pods[revision] > pods[most] {
			most = revision
		}
	}
	return most
}

// hold keeps the pods of a workload, before anything is judged of the rollout: a plan may be refused, and an
// update under way may never end. What an end has left half way stays as it is.
func hold(s *pass) {
	t := s.f.Target
	if t == nil {
		return
	}
	switch s.at.State { //nolint:exhaustive // in the others the rollout itself holds
	case Locating, Verifying, Initializing:
		if s.f.Wanted.HoldAlways || t.Held && s.at.State != Locating && s.at.Mode == Rollout {
			park(s, *t)
		}
	case Failed:
		if s.f.Wanted.HoldAlways && !t.Held && !s.judgement().replaced() {
			park(s, *t)
		}
	}
}

// park writes the hold that keeps every pod, and reports whether that needs a write.
func park(s *pass, t WorkloadFacts) bool {
	if t.Kind != StatefulSet && !t.Kind.pauses() || s.f.Wanted.Deleting || t.Deleting || t.foreign(s.f) != nil || t.Partition == HoldAll && t.Held {
		return false
	}
	a := t.act("hold the next template")
	a.Partition, a.Held = new(HoldAll), new(true)
	s.act(Verdict{Acts: []Act{a}})
	return true
}

// nothingToRoll holds the next template, if the Rollout asks for that.
func nothingToRoll(s *pass, t WorkloadFacts) {
	if parked(s, t) {
		return
	}
	s.wait(0, NothingToRoll.Reason(), "all %d pods of %s %s have revision %s", t.Replicas, t.Kind, t.Name, t.UpdateRevision)
}

// parked holds the next template, or lets it go, as the Rollout asks, and reports whether that needs a
// write.
func parked(s *pass, t WorkloadFacts) bool {
	if t.Kind == Deployment || s.f.Wanted.Deleting || t.foreign(s.f) != nil || !t.observed() {
		return false
	}
	if s.f.Wanted.HoldAlways {
		return park(s, t)
	}
	a := t.act("let the next template go")
	switch {
	case t.Held && t.Partition == HoldAll:
		a.Held = new(false)
		if t.Kind != StatefulSet || t.UpdateType != OnDelete {
			a.Partition = new(0)
		}
	default:
		return false
	}
	s.act(Verdict{Acts: []Act{a}})
	return true
}

func verify(s *pass) {
	if s.f.Target == nil {
		s.wait(0, TargetMissing.Reason(), "the workload does not exist")
		return
	}
	if s.at.Mode == Rollout && s.f.Wanted.Kind == Deployment && len(s.f.Sources) == 0 && !s.f.Wanted.HasSource {
		s.stopRollout(SourceMissing.Errorf("Deployment %s changed: name the one with the old template in sourceRef", s.f.Target.Name))
		return
	}
	v := s.rules().VerifySpec(s.asked, s.at, s.f)
	if v.Outcome.IsFail() {
		v.Position.PlanHash = s.planHash()
	}
	if !s.done(v) {
		return
	}
	s.at.Started, s.at.PlanHash = &s.now, s.planHash()
	s.send(RollingSpecVerified, "", s.at.sizes())
}

func (at Position) sizes() string {
	return strconv.Itoa(deref(at.OriginalSize)) + " to " + strconv.Itoa(deref(at.TargetSize)) + " pods in " + strconv.Itoa(len(at.Batches)) + " batches"
}

// done takes over the position of a verdict that is done; otherwise it acts, asks, waits or stops.
func (s *pass) done(v Verdict) bool {
	s.at = s.at.keep(v).Position
	s.d.Asks = append(s.d.Asks, v.Asks...)
	switch {
	case v.Acts != nil:
		s.act(v)
	case v.Done:
		return true
	case v.Outcome.IsFail() && fatal(v.Outcome.Err()):
		s.stopRollout(v.Outcome.Err())
	default:
		s.stop(v.Outcome)
	}
	return false
}

func initialize(s *pass) {
	defer s.overdue("the rollout was not initialized")
	if s.f.Target == nil {
		s.wait(0, TargetMissing.Reason(), "the workload does not exist")
		return
	}
	if err := foreignOwner(s.judgement()); err != nil {
		s.stopRollout(err)
		return
	}
	if s.held() || !s.hooks(InitializeHook, "initializing") {
		return
	}
	if s.done(s.rules().Initialize(s.asked, s.at, s.f)) {
		s.send(RollingInitialized, "", "")
		s.begin()
	}
}

// finalize is the work of every state that ends.
func finalize(s *pass) {
	succeeded := s.at.State == Finalising
	if p := s.at.Pause; succeeded && p != nil && p.By != ByUser && s.held() {
		return
	}
	defer s.overdue("the rollout was not finalized")
	if !s.at.Finalized {
		v := s.rules().Finalize(s.asked, s.at, s.f, succeeded)
		if s.at.State == Deleting && v.Outcome.IsWait() { // a deletion waits for no revision
			v = Verdict{Done: true, Position: s.at}
		}
		if !s.done(v) {
			return
		}
		s.at.Finalized = true
	}
	if s.at.Number > 0 && s.at.TargetSize != nil && !s.hooks(FinalizeHook, string(s.at.State)) {
		return
	}
	abandoned := s.at.State == Abandoning
	s.send(RollingFinalized, "", "")
	s.at.Finalized = false
	if abandoned {
		s.plan()
	}
}

// rest releases a claim that is still there, and waits for something new. What is parked for the next
// rollout is let go when there will be none.
func rest(s *pass) {
	s.at.Pause = nil
	var acts []Act
	if s.f.Wanted.Deleting && s.f.Target != nil {
		acts = s.rules().Finalize(s.asked, s.at, s.f, false).Acts
	}
	if acts != nil {
		s.act(Verdict{Acts: acts})
		return
	}
	for _, w := range s.f.workloads() {
		if w.ours(s.f) {
			a := w.act("release a claim that was left")
			a.Claim = ReleaseClaim
			acts = append(acts, a)
		}
	}
	if acts != nil {
		s.act(Verdict{Acts: acts})
		return
	}
	if t := s.f.Target; t != nil && (s.at.State == Succeeded || s.judgement().replaced()) && // nothing has parked one that was made again
		s.f.count(*t, t.UpdateRevision).old == 0 && parked(s, *t) {
		return
	}
	s.stop(outcome.Done())
}

// held waits while a pause lasts, and begins the one that the plan asks for.
func (s *pass) held() bool {
	userPause(s)
	if p := s.at.Pause; p != nil {
		s.wait(0, p.Reason, "%s", p.Message)
		return true
	}
	return false
}

// fail lets onFailure act on something that has failed. It reports whether the rollout goes on as if
// it had not.
func (s *pass) fail(by PausedBy, key string, err error, then OnFailure) bool {
	switch {
	case then == OnFailureContinue && by != ByDeadline:
		s.record(s.at, FailureSkipped, "", fault.Message(err))
		return true
	case then == OnFailureRollback && s.at.State == InBatch:
		s.at.Failure = failureOf(err)
		s.rollBack(fault.Message(err), "")
		return false
	case then == OnFailureRollback && s.at.State == Initializing: // nothing has moved: it is an abandon
		s.stopRollout(err)
		return false
	default:
		s.pause(by, key, fault.Of(err).Reason(), fault.Message(err))
		s.wait(0, s.at.Pause.Reason, "%s", s.at.Pause.Message)
		return false
	}
}
