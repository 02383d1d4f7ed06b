package rollout

import (
	"strconv"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// unknownState writes nothing in a state that this version does not know.
func (s *pass) unknownState() {
	if s.at.Known() && (len(s.at.Batches) == 0 || s.at.CurrentBatch < len(s.at.Batches)) {
		return
	}
	switch {
	case s.f.Wanted.Deleting:
		s.send(RollingDeleted, "", "the Rollout is deleted")
	case Modified(s.f.Wanted, s.at):
		s.send(RollingModified, "", "another target is asked for")
	default:
		s.stop(outcome.Fail(StateUnknown.Errorf("%s/%s, batch %d of %d", s.at.State, s.at.BatchState, s.at.CurrentBatch, len(s.at.Batches))))
	}
	if s.at.BatchState == "" || !s.at.Known() {
		s.at.BatchState = BatchInitializing
	}
}

// unserved waits while the API server does not serve the kind of the target. A Rollout that is deleted
// meanwhile ends: there is nothing to finalize.
func (s *pass) unserved() {
	if s.f.Unserved != "" && !s.f.Wanted.Deleting && !s.at.State.Terminal() && s.at.State != Locating {
		s.wait(0, KindNotServed.Reason(), "the API server does not serve %s", s.f.Unserved)
	}
}

// forgetApprovals ends approvals when batchPartition is edited.
func (s *pass) forgetApprovals() {
	if a := s.at.Approved; a != nil && !same(a.Partition, s.asked.BatchPartition) {
		s.at.Approved = nil
	}
}

func same(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// deletion lets the deletion policy act.
func (s *pass) deletion() {
	if !s.f.Wanted.Deleting || s.at.State.Terminal() {
		return
	}
	policy := s.f.Wanted.DeletionPolicy
	if s.f.Target == nil { // no pod can go back or on
		policy = Keep
	}
	switch policy {
	case RollbackOnDelete:
		if s.at.State == InBatch {
			s.rollBack("the Rollout is deleted", "")
			return
		}
		if s.at.State == RollingBack || s.at.State == Failing {
			return
		}
	case Complete:
		if s.at.State == InBatch || s.at.State == Finalising || s.at.State == RollingBack {
			return
		}
	case Keep:
	}
	s.send(RollingDeleted, "", "the Rollout is deleted")
}

// modification starts anew when another target is asked for.
func (s *pass) modification() {
	w := s.f.Wanted
	if s.at.State != s.was.State && s.judgement().replaced() { // that it failed is seen first
		return
	}
	if w.Deleting || s.at.State == Locating || s.at.State == Deleting || s.at.State == Abandoning || s.at.State == Failing && s.at.Rollback != nil {
		return
	}
	if s.at.State == InBatch && s.at.Mode == Rollout && w.TargetRevision != "" && w.TargetRevision == s.at.SourceRevision {
		s.rollBack("the source is asked for again", "")
		return
	}
	switch {
	case Modified(w, s.at):
		s.send(RollingModified, "", "another target is asked for: "+w.text())
	case s.at.Refused() && s.at.PlanHash != s.planHash():
		s.send(RollingModified, "", "the plan that was refused has changed")
	}
}

func (w Wanted) text() string {
	text := w.TargetRevision
	if w.TargetSize != nil {
		text += ", " + strconv.Itoa(*w.TargetSize) + " pods"
	}
	return text
}

// Modified reports whether something else is asked for than what the position has recorded.
func Modified(want Wanted, at Position) bool {
	if at.State == Locating || at.State == "" {
		return false
	}
	size := want.TargetSize != nil && at.TargetSize != nil && *want.TargetSize != *at.TargetSize
	if size && (at.Mode == Scale || at.State.Terminal()) {
		return true
	}
	if want.TargetRevision == "" || at.TargetRevision == "" {
		return false
	}
	// The template is the source's again: nobody asked for anything, or for just that.
	if at.Rollback != nil && (!at.Named || want.TargetRevision == at.SourceRevision) {
		return want.TargetRevision != at.TargetRevision && want.TargetRevision != at.SourceRevision
	}
	return want.TargetRevision != at.TargetRevision || want.Named && want.SourceRevision != at.SourceRevision
}

// Settled reports whether the rollout has ended and nothing new is asked for.
func Settled(want Wanted, at Position) bool { return at.State.Terminal() && !Modified(want, at) }

// replacedTarget ends a rollout whose workload is another object now: nothing is left to finalize.
func (s *pass) replacedTarget() {
	if !s.judgement().replaced() || s.at.State.Terminal() {
		return
	}
	err := TargetReplaced.Errorf("%s %s has the UID %s, and %s was claimed", s.f.Target.Kind, s.f.Target.Name, s.f.Target.UID, s.at.TargetUID)
	switch s.at.State { //nolint:exhaustive // the others finalize, and find nothing
	case InBatch, RollingBack:
		s.at.Failure = failureOf(err)
		s.send(BatchRolloutFailed, "", fault.Message(err))
	case Verifying, Initializing, Finalising:
		s.stopRollout(err)
	default:
	}
}

// planChange goes on with the recorded plan when an edit cannot be taken over.
func (s *pass) planChange() {
	if s.at.PlanHash == s.planHash() {
		s.at.PlanRefused = ""
	}
	if len(s.at.Batches) == 0 || s.at.Rollback != nil || s.at.PlanHash == s.planHash() {
		return
	}
	if err := s.asked.Change(s.asked, s.at); err != nil {
		s.at.PlanRefused = fault.Message(err)
		return
	}
	s.at.PlanRefused, s.at.PlanHash = "", s.planHash()
	if s.at.State != InBatch {
		return
	}
	all := s.judgement().total()
	edited := s.asked.Defaulted(all)
	if s.asked.RolloutBatches == nil && len(edited.RolloutBatches) == len(s.p.RolloutBatches) {
		return
	}
	if len(edited.RolloutBatches) == len(s.p.RolloutBatches) && sameBatches(edited.RolloutBatches, s.p.RolloutBatches) {
		return
	}
	j := s.judgement()
	j.p = edited
	if s.f.Target != nil {
		j.p = s.at.withPodCounts(edited, s.f)
	}
	old := s.at.Batches
	s.at = j.resolved()
	for i, b := range old {
		if i <= s.at.CurrentBatch {
			s.at.Batches[i] = b
		}
	}
	s.plan()
	s.record(s.at, Replanned, "", "the batches after "+strconv.Itoa(s.at.CurrentBatch)+" were edited")
}

// userPause records that the plan holds the rollout.
func (s *pass) userPause() {
	if p := s.at.Pause; s.f.Wanted.Deleting && p != nil && p.By == ByUser {
		s.resume("the Rollout is deleted", "", "")
		return
	}
	if !s.asked.Paused {
		s.at.Resumed = false
		if s.at.Pause != nil && s.at.Pause.By == ByUser {
			s.resume("the plan is not paused any more", "", "")
		}
		return
	}
	if s.at.Pause == nil && !s.at.Resumed && s.at.State == InBatch && !s.f.Wanted.Deleting {
		message := "the plan says paused"
		if why := s.f.Wanted.PausedFor; why != "" {
			message += ": " + why
		}
		s.pause(ByUser, "", "PausedByUser", message)
	}
}

func (s *pass) pause(by PausedBy, key, reason, message string) {
	from := s.at
	s.record(from, PausedEvent, "", message)
	s.at.Pause = &Pause{ID: "pause-" + strconv.Itoa(s.at.Sequence), By: by, Key: key, Reason: reason, Message: message, Since: s.now}
}

// resume ends a pause; no deadline counts the time that it lasted.
func (s *pass) resume(why, by, request string) {
	excused := Duration(s.now.Sub(s.at.Pause.Since))
	s.at.Excused += excused
	if b, ok := s.at.Batches[s.at.CurrentBatch]; ok {
		b.Excused += excused
		s.at.Batches[s.at.CurrentBatch] = b
	}
	s.at.Pause = nil
	s.record(s.at, ResumedEvent, by, why)
	s.d.Records[len(s.d.Records)-1].Request = request
}

// lostClaim takes a claim, anchor or label again that somebody has removed.
func (s *pass) lostClaim() {
	switch s.at.State { //nolint:exhaustive // the other states hold nothing
	case InBatch, RollingBack:
	default:
		return
	}
	if s.f.Target == nil {
		s.wait(0, TargetMissing.Reason(), "%s %s does not exist", s.f.Wanted.Kind, s.f.Rollout.Name)
		return
	}
	var acts []Act
	for _, w := range append([]WorkloadFacts{*s.f.Target}, s.f.Sources...) {
		if o := w.foreign(s.f); o != nil {
			if s.f.Wanted.Deleting {
				continue
			}
			s.stopRollout(ClaimedByOther.Errorf("%s %s belongs to %s %s now", w.Kind, w.Name, o.Kind, o.Name))
			return
		}
		if (!w.ours(s.f) && !s.f.Wanted.Deleting) || w.ours(s.f) && !w.Anchored || !w.Held {
			a := w.act("take the claim again")
			a.Held = new(true)
			if !s.f.Wanted.Deleting {
				a.Claim = TakeClaim
			}
			acts = append(acts, a)
		}
	}
	if acts != nil {
		s.act(Verdict{Acts: acts})
	}
}

// maxReplans is how often something else may change the size of a scale.
const maxReplans = 3

// resize plans anew when the live size has changed.
func (s *pass) resize() {
	if s.at.State != InBatch && s.at.State != RollingBack || s.at.TargetSize == nil || s.f.Target == nil {
		return
	}
	switch {
	case s.at.Mode == Scale:
		s.resizeScale()
	case s.f.Wanted.Kind == Deployment:
		s.putBack()
	case s.f.Target.Replicas != *s.at.TargetSize:
		s.resizeRollout()
	default:
		s.raisedPartition()
	}
}

// raisedPartition releases again what somebody has taken back: the admission rule raises the partition
// with each write of another template.
func (s *pass) raisedPartition() {
	switch s.at.BatchState {
	case BatchVerifying, BatchFinalizing, BatchReady:
	default:
		return
	}
	switch {
	case s.at.Pause != nil || s.judgement().unseen():
		return
	case s.f.Target.UpdateType == OnDelete: // a pod that went for another reason does not count
		if j := s.judgement(); !j.picked() && j.nextInOrder() != nil {
			s.at.Verified = nil
			s.send(WorkloadResized, "", "fewer pods were replaced than batch "+strconv.Itoa(s.at.CurrentBatch)+" needs")
		}
		return
	}
	if want := s.judgement().partition(); s.f.Target.kept() > want {
		s.at.Verified = nil
		s.send(WorkloadResized, "", "the partition is "+strconv.Itoa(s.f.Target.kept())+", and batch "+strconv.Itoa(s.at.CurrentBatch)+" needs "+strconv.Itoa(want))
	}
}

// putBack takes back a foreign change of the sizes of two Deployments after they were reached.
func (s *pass) putBack() {
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

func (s *pass) resizeRollout() {
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

func (s *pass) resizeScale() {
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
