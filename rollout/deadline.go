package rollout

import (
	"maps"
	"time"
)

// leastTime is how long a process has worked before a deadline that passed while nobody did may act.
const leastTime = 30 * time.Second

// excusing takes over how long the API server did not answer since the rollout began. What a pause or a hold
// excuses is not counted twice.
func (at Position) excusing(unavailable Duration) Position {
	more := unavailable - at.Outage
	if at.Started == nil || at.State.Terminal() || more <= 0 {
		return at
	}
	at.Outage = unavailable
	if at.Pause != nil || at.BatchState == BatchReady && (at.State == InBatch || at.State == RollingBack) {
		return at
	}
	at.Excused += more
	return at.withBatch(func(b *BatchPosition) { b.Excused += more })
}

// withBatch is the position with a change of its current batch, if it has one.
func (at Position) withBatch(change func(*BatchPosition)) Position {
	b, ok := at.Batches[at.CurrentBatch]
	if !ok {
		return at
	}
	change(&b)
	at.Batches = maps.Clone(at.Batches)
	at.Batches[at.CurrentBatch] = b
	return at
}

// deadline is until when the present batch, the rollout or the rollback must be done; since is when the
// process began to work.
func (m *movement) deadline(since time.Time) (time.Time, bool) {
	var first time.Time
	sooner := func(start *time.Time, d *Duration, excused Duration) {
		if start == nil || d == nil {
			return
		}
		until := start.Add(timeOf(*d + excused))
		if least := since.Add(min(timeOf(*d), leastTime)); !since.IsZero() && until.Before(least) {
			until = least
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	at, b := m.at, m.at.Batches[m.at.CurrentBatch]
	switch {
	case at.Pause != nil:
	case at.State == RollingBack && at.Rollback != nil:
		sooner(&at.Rollback.Since, m.p.Rollback.Deadline, at.Excused)
	case at.State == InBatch && at.BatchState == BatchReady:
	case at.State == InBatch || at.State == Initializing || at.State == Finalising:
		if at.State == InBatch && !b.NoDeadline && at.CurrentBatch < len(m.p.RolloutBatches) {
			sooner(b.Start, m.p.RolloutBatches[at.CurrentBatch].Deadline, b.Excused)
		}
		if !at.NoDeadline {
			sooner(at.Started, m.p.Deadline, at.Excused)
		}
	}
	return first, !first.IsZero()
}

// newDeadline lets the deadline that has passed begin anew; one that is skipped ends. That of a
// rollback always begins anew.
func (m *movement) newDeadline(verdict string, now time.Time) Position {
	at := m.at
	switch back := at.Rollback; {
	case back != nil:
		anew := *back
		anew.Since, at.Excused, at.Rollback = now, 0, &anew
	case verdict == "":
		at.Started, at.Excused = &now, 0
		if at.State == InBatch {
			at = at.withBatch(func(b *BatchPosition) { b.Start, b.Excused = &now, 0 })
		}
	default:
		if all := m.p.Deadline; all != nil && at.Started != nil && !now.Before(at.Started.Add(timeOf(*all+at.Excused))) {
			at.NoDeadline = true
		}
		if at.State == InBatch {
			at = at.withBatch(func(b *BatchPosition) { b.NoDeadline = true })
		}
	}
	return at
}

// overdue lets onFailure act on what still waits after the deadline.
func (s *pass) overdue(what string) {
	until, ok := s.movement().deadline(s.f.Since)
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
