package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Verdicts of hooks and metrics in a position.
const (
	verdictPassed  = "Passed"
	verdictFailed  = "Failed"  // and the rollout goes on
	verdictSkipped = "Skipped" // by a resume
)

// key names one question of one batch of one rollout. It is the same for every attempt.
func (f Facts) key(at Position, what, name string) string {
	direction := "rollout"
	if at.Rollback != nil {
		direction = "rollback"
	}
	id := f.Rollout.UID
	if id == "" {
		id = f.Rollout.Name
	}
	return fmt.Sprintf("%s/%d/%s/%d/%s/%s", id, at.Number, direction, at.CurrentBatch, what, name)
}

// answered is the position with what is known of one question.
func (at Position) answered(key string, so AnswerPosition) Position {
	answers := maps.Clone(at.Answers)
	if answers == nil {
		answers = map[string]AnswerPosition{}
	}
	answers[key] = so
	at.Answers = answers
	return at
}

// hooks asks the hooks of a type, one after the other, and reports whether all have passed.
func (s *pass) hooks(t HookType, phase string) bool {
	for _, h := range s.p.hooks(t, s.at.CurrentBatch) {
		if !s.hook(h, phase) {
			return false
		}
	}
	return true
}

func (s *pass) hook(h Hook, phase string) bool {
	key := s.f.key(s.at, phase, h.Name)
	so := s.at.Answers[key]
	if so.Verdict != "" {
		return true
	}
	ask := Ask{Key: key, Kind: AskWebhook, Name: h.Name, Batch: s.at.CurrentBatch, Phase: phase, Hook: &h}
	attempt := so.Attempts + 1
	if h.Flow != "" {
		ask.Kind = AskFlow
	}
	ask.Attempt = attempt
	a, answered := s.f.Answers[key]
	if !answered || a.Attempt != attempt {
		return s.askAgain(ask, so, "WebhookPending", "hook "+h.Name+" is asked")
	}
	if h.Flow == "" {
		so.Attempts = attempt
	}
	v := h.Judge(attempt, a)
	switch {
	case v.Done:
		so.Verdict, so.Next = verdictPassed, nil
		s.at = s.at.answered(key, so)
		return true
	case v.Outcome.IsFail():
		so.Value, so.Attempts = fault.Message(v.Outcome.Err()), attempt
		s.at = s.at.answered(key, so)
		then := h.OnFailure
		if h.Type == FinalizeHook || then == OnFailureRollback && s.at.State == RollingBack { // nothing holds up an end, or what it asks for itself
			then = OnFailureContinue
		}
		if !s.fail(ByWebhook, key, v.Outcome.Err(), then) {
			return false
		}
		so.Verdict = verdictFailed
		s.at = s.at.answered(key, so)
		return true
	case h.Flow != "":
		s.d.Asks = append(s.d.Asks, ask)
		s.stop(v.Outcome)
		return false
	default:
		next := s.now.Add(v.Outcome.After())
		so.Next = &next
		s.at = s.at.answered(key, so)
		s.stop(v.Outcome)
		return false
	}
}

// askAgain asks now, or waits until the next attempt.
func (s *pass) askAgain(ask Ask, so AnswerPosition, reason, message string) bool {
	if so.Next != nil && s.now.Before(*so.Next) {
		s.wait(so.Next.Sub(s.now), reason, "%s: attempt %d", message, ask.Attempt)
		return false
	}
	s.d.Asks = append(s.d.Asks, ask)
	s.wait(0, reason, "%s", message)
	return false
}

