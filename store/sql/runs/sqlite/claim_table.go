package sqlite

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// claimTable holds the owners of the runs under way, and the runs that were released
// unchanged. It holds only runs under way: a waiting run uses its row and no memory.
type claimTable struct {
	claimMu sync.Mutex // one claim at a time

	mu         sync.Mutex
	held       map[int64]*heldClaim
	workers    map[string]*worker
	orphans    []int64 // runs of dead workers
	parked     map[int64]parkedRun
	unreadable map[int64]bool // rows that could not be read
	freed      map[int64]bool // released while a claim reads; nil without a claim
}

// heldClaim is one claimed run. Its epoch may be newer than the stored one.
type heldClaim struct {
	id     string
	worker *worker // nil: the worker was declared dead
	epoch  int64
	saved  bool // the row holds the owner too
}

// parkedRun is a run that was released unchanged. Its row still has the old due time.
// When the row's due time differs from stored, the row counts again.
type parkedRun struct {
	epoch  int64
	stored int64     // due time of the row
	next   time.Time // zero: only an event makes it due
}

type worker struct {
	name  string
	since time.Time
	until time.Time
	lease time.Duration
	lost  bool
	runs  map[int64]struct{}
}

type heldRun struct {
	row, epoch int64
	id         string
}

const (
	firstLease = 15 * time.Second // lease of a worker that owns a run before its first claim
	maxParked  = 256              // with more, a release is written to the row
)

func (h *claimTable) init() {
	h.held, h.workers, h.parked, h.unreadable = map[int64]*heldClaim{}, map[string]*worker{}, map[int64]parkedRun{}, map[int64]bool{}
}

// register finds or registers a living worker. A lease of 0 keeps the worker's lease.
func (h *claimTable) register(name string, lease time.Duration, now time.Time) *worker {
	w := h.workers[name]
	if w == nil {
		w = &worker{name: name, lease: firstLease, runs: map[int64]struct{}{}}
		h.workers[name] = w
	}
	if lease > 0 {
		w.lease = lease
	}
	if w.since.IsZero() || w.lost {
		w.since = now
	}
	w.lost = false
	if until := now.Add(w.lease); until.After(w.until) {
		w.until = until
	}
	return w
}

// beginClaim begins a claim and returns the runs of dead workers.
func (h *claimTable) beginClaim(worker string, lease time.Duration, now time.Time) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	alive := h.register(worker, lease, now)
	for _, w := range h.workers {
		if w == alive || len(w.runs) == 0 || now.Before(w.until) {
			continue
		}
		w.lost = true
		for row := range w.runs {
			h.held[row].worker = nil
			h.orphans = append(h.orphans, row)
		}
		clear(w.runs)
	}
	h.freed = map[int64]bool{}
	var early []int64
	for _, row := range h.orphans {
		if one := h.held[row]; (one == nil || one.worker == nil) && !h.unreadable[row] {
			early = append(early, row)
		}
	}
	h.orphans = nil
	return early
}

func (h *claimTable) endClaim() {
	h.mu.Lock()
	h.freed = nil
	h.mu.Unlock()
}

// isOrphan reports a run whose worker in this process was declared dead.
func (h *claimTable) isOrphan(row int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.held[row]
	return one != nil && one.worker == nil
}

func (h *claimTable) requeueOrphans(rows []int64) {
	h.mu.Lock()
	h.orphans = append(h.orphans, rows...)
	h.mu.Unlock()
}

func (h *claimTable) markUnreadable(row int64) {
	h.mu.Lock()
	h.unreadable[row] = true
	h.mu.Unlock()
}

// isClaimable reports a due row that no worker owns and that is not unreadable, just
// released or parked with this due time.
func (h *claimTable) isClaimable(row, due int64, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[row] != nil || h.unreadable[row] || h.freed[row] {
		return false
	}
	parked, ok := h.parked[row]
	return !ok || parked.stored != due
}

// dueParked returns the parked runs that are due, and the next due time of the others.
func (h *claimTable) dueParked(now time.Time) (rows []int64, soonest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for row, parked := range h.parked {
		switch {
		case parked.next.IsZero():
		case !parked.next.After(now):
			rows = append(rows, row)
		case soonest.IsZero() || parked.next.Before(soonest):
			soonest = parked.next
		}
	}
	return rows, soonest
}

// nextLeaseEnd is when the next worker with runs is declared dead unless it renews.
func (h *claimTable) nextLeaseEnd(but string) (soonest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		if w.name != but && len(w.runs) > 0 && (soonest.IsZero() || w.until.Before(soonest)) {
			soonest = w.until
		}
	}
	return soonest
}

