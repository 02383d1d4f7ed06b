package runstore

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// firstLease is the lease of a worker that owns a run before it has claimed one.
const firstLease = 15 * time.Second

// Claim claims due runs, the earliest first. See Claimer.
func (m *Memory) Claim(ctx context.Context, c Claim) (Claimed, error) {
	if err := ctx.Err(); err != nil {
		return Claimed{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	worker := m.worker(c.Worker, c.Lease, now)
	m.expireWorkers(worker, now)

	var out Claimed
	for len(out.Runs) < c.Limit {
		heap := m.soonest(c.FullFlows)
		if heap == nil || heap.runs[0].dueAt > now.UnixNano() {
			break
		}
		run := heap.runs[0]
		m.claim(run, worker)
		out.Runs = append(out.Runs, Loaded{Run: run.load(), Signals: run.signals()})
	}
	out.Next = m.next(worker, now)
	return out, nil
}

// soonest returns the heap whose first run is due before those of all other heaps.
func (m *Memory) soonest(full []string) *dueHeap {
	var best *dueHeap
	for flow, heap := range m.due {
		if !slices.Contains(full, flow) && (best == nil || heap.runs[0].before(best.runs[0])) {
			best = heap
		}
	}
	return best
}

// next returns the time for the next claim: the earliest time at which a run becomes due or the
// lease of another worker ends. A flow whose first run is already due is ignored: its runs wait for
// a slot, not for time.
func (m *Memory) next(worker *memoryWorker, now time.Time) time.Time {
	soonest := int64(math.MaxInt64)
	for _, heap := range m.due {
		if at := heap.runs[0].dueAt; at > now.UnixNano() {
			soonest = min(soonest, at)
		}
	}
	for _, other := range m.workers {
		if other != worker && len(other.runs) > 0 {
			soonest = min(soonest, other.until.UnixNano())
		}
	}
	if soonest == math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, soonest).UTC()
}

// ClaimRun claims one run. See Claimer.
func (m *Memory) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (Loaded, error) {
	if err := ctx.Err(); err != nil {
		return Loaded{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	run := m.runs[id]
	if run == nil {
		return Loaded{}, ErrNotFound
	}
	switch owner := run.worker; {
	case owner != nil && owner.name == worker:
		m.worker(worker, lease, now)
	case owner != nil && now.Before(owner.until):
		return Loaded{}, ErrOwned
	case !run.row.Phase.Final():
		m.claim(run, m.worker(worker, lease, now))
	}
	return Loaded{Run: run.load(), Signals: run.signals()}, nil
}

// Renew extends the lease of a worker. See Claimer.
func (m *Memory) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[worker]; w != nil && w.lost {
		return ErrFenced
	}
	m.worker(worker, lease, time.Now())
	return nil
}

// Release removes a worker and releases its runs. See Claimer.
func (m *Memory) Release(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[worker]
	if w == nil {
		return nil
	}
	now := time.Now()
	for run := range w.runs {
		m.unassign(run)
		run.row.Owner = ""
		// A waiting run keeps its due time. A run that has mail, or whose phase is Running or
		// Cancelling, is due at once: an attempt may be open.
		under := run.row.Phase == runtype.Running || run.row.Phase == runtype.Cancelling
		if len(run.unread) > 0 || under {
			run.row.NextAt = now
		}
		m.schedule(run)
		m.sendWake(run.row.ID)
	}
	delete(m.workers, worker)
	return nil
}

// ReleaseRun releases one unchanged run. See Claimer.
func (m *Memory) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[r.ID]
	if run == nil || run.worker == nil || run.worker.name != worker {
		return nil
	}
	m.unassign(run)
	run.row.Owner, run.row.NextAt = "", next
	if r.Mail < run.row.Mail || r.Revision != run.row.Revision { // it left the queue meanwhile
		run.row.NextAt = time.Now()
		m.sendWake(r.ID)
	}
	m.schedule(run)
	return nil
}

// worker returns or registers a worker and extends its lease. A lease of 0 means the previous
// duration.
func (m *Memory) worker(name string, lease time.Duration, now time.Time) *memoryWorker {
	w := m.workers[name]
	if w == nil {
		w = &memoryWorker{name: name, lease: firstLease, runs: map[*memoryRun]struct{}{}}
		m.workers[name] = w
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

// expireWorkers makes the runs of workers whose lease has expired due.
func (m *Memory) expireWorkers(alive *memoryWorker, now time.Time) {
	for _, w := range m.workers {
		if w == alive || len(w.runs) == 0 || now.Before(w.until) {
			continue
		}
		w.lost = true
		for run := range w.runs {
			m.unassign(run)
			run.orphan = true
			m.schedule(run)
		}
	}
}

// claim assigns a run to a worker and raises its epoch.
func (m *Memory) claim(run *memoryRun, w *memoryWorker) {
	m.unschedule(run)
	m.assign(run, w)
	run.row.Owner = w.name
	run.row.Epoch++
}

func (m *Memory) assign(run *memoryRun, w *memoryWorker) {
	m.unassign(run)
	run.worker, run.orphan = w, false
	w.runs[run] = struct{}{}
}

func (m *Memory) unassign(run *memoryRun) {
	if run.worker != nil {
		delete(run.worker.runs, run)
		run.worker = nil
	}
	run.orphan = false
}

// schedule puts a run without an owner into the heap of Claim, or removes it from there.
func (m *Memory) schedule(run *memoryRun) {
	m.unschedule(run)
	if run.worker != nil || run.row.Phase.Final() {
		return
	}
	switch {
	case run.orphan:
		run.dueAt = math.MinInt64
	case !run.row.NextAt.IsZero():
		run.dueAt = run.row.NextAt.UnixNano()
	default:
		return
	}
	heap := m.due[run.row.Flow]
	if heap == nil {
		heap = &dueHeap{}
		m.due[run.row.Flow] = heap
	}
	heap.push(run)
}

func (m *Memory) unschedule(run *memoryRun) {
	if run.heapAt == 0 {
		return
	}
	heap := m.due[run.row.Flow]
	heap.remove(run)
	if len(heap.runs) == 0 {
		delete(m.due, run.row.Flow)
	}
}

// dueHeap is a binary heap ordered by due time. Each run knows its position in the heap.
type dueHeap struct{ runs []*memoryRun }

func (run *memoryRun) before(other *memoryRun) bool {
	if run.dueAt != other.dueAt {
		return run.dueAt < other.dueAt
	}
	return run.number < other.number
}

func (h *dueHeap) push(run *memoryRun) {
	h.runs = append(h.runs, run)
	run.heapAt = len(h.runs)
	h.up(len(h.runs) - 1)
}

func (h *dueHeap) remove(run *memoryRun) {
	at, last := run.heapAt-1, len(h.runs)-1
	if at != last {
		h.swap(at, last)
	}
	h.runs[last] = nil
	h.runs = h.runs[:last]
	run.heapAt = 0
	if at != last {
		h.down(at)
		h.up(at)
	}
}

func (h *dueHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.runs[i].before(h.runs[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *dueHeap) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(h.runs) {
			return
		}
		if right := least + 1; right < len(h.runs) && h.runs[right].before(h.runs[least]) {
			least = right
		}
		if !h.runs[least].before(h.runs[i]) {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *dueHeap) swap(i, j int) {
	h.runs[i], h.runs[j] = h.runs[j], h.runs[i]
	h.runs[i].heapAt, h.runs[j].heapAt = i+1, j+1
}

// Workers returns the workers. See Workers.
func (m *Memory) Workers(ctx context.Context) ([]Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var list []Worker
	for _, w := range m.workers {
		if w.lost {
			continue
		}
		one := Worker{Name: w.name, Since: w.since.UTC(), Until: w.until.UTC(), Lease: w.lease, Expired: !now.Before(w.until), Count: len(w.runs)}
		owned := slices.SortedFunc(maps.Keys(w.runs), func(a, b *memoryRun) int { return cmp.Compare(a.number, b.number) })
		for _, run := range owned[:min(len(owned), MaxOwned)] {
			one.Runs = append(one.Runs, run.row.ID)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