// gates evaluates the gates of a moment and reports whether all are open.
func (s *pass) gates(when GateWhen) bool {
	if s.at.State == RollingBack {
		return true
	}
	var unanswered []Ask
	for _, g := range s.p.gates(when, s.at.CurrentBatch) {
		key := s.f.key(s.at, "gate", g.Name)
		so := s.at.Answers[key]
		if so.Verdict != "" {
			continue
		}
		a, ok := s.f.Answers[key]
		if !ok {
			unanswered = append(unanswered, Ask{Key: key, Kind: AskGate, Name: g.Name, Batch: s.at.CurrentBatch, Gate: &g})
			continue
		}
		so.Value = a.Value
		if a.Open && a.Code == "" {
			so.Since = nil
			s.at = s.at.answered(key, so)
			continue
		}
		if so.Since == nil {
			so.Since = &s.now
		}
		s.at = s.at.answered(key, so)
		message := "gate " + g.Name + " is closed"
		for _, more := range []string{g.Message, a.Message, a.Value} {
			if more != "" {
				message += ": " + more
			}
		}
		after := time.Minute // what the expression says of the time of day is looked at every minute
		if g.Timeout != nil {
			left := so.Since.Add(timeOf(*g.Timeout)).Sub(s.now)
			if left <= 0 {
				if !s.fail(ByGate, key, GateClosed.Errorf("%s", message).With("gate", g.Name), g.OnFailure) {
					return false
				}
				so.Verdict = verdictFailed
				s.at = s.at.answered(key, so)
				continue
			}
			after = min(after, left)
		}
		s.d.Asks = append(s.d.Asks, unanswered...)
		reason := GateClosed.Reason()
		if a.Code == GateInvalid.Code { // no time of day and no pod opens it
			reason = GateInvalid.Reason()
		}
		s.wait(after, reason, "%s", message)
		return false
	}
	if unanswered != nil {
		s.d.Asks = append(s.d.Asks, unanswered...)
		s.wait(0, "GateUnanswered", "gate %s is evaluated", unanswered[0].Name)
		return false
	}
	return true
}

// metrics measures all metrics of the batch side by side and reports whether all have passed and none
// is due.
func (s *pass) metrics() bool {
	all := true
	for _, m := range s.p.metrics(s.at.CurrentBatch) {
		if !s.metric(m) {
			if all = false; s.at.Pause != nil || s.at.State != InBatch {
				return false
			}
		}
	}
	return all
}

func (s *pass) metric(m Metric) bool {
	key := s.f.key(s.at, "metric", m.Name)
	so := s.at.Answers[key]
	if so.Verdict == verdictSkipped || so.Verdict == verdictFailed {
		return true
	}
	if so.Next == nil && so.Measured == nil {
		first := s.now.Add(timeOf(m.InitialDelay))
		so.Next = &first
		s.at = s.at.answered(key, so)
	}
	if a, ok := s.f.Answers[key]; ok && a.Attempt == so.Attempts+1 {
		var measured Measured
		if so.Measured != nil {
			measured = *so.Measured
		}
		v := m.Judge(a, measured)
		so.Attempts++
		so.Measured, so.Value, so.Verdict = &v.Measured, a.text(), ""
		next := s.now.Add(timeOf(m.Interval))
		so.Next = &next
		s.at = s.at.answered(key, so)
		switch {
		case v.Done:
			so.Verdict = verdictPassed
			s.at = s.at.answered(key, so)
		case v.Outcome.IsFail() && m.DryRun:
			s.record(s.at, FailureSkipped, "", "dry run: "+fault.Message(v.Outcome.Err()))
			so.Verdict = verdictFailed
			s.at = s.at.answered(key, so)
			return true
		case v.Outcome.IsFail():
			then, by := m.OnFailure, ByMetric
			if fault.Of(v.Outcome.Err()) == MetricInconclusive {
				then = m.OnInconclusive
			}
			if !s.fail(by, key, v.Outcome.Err(), then) {
				return false
			}
			so.Verdict = verdictFailed
			s.at = s.at.answered(key, so)
			return true
		}
	}
	if m.DryRun && so.Attempts > 0 && so.Verdict == "" {
		so.Verdict = verdictPassed // it measures, and decides nothing
	}
	due := so.Next == nil || !s.now.Before(*so.Next)
	if due {
		s.d.Asks = append(s.d.Asks, Ask{Key: key, Kind: AskMetric, Name: m.Name, Attempt: so.Attempts + 1, Batch: s.at.CurrentBatch, Metric: &m})
	}
	if so.Verdict == verdictPassed {
		return true
	}
	if due {
		s.wait(0, "Measuring", "metric %s is measured", m.Name)
	} else if left := so.Next.Sub(s.now); !s.stopped || left < s.d.Outcome.After() {
		s.wait(left, "Measuring", "metric %s: %d of %d measurements have passed", m.Name, passedOf(so.Measured), m.Count)
	}
	return false
}

