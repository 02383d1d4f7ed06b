package rollout

// rollBack takes the pods back to the source.
func (s *pass) rollBack(why, by string) {
	size := s.judgement().moved()
	if s.at.BatchState == BatchInitializing {
		size = s.judgement().movedBefore()
	}
	if s.f.Target != nil && s.at.Mode == Rollout && s.f.Target.Kind != Deployment && s.f.Target.UpdateType != OnDelete {
		size = max(size, s.f.Target.Replicas-s.f.Target.kept())
	}
	if s.f.Target != nil && s.at.Mode == Rollout {
		size = max(size, s.judgement().toRevert(true))
	}
	s.at.Pause, s.at.Verified, s.at.Answers = nil, nil, nil
	s.send(RollbackRequested, by, why)
	if s.at.Rollback != nil {
		s.at.Rollback.Reason, s.at.Rollback.Since, s.at.Rollback.Size = why, s.now, size
		if s.at.Failure == nil {
			s.at.Failure = &Failure{Reason: "RolledBack", Message: why}
		}
		if s.p.Rollback != nil && s.p.Rollback.Mode == AllAtOnce {
			s.at.CurrentBatch = s.at.Rollback.FromBatch
		}
	}
	s.plan()
	s.begin()
	s.at.Excused = 0 // the deadline of the rollback begins
}

// reverted writes the template of the source and the full hold in one write, once.
func reverted(s *pass) bool {
	if s.held() {
		return false
	}
	back, t, source := s.at.Rollback, *s.f.Target, s.at.revertsTo()
	inPlace := s.at.Mode == Rollout && t.Kind != Deployment
	if !inPlace || back.Reverted && t.Template == source {
		return true
	}
	if t.Template == source && (t.Partition == HoldAll || t.UpdateType == OnDelete) && t.observed() {
		copied := *back
		copied.Reverted = true
		s.at.Rollback = &copied
		return true
	}
	if t.Template == source && t.Partition == HoldAll {
		s.wait(0, WorkloadBusy.Reason(), "%s %s has not observed the template of the source", t.Kind, t.Name)
		return false
	}
	if !t.observed() && t.Template != s.at.TargetRevision && t.Template != source { // it may be another target
		s.wait(0, WorkloadBusy.Reason(), "%s %s has not observed its newest spec", t.Kind, t.Name)
		return false
	}
	a := t.act("write the template of the source, and hold every pod")
	a.Template, a.Partition = source, new(HoldAll)
	if t.Kind.pauses() && t.Paused {
		a.Paused = new(false)
	}
	s.act(Verdict{Acts: []Act{a}})
	return false
}

// revertsTo is the revision whose template a rollback writes. Pods are believed: the source that an
// Application names may never have been reached.
func (at Position) revertsTo() string {
	if at.Named && at.SourceHash != "" {
		return at.SourceHash
	}
	return at.SourceRevision
}
