package rollout

import (
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
	unknownState,
	unserved,
	forgetApprovals,
	deletion,
	answerRequest,
	replacedTarget,
	modification,
	planChange,
	userPause,
	lostClaim,
	lostTemplate,
	hold,
	resize,
}

// work is what each state does.
var work map[State]func(*pass)

func init() { //nolint:gochecknoinits // the table refers to functions that read it
	work = map[State]func(*pass){
		Locating:     locate,
		Verifying:    verify,
		Initializing: initialize,
		InBatch:      runBatch,
		RollingBack:  runBatch,
		Finalising:   finalize,
		Failing:      finalize,
		Abandoning:   finalize,
		Deleting:     finalize,
		Succeeded:    rest,
		Failed:       rest,
	}
}

// pass is one call of Next.
type pass struct {
	progress
	p       Plan // with defaults and the recorded batches
	was     Position
	f       Facts
	d       Decision
	stopped bool
}

func start(p Plan, at Position, f Facts, now time.Time) *pass {
	if at.State == "" {
		at.State, at.BatchState = Locating, BatchInitializing
	}
	at.Answers = maps.Clone(at.Answers)
	at.Batches = maps.Clone(at.Batches)
	f.Now = now
	s := &pass{progress: progress{asked: p, at: at.excusing(f.Unavailable), now: now}, was: at, f: f}
	if f.Target != nil {
		s.generation = f.Target.Generation
	}
	s.plan()
	s.probes()
	return s
}

// plan takes over the recorded batches and the defaults.
func (s *pass) plan() { s.p = judgementOf(s.asked, s.at, s.f).p }

func (s *pass) movement() *movement { return &movement{s.p, s.at} }

func (s *pass) judgement() *judgement { return &judgement{movement{s.p, s.at}, s.f} }

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

// stopRollout ends the rollout with a fault; what was claimed is finalized first.
func (s *pass) stopRollout(err error) {
	s.at.Failure, s.d.Fault = failureOf(err), err
	s.send(RolloutStopped, "", fault.Message(err))
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
		if until, ok := s.movement().deadline(s.f.Since); ok {
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
	s.d.Position, s.d.Records = s.at, s.records
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
