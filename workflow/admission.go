package workflow

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// requestReady reports whether the first request in the mail can be carried out now.
func (s admission) requestReady() bool {
	for _, m := range s.mail {
		if name, ours := strings.CutPrefix(m.Name, reserved); ours {
			var request RunRequest
			_ = json.Unmarshal(m.Payload, &request)
			return !s.mustWait(runtype.Verb(name), request)
		}
	}
	return false
}

// stopping reports whether a pause or hold waits for open attempts.
func (s admission) stopping() bool {
	stop := s.run.State.Stop
	return stop != nil && (stop.Verb == runtype.VerbPause || stop.Mode == runtype.Hold) && s.run.Phase != runtype.Paused && s.run.Phase != runtype.Queued && !s.run.Phase.Final()
}

// mustWait reports whether a request must wait: until an open attempt has ended, or, for a resume
// that does more than revoke a stop, until the run is paused.
func (s admission) mustWait(verb runtype.Verb, request RunRequest) bool {
	switch verb {
	case runtype.VerbResume:
		return s.closing() || s.stopping() && (s.resumeFrom(request) != FromFailed || request.Definition != "")
	case verbChild:
		return s.closing()
	case runtype.VerbSkip:
		a := s.open[request.Step]
		return s.closing() || a != nil && !a.abandoned
	}
	return false
}

// resumeFrom returns the step from which a resume continues.
func (s admission) resumeFrom(request RunRequest) From {
	switch {
	case request.From != "":
		return request.From
	case s.plan.flow.RecoverFromFirstStep:
		return FromFirst
	}
	return FromFailed
}

// closing reports whether a paused run is closing a bracket. A resume waits for that, so that the
// body does not start while the close still runs.
func (s admission) closing() bool {
	if s.run.Phase != runtype.Paused {
		return false
	}
	for _, a := range s.open {
		if a.node.closes {
			return true
		}
	}
	return false
}

// admit decides whether a request is allowed: it returns nil, or the fault of the refusal. It has
// no side effects. A request that changes nothing is allowed.
func (s admission) admit(verb runtype.Verb, request RunRequest) error {
	r := s.run
	if verb == verbChild || verb == verbLimit {
		return nil
	}
	if request.Revision != 0 && request.Revision != r.Revision {
		return fault.WriteConflict.Errorf("the run has revision %d, the request expects %d", r.Revision, request.Revision)
	}
	if r.Phase.Final() {
		if verb == runtype.VerbCancel && r.Phase == runtype.Cancelled {
			return nil
		}
		return RunFinished.Errorf("the run is %s", r.Phase)
	}
	switch verb {
	case runtype.VerbResume:
		return s.admitResume(request)
	case runtype.VerbCancel:
		if request.Mode == runtype.Undo && !request.GiveUp {
			for rec := range r.Steps() {
				if n := s.plan.node(rec.Name); n != nil && n.step.NoReturn && rec.Phase == runtype.StepDone {
					return NoReturn.Errorf("step %s is done and cannot be undone", rec.Name)
				}
			}
		}
		if stop := r.State.Stop; (request.Mode == runtype.Hold || request.Mode == "") && r.Phase == runtype.Cancelling && stop != nil && stop.Mode != runtype.Hold {
			return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
		}
	case runtype.VerbPause:
		if stop := r.State.Stop; r.Phase == runtype.Cancelling && (stop == nil || stop.Mode != runtype.Hold) {
			return RequestInvalid.Errorf("the run is being cancelled")
		}
	case runtype.VerbSkip:
		return s.admitSkip(request)
	case runtype.VerbProgress:
		if rec := r.Step(request.Step); rec == nil || rec.Phase.Settled() || rec.Phase == runtype.StepPending {
			return RequestInvalid.Errorf("step %q is not under way", request.Step)
		}
	}
	return nil
}

func (s admission) admitResume(request RunRequest) error {
	r := s.run
	for _, a := range s.open {
		if a.abandoned {
			return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", a.rec.Name)
		}
	}
	if stop := r.State.Stop; r.Phase == runtype.Cancelling && stop != nil && stop.Verb == runtype.VerbCancel && stop.Mode != runtype.Hold {
		return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
	}
	switch request.From {
	case "", FromFailed, FromFirst:
		return nil
	}
	if rec := r.Step(string(request.From)); rec == nil || s.plan.node(rec.Name) == nil {
		return RequestInvalid.Errorf("the run has not reached a step %q", request.From)
	}
	if r.Phase != runtype.Paused {
		return RequestInvalid.Errorf("the run is %s: pause it before it goes back to %s", r.Phase, request.From)
	}
	return nil
}

func (s admission) admitSkip(request RunRequest) error {
	rec := s.run.Step(request.Step)
	if rec == nil || !slices.Contains([]runtype.StepPhase{runtype.StepFailed, runtype.StepWaiting, runtype.StepRetrying, runtype.StepSkipped}, rec.Phase) {
		return SkipRefused.Errorf("step %q is neither failed nor waiting", request.Step)
	}
	if a := s.open[rec.Name]; a != nil && a.abandoned {
		return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", rec.Name)
	}
	n := s.plan.node(rec.Name)
	if n == nil || rec.Phase == runtype.StepSkipped {
		return nil
	}
	if !n.step.Skippable && !request.Force {
		return SkipRefused.Errorf("step %s is not marked skippable", rec.Name)
	}
	if request.Output != nil {
		if n.step.Output != nil {
			if err := n.step.Output.Check(request.Output); err != nil {
				return SkipRefused.Errorf("the given output does not fit: %w", err)
			}
		}
		return nil
	}
	for _, other := range s.plan.nodes {
		if slices.ContainsFunc(other.step.Reads, func(name string) bool { return name == n.step.Name || name == n.path }) {
			return SkipRefused.Errorf("%s reads the output of %s: give one", other.path, rec.Name)
		}
	}
	return nil
}
