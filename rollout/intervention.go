package rollout

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// unknownState writes nothing in a state that this version does not know.
func unknownState(s *pass) {
	if s.at.Known() && (s.at.CurrentBatch < len(s.at.Batches) || len(s.at.Batches) == 0 && !slices.Contains(inBatches, s.at.State)) {
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
func unserved(s *pass) {
	if s.f.Unserved != "" && !s.f.Wanted.Deleting && !s.at.State.Terminal() && s.at.State != Locating {
		s.wait(0, KindNotServed.Reason(), "the API server does not serve %s", s.f.Unserved)
	}
}

// forgetApprovals ends approvals when batchPartition is edited.
func forgetApprovals(s *pass) {
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
func deletion(s *pass) {
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
func modification(s *pass) {
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
func replacedTarget(s *pass) {
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
func planChange(s *pass) {
	if s.at.PlanHash == s.planHash() {
		s.at.PlanRefused = ""
	}
	if len(s.at.Batches) == 0 || s.at.Rollback != nil || s.at.PlanHash == s.planHash() {
		return
	}
	if err := s.refusedEdit(); err != nil {
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

// refusedEdit is why the plan cannot be taken over as it is now; nil: it can, or it was.
func (s *pass) refusedEdit() error {
	if len(s.at.Batches) == 0 || s.at.Rollback != nil || s.at.PlanHash == s.planHash() {
		return nil
	}
	err := s.asked.Change(s.asked, s.at)
	if err == nil && s.f.GateProblem != "" && !s.at.State.Terminal() {
		err = PlanChangeRefused.Errorf("%s; this gate stays closed", s.f.GateProblem)
	}
	if s.f.Target != nil && err == nil && !s.at.State.Terminal() {
		if why := budgetPossible(s.judgement()); why != nil {
			err = PlanChangeRefused.Errorf("%s", fault.Message(why))
		}
	}
	if first, last := len(s.asked.RolloutBatches), len(s.at.Batches)-1; err != nil && first > 0 && first <= last && s.at.CurrentBatch < last {
		return PlanChangeRefused.Errorf("%s; the batches from %d on run as they were recorded, without gates, metrics, webhooks and soak of their own", fault.Message(err), max(first, s.at.CurrentBatch+1))
	}
	return err
}

// userPause records that the plan holds the rollout.
func userPause(s *pass) {
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

// lostClaim takes a claim, anchor or label again that somebody has removed.
func lostClaim(s *pass) {
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
	for _, w := range s.f.workloads() {
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
