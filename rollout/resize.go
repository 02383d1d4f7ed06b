package rollout

import (
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// maxReplans is how often something else may change the size of a scale.
const maxReplans = 3

// resize plans anew when the live size has changed.
func resize(s *pass) {
	if s.at.State != InBatch && s.at.State != RollingBack || s.at.TargetSize == nil || s.f.Target == nil {
		return
	}
	switch {
	case s.at.Mode == Scale:
		resizeScale(s)
	case s.f.Wanted.Kind == Deployment:
		putBack(s)
	case s.f.Target.Replicas != *s.at.TargetSize:
		resizeRollout(s)
	default:
		raisedPartition(s)
	}
}

// raisedPartition releases again what somebody has taken back.
func raisedPartition(s *pass) {
	switch s.at.BatchState {
	case BatchVerifying, BatchFinalizing, BatchReady:
	default:
		return
	}
	if s.at.Pause != nil || s.judgement().unseen() {
		return
	}
	if why := (inPlace{s.judgement()}).takenBack(); why != "" {
		s.at.Verified = nil
		s.send(WorkloadResized, "", why)
	}
}

// putBack takes back a foreign change of the sizes of two Deployments after they were reached.
func putBack(s *pass) {
	switch s.at.BatchState {
	case BatchVerifying, BatchFinalizing, BatchReady:
	default:
		return
	}
	v := s.rules().RolloutOneBatchPods(s.p, s.at, s.f)
	if v.Acts == nil {
		return
	}
	s.at.Verified = nil
	s.record(s.at, Replanned, "", "a size was changed by something else: "+v.Acts[0].Why)
	s.act(v)
}

func resizeRollout(s *pass) {
	j := s.judgement()
	was, from := *s.at.TargetSize, s.at
	s.at = j.resized(s.f.Target.Replicas)
	if back := s.at.Rollback; back != nil {
		clipped := *back
		clipped.Size = min(clipped.Size, s.f.Target.Replicas)
		s.at.Rollback = &clipped
	}
	s.at.Replans++
	s.plan()
	why := "replicas went from " + strconv.Itoa(was) + " to " + strconv.Itoa(s.f.Target.Replicas) +
		", batch " + strconv.Itoa(from.CurrentBatch) + " from " + strconv.Itoa(from.Batches[from.CurrentBatch].Target) + " pods to " + strconv.Itoa(s.at.Batches[from.CurrentBatch].Target)
	s.record(from, Replanned, "", why)
	if s.at.BatchState == BatchInitializing || s.at.BatchState == BatchInRolling {
		return
	}
	if !s.rules().CheckOneBatchPods(s.p, s.at, s.f).Done || !s.rules().RolloutOneBatchPods(s.p, s.at, s.f).Done {
		s.at.Verified = nil
		s.send(WorkloadResized, "", why)
	}
}

func resizeScale(s *pass) {
	j := s.judgement()
	a, b := j.sizeAfter(s.at.CurrentBatch-1), j.size()
	size := s.f.Target.Replicas
	foreign, was := size < min(a, b) || size > max(a, b), b
	if asked := s.at.Sized; asked != nil {
		was = asked.Size
		foreign = s.f.Target.Generation > asked.Generation && size != asked.Size
	}
	if !foreign || s.at.Pause != nil {
		return
	}
	s.at.Sized = nil
	from := s.at
	if s.at.Replans++; s.at.Replans > maxReplans {
		err := ReplicasContested.Errorf("%s has %d replicas: the scale asked for %d, and was planned anew %d times", s.f.Target.Name, size, b, maxReplans)
		s.at.Replans = 0
		s.pause(ByFault, "", ReplicasContested.Reason(), fault.Message(err))
		return
	}
	s.at.ScaleBase = &ScaleBase{Batch: s.at.CurrentBatch, Size: size}
	s.record(from, Replanned, "", "replicas went from "+strconv.Itoa(was)+" to "+strconv.Itoa(size)+": the rest of the scale goes from there to "+strconv.Itoa(*s.at.TargetSize))
	if s.at.BatchState != BatchInitializing && s.at.BatchState != BatchInRolling {
		s.send(WorkloadResized, "", "replicas are "+strconv.Itoa(size))
	}
}
