package rollout

import (
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// batch does the work of the batch state. What still waits after the deadline has failed.
func (s *pass) batch() {
	defer s.overdue("batch " + strconv.Itoa(s.at.CurrentBatch) + " was not done")
	if s.f.Target == nil {
		s.wait(0, TargetMissing.Reason(), "the workload does not exist")
		return
	}
	switch s.at.BatchState {
	case BatchInitializing:
		s.batchInitializing()
	case BatchInRolling:
		s.batchInRolling()
	case BatchVerifying:
		s.batchVerifying()
	case BatchFinalizing:
		s.batchFinalizing()
	case BatchReady:
		s.batchReady()
	case BatchVerifyFailed:
		s.send(RolloutStopped, "", "the batch failed")
	}
}

func (s *pass) batchInitializing() {
	if s.at.State == RollingBack {
		if s.reverted() && s.hooks(PreBatchHook, "batchInitializing") {
			s.send(InitializedOneBatch, "", "")
		}
		return
	}
	if v, ok := s.judgement().steady(); !ok {
		s.stop(v.Outcome)
		return
	}
	if s.held() || !s.gates(BeforeBatch) || !s.hooks(PreBatchHook, "batchInitializing") {
		return
	}
	s.send(InitializedOneBatch, "", "")
}

// reverted writes the template of the source and the full hold in one write, once.
func (s *pass) reverted() bool {
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

func (s *pass) batchInRolling() {
	if p := s.at.Pause; p != nil && p.By != ByUser && s.held() {
		return
	}
	if s.at.State == RollingBack && !s.reverted() { // somebody has written the other template again
		return
	}
	v := s.rules().RolloutOneBatchPods(s.asked, s.at, s.f)
	if v.Acts != nil {
		if s.held() {
			return
		}
		if s.at.State == InBatch && !s.gates(BeforePod) {
			return
		}
		v = s.rules().RolloutOneBatchPods(s.asked, s.at, s.f)
		s.at.Released, v.Position.Released = &s.now, &s.now
	}
	if v.Outcome.IsFail() && fault.Of(v.Outcome.Err()) == HandoverFailed {
		s.at = v.Position
		s.fail(ByFault, s.handoverKey(v.Outcome.Err()), v.Outcome.Err(), s.p.OnFailure)
		return
	}
	if v.Acts == nil && !v.Done {
		s.at = v.Position
		if stuck := s.stuckPod(); stuck != nil { // a budget may wait for that very pod
			v.Acts, v.Position = []Act{*stuck}, s.at
		}
	}
	if s.done(v) {
		s.send(RolloutOneBatch, "", "")
		return
	}
	if s.at.Mode == Scale && len(v.Acts) > 0 && v.Acts[0].Replicas != nil {
		s.at.Sized = &Sized{Size: *v.Acts[0].Replicas, Generation: v.Acts[0].Generation}
	}
}

func (s *pass) handoverKey(err error) string {
	for key := range s.at.Answers {
		if pod, ok := detail(err, "pod"); ok && key == s.f.key(s.at, "handover", pod) {
			return key
		}
	}
	return ""
}

func (s *pass) batchVerifying() {
	if p := s.at.Pause; p != nil && p.By != ByUser && s.held() {
		return
	}
	if !s.failedProbes() {
		return
	}
	v := s.rules().CheckOneBatchPods(s.asked, s.at, s.f)
	if !v.Done {
		s.at = v.Position
		s.at.Verified = nil
		if stuck := s.stuckPod(); stuck != nil {
			v.Acts = []Act{*stuck}
		}
		v.Position = s.at
	}
	if !s.done(v) {
		return
	}
	if s.at.State == InBatch && (!s.gates(AfterBatch) || !s.metrics()) {
		s.at.Verified = nil
		return
	}
	if s.at.Verified == nil {
		s.at.Verified = &s.now
	}
	if b := s.judgement().batch(); s.at.State == InBatch && b.Soak != nil {
		left := s.at.Verified.Add(timeOf(*b.Soak)).Sub(s.now)
		if left > 0 || *b.Soak > 0 && s.measures() {
			s.wait(s.nextLook(max(left, 0)), "Soaking", "batch %d is watched for %s", s.at.CurrentBatch, *b.Soak)
			return
		}
	}
	moved := s.judgement().movedPods()
	s.send(OneBatchAvailable, "", "")
	s.d.Records[len(s.d.Records)-1] = s.d.Records[len(s.d.Records)-1].naming(moved)
}

// stuckPod is the deletion of a pod on which an ordered set waits for ever: not ready, released, and
// of a revision that is neither the source nor the one that pods are moved to.
func (s *pass) stuckPod() *Act {
	t := *s.f.Target
	if s.at.Mode != Rollout || t.Kind != StatefulSet && t.Kind != AdvancedStatefulSet || t.Parallel {
		return nil
	}
	j := s.judgement()
	if _, ok := j.steady(); !ok {
		return nil
	}
	to := j.revision()
	for _, p := range j.f.podsOf(t) {
		if p.Ready || p.Terminating || p.Revision == to || p.Revision == s.at.SourceHash && s.at.Rollback == nil ||
			t.UpdateType != OnDelete && t.position(p.Ordinal) < t.kept() {
			continue
		}
		a := t.act("delete pod " + p.Name + ", on which the set waits")
		a.Delete = &PodRef{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
		if s.at.DeletedPod != p.UID { // else it was saved, and the deletion was not sent
			s.at.DeletedPod = p.UID
			s.record(s.at, PodDeleted, "", "pod "+p.Name+" has revision "+p.Revision+" and is not ready")
			s.d.Records[len(s.d.Records)-1].Pods = []string{p.Name}
		}
		return &a
	}
	return nil
}

func (s *pass) batchFinalizing() {
	if p := s.at.Pause; p != nil && p.By != ByUser && s.held() {
		return
	}
	if !s.done(s.rules().FinalizeOneBatch(s.asked, s.at, s.f)) {
		return
	}
	if !s.hooks(PostBatchHook, "batchFinalizing") {
		return
	}
	b := s.at.Batches[s.at.CurrentBatch]
	b.End = &s.now
	s.at.Batches[s.at.CurrentBatch] = b
	if s.last() {
		s.send(AllBatchFinished, "", "batch "+strconv.Itoa(s.at.CurrentBatch)+" is available")
		return
	}
	s.send(FinishedOneBatch, "", "batch "+strconv.Itoa(s.at.CurrentBatch)+" is available")
}

// last reports whether no batch follows.
func (s *pass) last() bool {
	if back := s.at.Rollback; back != nil {
		return s.at.CurrentBatch >= back.FromBatch
	}
	return s.at.CurrentBatch >= len(s.p.RolloutBatches)-1
}

func (s *pass) batchReady() {
	free := s.at.State == RollingBack || s.f.Wanted.Deleting
	switch next := s.at.CurrentBatch + 1; {
	case s.last(): // the batches behind it were taken out of the plan: it takes the rest
		s.send(WorkloadResized, "", "the batch is the last one now")
		return
	case !free && s.held():
		return
	case !free && next > s.allowed():
		s.wait(0, "HeldByPartition", "batch %d may run when batchPartition is %d, or when it is approved", next, next)
		return
	case !s.rules().CheckOneBatchPods(s.asked, s.at, s.f).Done:
		s.wait(0, "BatchNotReady", "the pods of batch %d are not ready any more", s.at.CurrentBatch)
		return
	}
	if end := s.at.Batches[s.at.CurrentBatch].End; end != nil {
		s.at.Excused += Duration(s.now.Sub(*end))
	}
	s.send(BatchRolloutApproved, "", "")
	s.begin()
}