// tryAssign assigns a run that a claim has read.
func (h *claimTable) tryAssign(worker string, r *runtype.Run) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := r.Handle.(*runs.Handle).Key
	if one := h.held[row]; one != nil && one.worker != nil || h.freed[row] || r.Phase.Final() {
		return false
	}
	h.assign(worker, row, r)
	return true
}

type assignResult int

const (
	assignDone assignResult = iota
	assignOwned
	assignStale
)

func (h *claimTable) assignOne(worker string, r *runtype.Run) assignResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := r.Handle.(*runs.Handle).Key
	one := h.held[row]
	switch {
	case r.Phase.Final():
	case one != nil && one.worker != nil && one.worker.name == worker:
		r.Owner, r.Epoch = worker, one.epoch
	case one != nil && one.worker != nil:
		return assignOwned
	case h.freed[row]:
		return assignStale
	default:
		h.assign(worker, row, r)
	}
	return assignDone
}

// assign sets owner and epoch of the caller's copy and records them.
func (h *claimTable) assign(worker string, row int64, r *runtype.Run) {
	epoch := r.Epoch
	saved := r.Owner != ""
	if one := h.held[row]; one != nil {
		epoch = max(epoch, one.epoch)
	}
	if parked, ok := h.parked[row]; ok {
		epoch = max(epoch, parked.epoch)
		delete(h.parked, row)
	}
	r.Owner, r.Epoch = worker, epoch+1
	w := h.register(worker, 0, time.Now())
	w.runs[row] = struct{}{}
	h.held[row] = &heldClaim{id: r.ID, worker: w, epoch: r.Epoch, saved: saved}
}

// setOwner records the owner that a write has stored.
func (h *claimTable) setOwner(row int64, id, worker string, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.held[row]
	if one == nil {
		one = &heldClaim{id: id}
		h.held[row] = one
	}
	if one.worker != nil && one.worker.name != worker {
		delete(one.worker.runs, row)
	}
	one.worker = h.register(worker, 0, time.Now())
	one.worker.runs[row] = struct{}{}
	one.epoch, one.saved = epoch, true
	delete(h.parked, row)
}

// forget ends the claim of a run.
func (h *claimTable) forget(row int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.held[row]; one != nil && one.worker != nil {
		delete(one.worker.runs, row)
	}
	delete(h.held, row)
	delete(h.parked, row)
	if h.freed != nil {
		h.freed[row] = true
	}
}

// park ends the claim of a run whose row stays as it is.
func (h *claimTable) park(row, epoch, stored int64, next time.Time) {
	h.forget(row)
	h.mu.Lock()
	h.parked[row] = parkedRun{epoch: epoch, stored: stored, next: next}
	h.mu.Unlock()
}

func (h *claimTable) parkedFull() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.parked) >= maxParked
}

// isFenced reports that a later claim holds or held the run.
func (h *claimTable) isFenced(row, epoch int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.held[row]
	return one != nil && one.epoch > epoch || one == nil && h.parked[row].epoch > epoch
}

func (h *claimTable) claimOf(row int64, worker string) (held bool, epoch int64, saved bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.held[row]
	if one == nil || one.worker == nil || one.worker.name != worker {
		return false, 0, false
	}
	return true, one.epoch, one.saved
}

// applyTo adds a claim that no save has stored yet to a run that was read.
func (h *claimTable) applyTo(r *runtype.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row := r.Handle.(*runs.Handle).Key
	if one := h.held[row]; one != nil && one.epoch >= r.Epoch && !r.Phase.Final() {
		r.Epoch = one.epoch
		if one.worker != nil {
			r.Owner = one.worker.name
		}
	} else if parked, ok := h.parked[row]; ok {
		r.Epoch, r.NextAt = max(r.Epoch, parked.epoch), parked.next
	}
}

func (h *claimTable) renew(worker string, lease time.Duration, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[worker]; w != nil && w.lost {
		return runstore.ErrFenced
	}
	h.register(worker, lease, now)
	return nil
}

func (h *claimTable) heldBy(worker string) (list []heldRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[worker]; w != nil {
		for row := range w.runs {
			list = append(list, heldRun{row: row, epoch: h.held[row].epoch, id: h.held[row].id})
		}
	}
	return list
}

func (h *claimTable) removeWorker(worker string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[worker]; w != nil && len(w.runs) == 0 {
		delete(h.workers, worker)
	}
}

// list returns the workers in the order of their names.
func (h *claimTable) list(now time.Time) (list []runstore.Worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		if w.lost {
			continue
		}
		one := runstore.Worker{Name: w.name, Since: w.since.UTC(), Until: w.until.UTC(), Lease: w.lease, Expired: !now.Before(w.until), Count: len(w.runs)}
		rows := slices.Sorted(maps.Keys(w.runs))
		for _, row := range rows[:min(len(rows), runstore.MaxOwned)] {
			one.Runs = append(one.Runs, h.held[row].id)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b runstore.Worker) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
