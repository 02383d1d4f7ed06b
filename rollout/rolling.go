package rollout

import (
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// runBatch does the work of the batch state. What still waits after the deadline has failed.
func runBatch(s *pass) {
	defer s.overdue("batch " + strconv.Itoa(s.at.CurrentBatch) + " was not done")
	if s.f.Target == nil {
		s.wait(0, TargetMissing.Reason(), "the workload does not exist")
		return
	}
	switch s.at.BatchState {
	case BatchInitializing:
		initializeBatch(s)
	case BatchInRolling:
		releaseBatch(s)
	case BatchVerifying:
		checkBatch(s)
	case BatchFinalizing:
		finalizeBatch(s)
	case BatchReady:
		leaveBatch(s)
	case BatchVerifyFailed:
		s.send(RolloutStopped, "", "the batch failed")
	}
}

func initializeBatch(s *pass) {
	if s.at.State == RollingBack {
		if reverted(s) && s.hooks(PreBatchHook, "batchInitializing") {
			s.send(InitializedOneBatch, "", "")
		}
		return
	}
	if v, ok := s.judgement().steady(); !ok {
		s.stop(v.Outcome)
		return
	}
	if s.held() || !s.gates(BeforeBatch) || !s.hooks(PreBatchHook, "batchInitializing") || !stillReady(s) {
		return
	}
	s.send(InitializedOneBatch, "", "")
}

// stillReady reports whether the pods of the batch before are ready: it may have been long ago that they
// were looked at, as a pause, a gate or a hook can hold this one.
func stillReady(s *pass) bool {
	before := s.at
	if before.CurrentBatch--; before.CurrentBatch < 0 || s.rules().CheckOneBatchPods(s.asked, before, s.f).Done {
		return true
	}
	s.wait(0, "BatchNotReady", "the pods of batch %d are not ready any more", before.CurrentBatch)
	return false
}

func releaseBatch(s *pass) {
	if p := s.at.Pause; p != nil && p.By != ByUser && s.held() {
		return
	}
	if s.at.State == RollingBack && !reverted(s) { // somebody has written the other template again
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
		s.fail(ByFault, handoverKey(s, v.Outcome.Err()), v.Outcome.Err(), s.p.OnFailure)
		return
	}
	if v.Acts == nil && !v.Done {
		s.at = v.Position
		if pod := (inPlace{s.judgement()}).stuck(); pod != nil { // a budget may wait for that very pod
			v.Acts = []Act{unstick(s, pod)}
		}
		v.Position = s.at
	}
	if s.done(v) {
		s.send(RolloutOneBatch, "", "")
		return
	}
	if s.at.Mode == Scale && len(v.Acts) > 0 && v.Acts[0].Replicas != nil {
		s.at.Sized = &Sized{Size: *v.Acts[0].Replicas, Generation: v.Acts[0].Generation}
	}
}

func handoverKey(s *pass, err error) string {
	for key := range s.at.Answers {
		if pod, ok := detail(err, "pod"); ok && key == s.f.key(s.at, "handover", pod) {
			return key
		}
	}
	return ""
}

func checkBatch(s *pass) {
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
		if pod := (inPlace{s.judgement()}).stuck(); pod != nil {
			v.Acts = []Act{unstick(s, pod)}
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
	moved := s.rules().judge(s.judgement()).movedPods()
	s.send(OneBatchAvailable, "", "")
	s.lastRecord().name(moved)
}

// unstick is the deletion of a pod on which the workload waits.
func unstick(s *pass, p *Pod) Act {
	a := s.f.Target.act("delete pod " + p.Name + ", on which the set waits")
	a.Delete = &PodRef{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
	if s.at.DeletedPod != p.UID { // else it was saved, and the deletion was not sent
		s.at.DeletedPod = p.UID
		s.record(s.at, PodDeleted, "", "pod "+p.Name+" has revision "+p.Revision+" and is not ready")
		s.lastRecord().Pods = []string{p.Name}
	}
	return a
}

func finalizeBatch(s *pass) {
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
	if s.movement().last() {
		s.send(AllBatchFinished, "", "batch "+strconv.Itoa(s.at.CurrentBatch)+" is available")
		return
	}
	s.send(FinishedOneBatch, "", "batch "+strconv.Itoa(s.at.CurrentBatch)+" is available")
}

func leaveBatch(s *pass) {
	free := s.at.State == RollingBack || s.f.Wanted.Deleting
	switch next := s.at.CurrentBatch + 1; {
	case s.movement().last(): // the batches behind it were taken out of the plan: it takes the rest
		s.send(WorkloadResized, "", "the batch is the last one now")
		return
	case !free && s.held():
		return
	case !free && next > s.movement().allowed():
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
