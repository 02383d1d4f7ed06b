package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Decision is what follows from one observation.
type Decision struct {
	Position Position        `json:"position"`          // where the rollout stands after this decision
	Acts     []Act           `json:"acts,omitempty"`    // at most one write per workload
	Asks     []Ask           `json:"asks,omitempty"`    // hooks, metrics, gates, probes and handovers whose answers are missing
	Records  []Record        `json:"records,omitempty"` // what happened on the way, for the history
	Outcome  outcome.Outcome `json:"-"`                 // a wait always has a reason
	Fault    error           `json:"-"`                 // why the rollout was stopped by this decision
}

// Record is one line of the history.
type Record struct {
	Sequence   int               `json:"sequence"`
	Time       time.Time         `json:"time"`
	From       string            `json:"from"`
	To         string            `json:"to"`
	Event      Event             `json:"event"`
	By         string            `json:"by"` // controller, or the name of a person
	Request    string            `json:"request,omitempty"`
	Why        string            `json:"why,omitempty"`
	Batch      int               `json:"batch"`
	Generation int64             `json:"generation,omitempty"` // of the workload
	Plan       string            `json:"plan,omitempty"`       // hash
	Values     map[string]string `json:"values,omitempty"`     // of metrics and gates
	Pods       []string          `json:"pods,omitempty"`       // that were moved
	MorePods   int               `json:"morePods,omitempty"`   // how many were moved beside those with names
}

// Things that happen without a transition. They are events of the history, not of the table.
const (
	Replanned       Event = "Replanned"
	PausedEvent     Event = "Paused"
	ResumedEvent    Event = "Resumed"
	RequestAnswered Event = "RequestAnswered"
	FailureSkipped  Event = "FailureSkipped"
	PodDeleted      Event = "PodDeleted"
)

// maxVisits bounds the states of one pass: a plan has 200 batches of five states.
const maxVisits = 1100

// Next decides what follows. It reads no clock, random source or global, and passes several states in
// one call as long as no act and no answer is needed between them.
func Next(p Plan, at Position, f Facts, now time.Time) Decision {
	s := start(p, at, f, now)
	for _, intervention := range interventions {
		if s.stopped {
			break
		}
		intervention(s)
	}
	for visits := 0; !s.stopped && visits < maxVisits; visits++ {
		s.visit()
	}
	return s.decision()
}

// interventions come from outside and concern every state: they are judged before the state does its
// work.
var interventions = []func(*pass){
	(*pass).unknownState,
	(*pass).unserved,
	(*pass).forgetApprovals,
	(*pass).deletion,
	(*pass).request,
	(*pass).replacedTarget,
	(*pass).modification,
	(*pass).planChange,
	(*pass).userPause,
	(*pass).lostClaim,
	(*pass).lostTemplate,
	(*pass).hold,
	(*pass).resize,
}

// work is what each state does.
var work map[State]func(*pass)

func init() { //nolint:gochecknoinits // the table refers to functions that read it
	work = map[State]func(*pass){
		Locating:     (*pass).locate,
		Verifying:    (*pass).verify,
		Initializing: (*pass).initialize,
		InBatch:      (*pass).batch,
		RollingBack:  (*pass).batch,
		Finalising:   (*pass).finalize,
		Failing:      (*pass).finalize,
		Abandoning:   (*pass).finalize,
		Deleting:     (*pass).finalize,
		Succeeded:    (*pass).rest,
		Failed:       (*pass).rest,
	}
}

// pass is one call of Next.
type pass struct {
	asked   Plan // as the user wrote it
	p       Plan // with defaults and the recorded batches
	at      Position
	was     Position
	f       Facts
	now     time.Time
	d       Decision
	hash    string // of asked
	stopped bool
}

func start(p Plan, at Position, f Facts, now time.Time) *pass {
	if at.State == "" {
		at.State, at.BatchState = Locating, BatchInitializing
	}
	at.Answers = maps.Clone(at.Answers)
	at.Batches = maps.Clone(at.Batches)
	f.Now = now
	s := &pass{asked: p, at: at, was: at, f: f, now: now}
	s.excuse()
	s.plan()
	s.probes()
	return s
}

// plan takes over the recorded batches and the defaults.
func (s *pass) plan() { s.p = judge(s.asked, s.at, s.f).p }

func (s *pass) judgement() judgement { return judgement{s.p, s.at, s.f} }

