package runstore

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// claims picks the runs that are due.
type claims struct {
	*shared
	hasClaimed bool // this process has claimed runs
}

// claimsAtOnce is how many claims run concurrently.
const claimsAtOnce = 8

// Claim takes due runs, soonest first, with one write each. If nothing is due it writes
// nothing. See runstore.Claimer.
func (s *Store) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return runstore.Claimed{}, err
	}
	if err := s.workers.giveUpExpired(ctx, c.Worker); err != nil {
		return runstore.Claimed{}, err
	}
	picked := s.claims.pick(c)
	var out runstore.Claimed
	var errs error
	if len(picked) > 0 {
		if err := s.workers.ensureAlive(ctx, c.Worker, c.Lease); err != nil {
			s.claims.putBack(picked)
			return out, err
		}
		out.Runs, errs = s.claims.claimAll(ctx, c.Worker, picked)
	}
	s.mu.Lock()
	out.Next = s.claims.next(c.Worker)
	s.mu.Unlock()
	if errs != nil && len(out.Runs) > 0 { // claim the failed ones again soon
		if soon := time.Now().Add(100 * time.Millisecond); out.Next.IsZero() || soon.Before(out.Next) {
			out.Next = soon.UTC()
		}
		errs = nil
	}
	return out, errs
}

// pick reserves due runs: runs of dead workers, runs of this worker that it does not
// know of, and runs without an owner.
func (s *claims) pick(c runstore.Claim) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasClaimed = true
	now := time.Now()
	var picked []*entry
	take := func(e *entry) {
		e.claimed = true
		s.scheduleQuietly(e)
		picked = append(picked, e)
	}
	for owner, runs := range s.cache.owned {
		dead, _ := s.workers.isDead(owner, now)
		if !dead && owner != c.Worker {
			continue
		}
		for e := range runs {
			if len(picked) < c.Limit && !e.claimed && !slices.Contains(c.FullFlows, e.Spec.Flow) && (owner != c.Worker || !e.ownerKnows()) {
				take(e)
			}
		}
	}
	var full []*entry
	for h := &s.cache.due; len(picked) < c.Limit && h.Len() > 0 && h.entries[0].dueAt <= now.UnixNano(); {
		e := h.entries[0]
		if slices.Contains(c.FullFlows, e.Spec.Flow) {
			heap.Pop(h)
			full = append(full, e)
			continue
		}
		take(e)
	}
	for _, e := range full {
		heap.Push(&s.cache.due, e)
	}
	return picked
}

// ownerKnows reports whether the owner in this process knows that it owns the run. It
// does not if the answer to its claim was lost.
func (e *entry) ownerKnows() bool { return e.claimer == e.Status.Owner && e.epoch == e.Status.Epoch }

func (s *claims) putBack(picked []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range picked {
		e.claimed = false
		s.scheduleQuietly(e)
	}
}

func (s *claims) claimAll(ctx context.Context, worker string, picked []*entry) ([]runstore.Loaded, error) {
	got := make([]runstore.Loaded, len(picked))
	errs := make([]error, len(picked))
	gate := make(chan struct{}, claimsAtOnce)
	var all sync.WaitGroup
	for i, e := range picked {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			got[i], errs[i] = s.claimOne(ctx, worker, e, false)
		})
	}
	all.Wait()
	s.putBack(picked)
	got = slices.DeleteFunc(got, func(l runstore.Loaded) bool { return l.Run == nil })
	return got, errors.Join(errs...)
}

