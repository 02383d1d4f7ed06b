package rollout

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// answerRequest carries out the newest request, once under its id.
func answerRequest(s *pass) {
	r := s.f.Wanted.Request
	if r == nil || s.at.LastRequest != nil && s.at.LastRequest.ID == r.ID {
		return
	}
	answer := &RequestAnswer{ID: r.ID, Verb: string(r.Verb), By: r.By}
	err := carryOut(s, *r)
	if err != nil {
		answer.Code, answer.Message = string(fault.Of(err).Code), fault.Message(err)
	}
	from := s.at
	s.at.LastRequest = answer
	s.record(from, RequestAnswered, r.By, r.text(answer))
	s.lastRecord().Request = r.ID
}

func (r Request) text(a *RequestAnswer) string {
	text := string(r.Verb)
	if r.Argument != "" {
		text += " " + r.Argument
	}
	if a.Code != "" {
		text += " was refused with " + a.Code + ": " + a.Message
	}
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

func carryOut(s *pass, r Request) error {
	switch r.Verb {
	case Approve:
		return approve(s, r)
	case Resume:
		return endPause(s, r, "Skipped")
	case Retry:
		return endPause(s, r, "")
	case Abandon:
		if s.at.State.Terminal() {
			return NotPaused.Errorf("the rollout has ended: it is %s", s.at.State)
		}
		s.at.Pause = nil
		s.at.Failure = &Failure{Reason: "Abandoned", Message: "abandoned by " + r.By}
		s.send(RolloutStopped, r.By, "abandon")
		return nil
	case RollBackVerb:
		if s.at.State == Verifying || s.at.State == Initializing { // nothing has moved: it is an abandon
			return carryOut(s, Request{Verb: Abandon, By: r.By})
		}
		if s.at.State != InBatch {
			return RequestUnknown.Errorf("rollback: the rollout is %s; only one that moves pods can be taken back", s.at.State)
		}
		s.rollBack("asked for by "+r.By, r.By)
		return nil
	default:
		return RequestUnknown.Errorf("there is no request %q", r.Verb)
	}
}

func approve(s *pass, r Request) error {
	last := len(s.p.RolloutBatches) - 1
	if s.at.State.Terminal() {
		return RequestUnknown.Errorf("approve: the rollout has ended: it is %s", s.at.State)
	}
	if len(s.at.Batches) == 0 {
		return RequestUnknown.Errorf("approve: the rollout has no batches yet: it is %s", s.at.State)
	}
	upTo := last
	switch r.Argument {
	case "all":
	case "next", "":
		upTo = min(s.movement().allowed()+1, last)
	default:
		n, err := strconv.Atoi(r.Argument)
		if err != nil || n < 0 || n > last {
			return RequestUnknown.Errorf("approve: %q is no batch: 0 to %d, next or all", r.Argument, last)
		}
		upTo = n
	}
	if err := s.approvable(upTo); err != nil {
		return err
	}
	if a := s.at.Approved; a != nil {
		upTo = max(upTo, a.Batch)
	}
	s.at.Approved = &Approval{Batch: upTo, Partition: s.asked.BatchPartition}
	return nil
}

// approvable refuses an approval of a batch that the plan shows otherwise than it would run, as the edit
// was refused.
func (s *pass) approvable(upTo int) error {
	refused := s.refusedEdit()
	if refused == nil {
		return nil
	}
	all := s.judgement().total()
	edited := s.asked.Defaulted(all)
	if s.asked.RolloutBatches == nil && len(edited.RolloutBatches) == len(s.p.RolloutBatches) { // dealt from the total of the begin
		edited.RolloutBatches = s.p.RolloutBatches
	}
	size := func(p Plan, i int) int { return p.moved(all, i) - p.moved(all, i-1) }
	for i := s.at.CurrentBatch + 1; i <= upTo; i++ {
		runs := s.p.RolloutBatches[i]
		switch {
		case i >= len(edited.RolloutBatches):
			return PlanChangeRefused.Errorf("approve: batch %d would move %d pods, and the plan has no such batch: %s", i, size(s.p, i), fault.Message(refused))
		case size(edited, i) != size(s.p, i) || !sameShape(runs, edited.RolloutBatches[i]):
			return PlanChangeRefused.Errorf("approve: batch %d would run as it was recorded, with %d pods, and not as the plan has it: %s", i, size(s.p, i), fault.Message(refused))
		}
	}
	return nil
}

// endPause ends the present pause: verdict "Skipped" goes past what paused it, "" asks it again.
func endPause(s *pass, r Request, verdict string) error {
	p := s.at.Pause
	switch {
	case p == nil:
		if w := s.was.Waiting; w != nil {
			return NotPaused.Errorf("the rollout is not paused: it waits with %s, and goes on by itself when that ends", w.Reason)
		}
		return NotPaused.Errorf("the rollout is not paused")
	case r.Pause != "" && r.Pause != p.ID:
		return NotPaused.Errorf("the request is for pause %s, and the present one is %s", r.Pause, p.ID)
	}
	switch p.By {
	case ByUser:
		s.at.Resumed = true
	case ByDeadline:
	default:
		if p.Key != "" {
			so := AnswerPosition{Verdict: verdict}
			if s.movement().isFlow(p.Key) { // its next run is another one
				so.Attempts = s.at.Answers[p.Key].Attempts
			}
			s.at = s.at.answered(p.Key, so)
		}
	}
	s.resume(fmt.Sprintf("%s by %s", r.Verb, r.By), r.By, r.ID)
	if p.By == ByDeadline {
		s.at = s.movement().newDeadline(verdict, s.now)
	}
	return nil
}

// isFlow reports whether a key is that of a hook that runs a flow.
func (m *movement) isFlow(key string) bool {
	for _, t := range []HookType{InitializeHook, FinalizeHook, PreBatchHook, PostBatchHook} {
		for _, h := range m.p.hooks(t, m.at.CurrentBatch) {
			if h.Flow != "" && strings.HasSuffix(key, "/"+h.Name) {
				return true
			}
		}
	}
	return false
}