// measures reports whether the pass asks a metric.
func (s *pass) measures() bool {
	return slices.ContainsFunc(s.d.Asks, func(a Ask) bool { return a.Kind == AskMetric })
}

// nextLook is when a batch that soaks is looked at again: when a measurement is due, each minute where
// a gate may close by the time of day, or at the end.
func (s *pass) nextLook(left time.Duration) time.Duration {
	if len(s.p.gates(AfterBatch, s.at.CurrentBatch)) > 0 {
		left = min(left, time.Minute)
	}
	for _, m := range s.p.metrics(s.at.CurrentBatch) {
		so := s.at.Answers[s.f.key(s.at, "metric", m.Name)]
		if so.Next != nil && so.Verdict == verdictPassed && s.now.Before(*so.Next) {
			left = min(left, so.Next.Sub(s.now))
		}
	}
	return left
}

func passedOf(m *Measured) int {
	if m == nil {
		return 0
	}
	return m.Passed
}

func (a Answer) text() string {
	if len(a.Samples) > 0 {
		return a.Samples[0]
	}
	return string(a.Code)
}

// probes asks for the probes of the pods, and counts a pod that was not probed yet as failing.
func (s *pass) probes() {
	if len(s.p.Probes) == 0 || s.f.Target == nil || s.at.State != InBatch && s.at.State != RollingBack {
		return
	}
	j := s.judgement()
	s.f.Pods = slices.Clone(s.f.Pods)
	for _, probe := range s.p.Probes {
		key := s.f.key(s.at, "probe", probe.Name)
		if s.at.Answers[key].Verdict != "" {
			continue
		}
		var pods []string
		for i, p := range s.f.Pods {
			if probe.Selector != nil && !probe.Selector.Matches(p.Labels) || probe.Scope == ScopeUpdated && !s.p.readsRoles(probe) && p.Revision != j.revision() || p.Terminating {
				continue
			}
			pods = append(pods, p.Name)
			if _, ok := p.Probes[probe.Name]; !ok {
				known := maps.Clone(p.Probes)
				if known == nil {
					known = map[string]ProbeFacts{}
				}
				known[probe.Name] = ProbeFacts{}
				s.f.Pods[i].Probes = known
			}
		}
		if len(pods) > 0 {
			s.d.Asks = append(s.d.Asks, Ask{Key: key, Kind: AskProbe, Name: probe.Name, Batch: s.at.CurrentBatch, Probe: &probe, Pods: pods})
		}
	}
}

// readsRoles reports whether a probe reads roles: it asks all pods, whatever its scope.
func (p Plan) readsRoles(probe Probe) bool { return p.Order != nil && p.Order.RoleProbe == probe.Name }

// failedProbes lets onFailure act on a probe that has failed as often as its threshold says, and
// reports whether the batch goes on.
func (s *pass) failedProbes() bool {
	for _, probe := range s.p.Probes {
		key := s.f.key(s.at, "probe", probe.Name)
		if s.at.Answers[key].Verdict != "" {
			continue
		}
		for _, p := range s.f.Pods {
			if facts := p.Probes[probe.Name]; facts.Failed && s.at.Pause == nil {
				err := ProbeFailed.Errorf("probe %s of pod %s fails: %s", probe.Name, p.Name, facts.Value).With("pod", p.Name)
				if !s.fail(ByProbe, key, err, probe.OnFailure) {
					return false
				}
				s.at = s.at.answered(key, AnswerPosition{Verdict: verdictFailed, Value: facts.Value})
				break
			}
		}
	}
	return true
}

// detail is a text that an error carries.
func detail(err error, key string) (string, bool) {
	var e *fault.Error
	if !errors.As(err, &e) {
		return "", false
	}
	text, ok := e.Details[key].(string)
	return text, ok
}