// claimOne makes a worker the owner of a run. It returns the zero Loaded if the run
// cannot be claimed any more. anyTime: also a run that is not due.
func (s *claims) claimOne(ctx context.Context, worker string, e *entry, anyTime bool) (runstore.Loaded, error) {
	if err := s.slots.assignSlot(ctx, e); err != nil {
		if errors.Is(err, runstore.ErrNotFound) {
			err = nil
		}
		return runstore.Loaded{}, err
	}
	mine := false
	err := s.write(ctx, e, "claiming run "+e.key.name, func(e *entry) (*format.Edit, error) {
		mine = false
		if !e.Accepted() || e.Phase().Final() {
			return nil, nil
		}
		switch owner := e.Status.Owner; {
		case owner == worker && !anyTime && e.ownerKnows():
			return nil, nil
		case owner == worker:
		case owner != "":
			if dead, _ := s.workers.isDead(owner, time.Now()); !dead {
				return nil, nil
			}
		case !anyTime:
			if at, due := e.dueTime(); !due || at > time.Now().UnixNano() {
				return nil, nil
			}
		}
		mine = true
		h := format.Head(&e.Status)
		h.Owner = worker
		h.Epoch++
		return &format.Edit{Head: h}, nil
	})
	if errors.Is(err, runstore.ErrNotFound) {
		return runstore.Loaded{}, nil
	}
	if err != nil || !mine {
		return runstore.Loaded{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadFor(worker, e)
}

// loadFor returns a run to its owner and notes that the owner knows of it. s.mu is held.
func (s *claims) loadFor(worker string, e *entry) (runstore.Loaded, error) {
	if e.Status.Owner != worker { // taken away again already
		return runstore.Loaded{}, nil
	}
	l, err := format.Load(e.Object)
	if err != nil {
		return runstore.Loaded{}, err
	}
	e.claimer, e.epoch = worker, l.Run.Epoch
	return l, nil
}

// next returns when to claim again: when a run becomes due, or when the lease of another
// worker that owns runs ends. s.mu is held.
func (s *claims) next(alive string) time.Time {
	now := time.Now()
	soonest := s.cache.due.soonest(now)
	for owner := range s.cache.owned {
		if w := s.workers.workers[owner]; owner != alive && w != nil && !w.lost {
			soonest = min(soonest, w.expiresAt().UnixNano())
		}
	}
	if soonest == math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, soonest).UTC()
}

// ClaimRun claims one run, due or not. See runstore.Claimer.
func (s *Store) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	e, err := s.find(ctx, id)
	if err != nil {
		return runstore.Loaded{}, err
	}
	if e.foreign {
		return runstore.Loaded{}, runstore.ErrOwned // a worker of another store owns it or will
	}
	for try := range 3 {
		s.mu.Lock()
		s.claims.hasClaimed = true
		owner, final, trimmed := e.Status.Owner, e.Phase().Final(), e.trimmed
		s.mu.Unlock()
		switch {
		case final && trimmed:
			r, signals, err := s.Load(ctx, id)
			return runstore.Loaded{Run: r, Signals: signals}, err
		case final:
			s.mu.Lock()
			defer s.mu.Unlock()
			return format.Load(e.Object)
		case owner == worker:
			if err := s.workers.ensureAlive(ctx, worker, lease); err != nil {
				return runstore.Loaded{}, err
			}
			s.mu.Lock()
			l, err := s.claims.loadFor(worker, e)
			s.mu.Unlock()
			if err != nil || l.Run != nil {
				return l, err
			}
		case owner != "":
			dead, err := s.workers.confirmDead(ctx, owner)
			if err != nil {
				return runstore.Loaded{}, err
			}
			if !dead && try == 0 { // confirm a refusal by a read
				if err := s.refresh(ctx, e); err != nil {
					return runstore.Loaded{}, err
				}
				continue
			}
			if !dead {
				return runstore.Loaded{}, runstore.ErrOwned
			}
			fallthrough
		default:
			if err := s.workers.ensureAlive(ctx, worker, lease); err != nil {
				return runstore.Loaded{}, err
			}
			l, err := s.claims.claimOne(ctx, worker, e, true)
			if err != nil || l.Run != nil {
				return l, err
			}
		}
		s.mu.Lock()
		gone := e.removed
		s.mu.Unlock()
		if gone {
			return runstore.Loaded{}, runstore.ErrNotFound
		}
	}
	return runstore.Loaded{}, runstore.ErrOwned
}

// ReleaseRun gives back one run that its worker has found unchanged. See runstore.Claimer.
func (s *Store) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	e, err := s.find(ctx, r.ID)
	if err == nil {
		err = s.write(ctx, e, "resting run "+r.ID, func(e *entry) (*format.Edit, error) {
			if e.Status.Owner != worker || e.Phase().Final() {
				return nil, nil
			}
			h := format.Head(&e.Status)
			h.Owner, h.NextAt, h.Seen = "", format.TimeText(next), r.Mail
			if r.Mail < e.Spec.Mail || r.Revision != e.Status.Revision { // it was promoted meanwhile
				h.NextAt = format.TimeText(time.Now())
			}
			return &format.Edit{Head: h}, nil
		})
	}
	if errors.Is(err, runstore.ErrNotFound) {
		return nil
	}
	return err
}

// Release gives back a worker and its runs. See runstore.Claimer.
func (s *Store) Release(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	var mine []*entry
	for e := range s.cache.owned[worker] {
		mine = append(mine, e)
	}
	w := s.workers.workers[worker]
	s.mu.Unlock()
	slices.SortFunc(mine, func(a, b *entry) int { return cmp.Compare(a.created, b.created) })
	for _, e := range mine {
		err := s.write(ctx, e, "releasing run "+e.key.name, func(e *entry) (*format.Edit, error) {
			if e.Status.Owner != worker || e.Phase().Final() {
				return nil, nil
			}
			h := format.Head(&e.Status)
			h.Owner = ""
			// A waiting run keeps its due time. A run that is Running or Cancelling, or
			// has unread signals, is due at once: it may have an open attempt.
			under := e.Phase() == runtype.Running || e.Phase() == runtype.Cancelling
			if len(e.Unread()) > 0 || under {
				h.NextAt = format.TimeText(time.Now())
			}
			return &format.Edit{Head: h}, nil
		})
		if err != nil && !errors.Is(err, runstore.ErrNotFound) {
			return err
		}
	}
	if w == nil {
		return nil
	}
	if err := s.client.Delete(ctx, s.workers.workerRef(worker), "", ""); err != nil && !client.IsNotFound(err) {
		return client.StoreError(ctx, "deleting the lease of worker "+worker, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers.workers, worker)
	return nil
}
