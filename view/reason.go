package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Reason returns in one line why a run is in its phase; "" if there is nothing to report.
func Reason(r Run, now time.Time) string {
	if r.Warning == NoWorker && r.Phase == runtype.Running { // an attempt that is open, or due, says nothing then
		return warning(r)
	}
	return join("; ", warning(r), reason(r, now))
}

// NoWorker is the warning of a run that should go on while no process works on the runs of its store.
const NoWorker = "NoWorker"

func warning(r Run) string {
	if r.Warning == NoWorker {
		return "no process works on it, go on with: pawl resume " + Short(r.ID)
	}
	return strings.ToLower(r.Warning)
}

func reason(r Run, now time.Time) string {
	current := r.Current()
	switch r.Phase {
	case runtype.Queued:
		if r.WaitsForLimits() {
			return limitReason(r, now)
		}
		if r.Behind != "" {
			return "behind " + Short(r.Behind)
		}
		return fmt.Sprintf("number %d in the queue", r.Queue)
	case runtype.Paused:
		return join(", ", pausedReason(r), healing(r, now))
	case runtype.Cancelling:
		if r.Stop != nil {
			return join(" ", string(r.Stop.Verb), string(r.Stop.Mode), by(r.Stop.Actor, r.Stop.Reason))
		}
	case runtype.Cancelled:
		if r.Stop != nil {
			return join(" ", string(r.Stop.Mode), by(r.Stop.Actor, r.Stop.Reason))
		}
	case runtype.Waiting, runtype.Running:
		if l := r.WaitsForStepLimit(); l != nil && (current == nil || current.Wait != nil && current.Wait.Reason == workflow.ReasonLimit) {
			since := r.CreatedAt
			if current != nil {
				since = current.Wait.Since
			}
			return join(", ", fmt.Sprintf("waits for limit %s: %s", l.Key, numbers(*l)), Took(now.Sub(since)))
		}
		if current != nil {
			return StepReason(*current, now)
		}
	}
	return ""
}

// limitReason names the first limit that keeps the run waiting.
func limitReason(r Run, now time.Time) string {
	waited := Took(now.Sub(r.CreatedAt))
	var keys []string
	for _, l := range r.Limits {
		if l.Waiting > 0 && (l.Before > 0 || l.Running >= l.AtOnce) {
			return join(", ", fmt.Sprintf("waits for limit %s: %s", l.Key, numbers(l)), waited)
		}
		keys = append(keys, l.Key)
	}
	return join(", ", "waits for limit "+strings.Join(keys, ", "), waited)
}

func numbers(l Limit) string {
	before := ""
	if l.Before > 0 {
		before = fmt.Sprintf("%d before it", l.Before)
	}
	running, started := fmt.Sprintf("%d of %d running", l.Running, l.AtOnce), ""
	if l.Rate != "" {
		number, window, _ := strings.Cut(l.Rate, "/")
		started = fmt.Sprintf("%d of %s started within %s", l.Started, number, window)
		if l.AtOnce == 0 {
			running = ""
		}
	}
	return join(", ", running, started, before)
}

func pausedReason(r Run) string {
	switch {
	case r.Fault == nil:
		return ""
	case r.Fault.Code == workflow.PausedByPerson.Code || r.Fault.Code == workflow.CancelledByPerson.Code:
		if r.Stop != nil {
			return join(" ", string(r.Fault.Code), by(r.Stop.Actor, r.Stop.Reason))
		}
	case r.Stop != nil && (r.Stop.Verb == runtype.VerbPause || r.Stop.Mode == runtype.Hold):
		return join(" ", string(r.Fault.Code), oneLine(r.Fault.Message)) + "; paused " + by(r.Stop.Actor, r.Stop.Reason)
	}
	return join(" ", string(r.Fault.Code), oneLine(r.Fault.Message))
}

func healing(r Run, now time.Time) string {
	for _, h := range r.Healing {
		switch {
		case h.Ended != "":
			continue
		case h.Child != "":
			return "healing by " + Short(h.Child)
		case h.Open, h.NextAt.IsZero():
			return "healing"
		default:
			return "healing " + until(h.NextAt, now)
		}
	}
	return ""
}

func by(actor, reason string) string {
	who := ""
	if actor != "" {
		who = "by " + actor
	}
	return join(": ", who, oneLine(reason))
}

// StepReason returns in one line the state of a step that is not done.
func StepReason(s Step, now time.Time) string {
	switch s.Phase {
	case runtype.StepWaiting:
		return waitReason(s, now)
	case runtype.StepRetrying:
		when := ""
		if !s.NextAt.IsZero() {
			when = "again " + until(s.NextAt, now)
		}
		return join(", ", join("  ", attempt(s), faultLine(s.Fault)), when)
	case runtype.StepFailed:
		return join("  ", attempt(s), faultLine(s.Fault))
	case runtype.StepSkipped:
		return join(" ", oneLine(s.Note), by(s.Actor, ""))
	case runtype.StepRunning:
		var notes []string
		if s.Undoing {
			notes = append(notes, "undoing")
		}
		if s.Isolated {
			notes = append(notes, "isolated")
		}
		if s.Attempts > 1 {
			notes = append(notes, attempt(s))
		}
		return join(", ", append(notes, progress(s.Progress))...)
	}
	return ""
}

func waitReason(s Step, now time.Time) string {
	w := s.Wait
	if w == nil {
		return ""
	}
	what := join(": ", w.Reason, oneLine(w.Message))
	switch {
	case w.Signal != "":
		what = "signal " + w.Signal
	case w.Child != "":
		what = "run " + Short(w.Child)
	case !w.Until.IsZero():
		what = "timer, ends " + until(w.Until, now)
	}
	deadline := ""
	if !w.Deadline.IsZero() {
		deadline = "deadline " + until(w.Deadline, now)
	}
	return join(", ", what, progress(s.Progress), deadline)
}

func attempt(s Step) string {
	if s.Budget > 0 {
		return fmt.Sprintf("attempt %d/%d", max(s.Failures, 1), s.Budget)
	}
	return fmt.Sprintf("attempt %d", max(s.Attempts, 1))
}

func faultLine(f *Fault) string {
	if f == nil {
		return ""
	}
	message := oneLine(f.Message)
	if message == "" {
		message = f.Title
	}
	return join("  ", string(f.Code), message)
}

func progress(p *Progress) string {
	switch {
	case p == nil:
		return ""
	case p.Total > 0:
		return join(" ", fmt.Sprintf("%d/%d", p.Done, p.Total), oneLine(p.Text))
	case p.Done > 0:
		return join(" ", fmt.Sprint(p.Done), oneLine(p.Text))
	default:
		return oneLine(p.Text)
	}
}