func (s *pass) rules() Rules {
	mode := s.at.Mode
	if mode == "" {
		mode = Rollout
		if s.f.Wanted.Kind == Deployment {
			mode = Scale
		}
	}
	r, err := RulesOf(s.f.Wanted.Kind, mode)
	if err != nil { // locating refuses such a kind
		r = rows[0]
	}
	return r
}

// stop ends the pass with an outcome.
func (s *pass) stop(o outcome.Outcome) {
	s.d.Outcome = o
	s.stopped = true
}

func (s *pass) wait(d time.Duration, reason, format string, args ...any) {
	s.stop(outcome.Wait(d, reason, format, args...))
}

// act adds the writes of a verdict and ends the pass: what follows is decided when they are seen.
func (s *pass) act(v Verdict) {
	s.d.Acts = append(s.d.Acts, v.Acts...)
	s.wait(0, "Applying", "%s", v.Acts[0].Why)
}

// send is one transition, with its record.
func (s *pass) send(e Event, by, why string) {
	from := s.at
	next, legal := Transition(s.at, e)
	s.at = next
	if next.State == from.State && next.BatchState == from.BatchState && next.CurrentBatch == from.CurrentBatch && legal {
		return
	}
	s.record(from, e, by, why)
	if !legal && !from.State.Terminal() {
		s.at.Failure = failureOf(IllegalEvent.Errorf("event %s in state %s/%s", e, from.State, from.BatchState))
	}
}

func (s *pass) record(from Position, e Event, by, why string) {
	if by == "" {
		by = "controller"
	}
	s.at.Sequence++
	r := Record{
		Sequence: s.at.Sequence, Time: s.now, From: from.place(), To: s.at.place(), Event: e, By: by, Why: why,
		Batch: s.at.CurrentBatch, Plan: s.planHash(), Values: s.values(),
	}
	if s.f.Target != nil {
		r.Generation = s.f.Target.Generation
	}
	s.d.Records = append(s.d.Records, r)
}

func (at Position) place() string {
	if at.State == InBatch || at.State == RollingBack {
		return string(at.State) + "/" + string(at.BatchState)
	}
	return string(at.State)
}

func (s *pass) values() map[string]string {
	values := map[string]string{}
	for key, a := range s.at.Answers {
		if a.Value != "" {
			values[key] = a.Value
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

// planHash names the plan as the user wrote it.
func (s *pass) planHash() string {
	if s.hash == "" {
		text, err := json.Marshal(s.asked)
		if err != nil {
			return ""
		}
		sum := sha256.Sum256(text)
		s.hash = hex.EncodeToString(sum[:6])
	}
	return s.hash
}

func failureOf(err error) *Failure {
	return &Failure{Reason: fault.Of(err).Reason(), Message: fault.Message(err)}
}

// stopRollout ends the rollout with a fault; what was claimed is finalized first.
func (s *pass) stopRollout(err error) {
	s.at.Failure, s.d.Fault = failureOf(err), err
	s.send(RolloutStopped, "", fault.Message(err))
}

// key names one question of one batch of one rollout. It is the same for every attempt.
func (f Facts) key(at Position, what, name string) string {
	movement := "rollout"
	if at.Rollback != nil {
		movement = "rollback"
	}
	id := f.Rollout.UID
	if id == "" {
		id = f.Rollout.Name
	}
	return fmt.Sprintf("%s/%d/%s/%d/%s/%s", id, at.Number, movement, at.CurrentBatch, what, name)
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

// decision writes what is waited for, since when and until when.
func (s *pass) decision() Decision {
	o := s.d.Outcome
	switch {
	case o.IsWait():
		w := Waiting{Reason: o.Reason(), Message: o.Message(), Since: s.now}
		if was := s.was.Waiting; was != nil && was.Reason == w.Reason && s.was.State == s.at.State && s.was.BatchState == s.at.BatchState && s.was.CurrentBatch == s.at.CurrentBatch {
			w.Since = was.Since
		}
		if until, ok := s.deadline(); ok {
			w.Deadline = &until
			if left := until.Sub(s.now); left > 0 && (o.After() == 0 || left < o.After()) {
				o = outcome.Wait(left, o.Reason(), "%s", o.Message())
			}
		}
		s.at.Waiting = &w
	default:
		s.at.Waiting = nil
	}
	s.d.Outcome = o
	s.d.Position = s.at
	return s.d
}

// visit does the work of the present state, once.
func (s *pass) visit() {
	before := s.at
	work[s.at.State](s)
	if s.stopped {
		return
	}
	if s.at.State != before.State || s.at.Mode != before.Mode || len(s.at.Batches) != len(before.Batches) {
		s.plan()
	}
}
