package rollout

import "time"

// leastTime is how long a process has worked before a deadline that passed while nobody did may act.
const leastTime = 30 * time.Second

// excuse takes over how long the API server did not answer. What a pause or a hold excuses is not counted
// twice.
func (s *pass) excuse() {
	more := s.f.Unavailable - s.at.Outage
	if s.at.Started == nil || s.at.State.Terminal() || more <= 0 {
		return
	}
	s.at.Outage = s.f.Unavailable
	if s.at.Pause != nil || s.at.BatchState == BatchReady && (s.at.State == InBatch || s.at.State == RollingBack) {
		return
	}
	s.at.Excused += more
	if b, ok := s.at.Batches[s.at.CurrentBatch]; ok {
		b.Excused += more
		s.at.Batches[s.at.CurrentBatch] = b
	}
}

// deadline is until when the present batch, the rollout or the rollback must be done.
func (s *pass) deadline() (time.Time, bool) {
	var first time.Time
	sooner := func(start *time.Time, d *Duration, excused Duration) {
		if start == nil || d == nil {
			return
		}
		until := start.Add(timeOf(*d + excused))
		if least := s.f.Since.Add(min(timeOf(*d), leastTime)); !s.f.Since.IsZero() && until.Before(least) {
			until = least
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	b := s.at.Batches[s.at.CurrentBatch]
	switch {
	case s.at.Pause != nil:
	case s.at.State == RollingBack && s.at.Rollback != nil:
		sooner(&s.at.Rollback.Since, s.p.Rollback.Deadline, s.at.Excused)
	case s.at.State == InBatch && s.at.BatchState == BatchReady:
	case s.at.State == InBatch || s.at.State == Initializing || s.at.State == Finalising:
		if s.at.State == InBatch && !b.NoDeadline && s.at.CurrentBatch < len(s.p.RolloutBatches) {
			sooner(b.Start, s.p.RolloutBatches[s.at.CurrentBatch].Deadline, b.Excused)
		}
		if !s.at.NoDeadline {
			sooner(s.at.Started, s.p.Deadline, s.at.Excused)
		}
	}
	return first, !first.IsZero()
}

// overdue lets onFailure act on what still waits after the deadline.
func (s *pass) overdue(what string) {
	until, ok := s.deadline()
	if !ok || !s.stopped || len(s.d.Acts) > 0 || s.now.Before(until) {
		return
	}
	err := DeadlinePassed.Errorf("%s by %s: %s", what, until.UTC().Format(time.RFC3339), s.d.Outcome.Message())
	s.stopped, s.d.Asks = false, nil
	then := s.p.OnFailure
	if s.at.State != InBatch && s.at.State != Initializing { // a rollback goes back already, and an end has no batch to take back
		then = OnFailurePause
	}
	s.fail(ByDeadline, "", err, then)
}

// newDeadline lets the deadline that has passed begin anew; one that is skipped ends. That of a
// rollback always begins anew.
func (s *pass) newDeadline(verdict string) {
	b := s.at.Batches[s.at.CurrentBatch]
	switch back := s.at.Rollback; {
	case back != nil:
		anew := *back
		anew.Since, s.at.Excused, s.at.Rollback = s.now, 0, &anew
	case verdict == "":
		s.at.Started, s.at.Excused = &s.now, 0
		if s.at.State == InBatch {
			b.Start, b.Excused = &s.now, 0
		}
	default:
		if all := s.p.Deadline; all != nil && s.at.Started != nil && !s.now.Before(s.at.Started.Add(timeOf(*all+s.at.Excused))) {
			s.at.NoDeadline = true
		}
		if s.at.State == InBatch {
			b.NoDeadline = true
		}
	}
	if _, ok := s.at.Batches[s.at.CurrentBatch]; ok {
		s.at.Batches[s.at.CurrentBatch] = b
	}
}
