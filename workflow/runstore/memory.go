package runstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Limits of queues and of the ids that a store remembers.
const (
	MaxQueued    = 100  // queued runs of one subject
	MaxUnread    = 1000 // unread signals of one run
	MaxSignalIDs = 1000 // newest signal ids of one run that are remembered
)

// Memory is a Store without durability, for tests and for programs whose runs may end with the
// process. Several workers of one process can share it. It implements Claimer, Lister, Definitions,
// Retainer, Logs, RunLimiter and Workers, starts no goroutine and has no timer.
type Memory struct {
	mu           sync.Mutex
	runs         map[string]*memoryRun
	order        []*memoryRun // ordered by number
	removedCount int          // removed runs that are still in order
	subjects     map[string]*memorySubject
	due          map[string]*dueHeap // by flow
	workers      map[string]*memoryWorker
	limits       map[string]*memoryLimit

	documentMu  sync.Mutex
	documents   map[string][]byte // documents of StepLimiter
	definitions map[string]Definition
	log         eventLog
	number      int64
	wake        chan string
	wakeDropped bool // a wake-up was dropped: the next one is ""
}

var (
	_ Store       = (*Memory)(nil)
	_ Claimer     = (*Memory)(nil)
	_ Lister      = (*Memory)(nil)
	_ Definitions = (*Memory)(nil)
	_ Retainer    = (*Memory)(nil)
	_ Logs        = (*Memory)(nil)
	_ RunLimiter  = (*Memory)(nil)
	_ Workers     = (*Memory)(nil)
	_ StepLimiter = (*Memory)(nil)
)

// memoryRun is a stored run. row holds no records: they are in steps. StepRecord.Row is the
// position in steps, from 1.
type memoryRun struct {
	row     runtype.Run
	number  int64 // order of creation
	steps   []*runtype.StepRecord
	unread  []runtype.Signal
	ids     []string // newest last
	events  [][]runtype.Event
	logs    memoryLogs
	subject *memorySubject
	worker  *memoryWorker // the worker that owns the run; nil: none
	orphan  bool          // the lease of its worker has expired
	removed bool
	waits   bool  // for its limits
	holds   bool  // its limits
	dueAt   int64 // key in the heap of its flow
	heapAt  int   // position in the heap, from 1; 0: not in the heap
}

type memorySubject struct {
	active *memoryRun // the run that holds the slot of the subject
	queue  []*memoryRun
	last   int64 // newest queue number
	runs   []*memoryRun
}

type memoryWorker struct {
	name  string
	since time.Time
	until time.Time
	lease time.Duration
	lost  bool // its lease has expired
	runs  map[*memoryRun]struct{}
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		runs:        map[string]*memoryRun{},
		subjects:    map[string]*memorySubject{},
		due:         map[string]*dueHeap{},
		workers:     map[string]*memoryWorker{},
		limits:      map[string]*memoryLimit{},
		documents:   map[string][]byte{},
		definitions: map[string]Definition{},
		wake:        make(chan string, 1024),
	}
}

// Create stores a new run. See Store.
func (m *Memory) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.runs[r.ID]; known != nil {
		return known.load(), nil
	}
	subject := m.subjects[r.Subject]
	if subject == nil {
		subject = &memorySubject{}
	}
	now := time.Now()
	passes := r.PassesLimited() && subject.active != nil && subject.active.waits
	queued := !r.Inline && subject.active != nil && !passes
	if queued && len(subject.queue) >= MaxQueued {
		return nil, QueueFull.Errorf("%d runs of %s wait already", MaxQueued, r.Subject)
	}

	if passes {
		m.standBehind(subject, now)
	}
	m.number++
	run := &memoryRun{number: m.number, subject: subject}
	run.row = r.CopyRow()
	run.row.Input, run.row.Labels, run.row.Limits = bytes.Clone(r.Input), maps.Clone(r.Labels), slices.Clone(r.Limits)
	run.row.Revision, run.row.Mail, run.row.Phase, run.row.Queue = 1, 0, runtype.Running, 0
	run.put(r)
	if queued {
		subject.last++
		run.row.Phase, run.row.Queue = runtype.Queued, subject.last
		run.row.Owner, run.row.Epoch, run.row.NextAt = "", 0, time.Time{}
		subject.queue = append(subject.queue, run)
	} else {
		if !r.Inline {
			subject.active = run
		}
		if len(r.Limits) > 0 && !m.requestLimits(run) {
			run.row.Phase, run.row.Owner, run.row.Epoch, run.row.NextAt = runtype.Queued, "", 0, time.Time{}
		}
	}
	m.subjects[r.Subject] = subject
	subject.runs = append(subject.runs, run)
	m.runs[r.ID] = run
	m.order = append(m.order, run)
	m.record(run, events)

	switch {
	case run.row.Phase == runtype.Queued:
	case run.row.Owner != "":
		m.assign(run, m.worker(run.row.Owner, 0, now))
	default:
		if run.row.NextAt.IsZero() {
			run.row.NextAt = now
		}
		m.schedule(run)
		m.sendWake(r.ID)
	}
	return run.load(), nil
}

// Load returns a run and its unread signals. See Store.
func (m *Memory) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[id]
	if run == nil {
		return nil, nil, ErrNotFound
	}
	return run.load(), run.signals(), nil
}

// Save writes the changes of a run. See Store.
func (m *Memory) Save(ctx context.Context, s *Save) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := s.Run
	run := m.runs[r.ID]
	switch {
	case run == nil:
		return ErrNotFound
	case run.row.Epoch > r.Epoch:
		return ErrFenced
	case run.row.Revision != r.Revision:
		return ErrConflict
	case run.row.Phase == runtype.Queued && r.Phase != runtype.Queued && !r.Phase.Final():
		return fmt.Errorf("%w: %s is queued behind another run of %s and may only end", ErrConflict, r.ID, r.Subject)
	}

	now := time.Now()
	ends := r.Phase.Final() && !run.row.Phase.Final()
	mail := run.row.Mail
	keep := run.row // fields that never change after Create
	run.row = r.CopyRow()
	run.row.Input, run.row.Labels, run.row.CreatedAt = keep.Input, keep.Labels, keep.CreatedAt
	run.row.Limits, run.row.Priority = keep.Limits, keep.Priority
	run.row.Mail, run.row.Revision = mail, r.Revision+1
	if r.Phase.Final() {
		run.row.Owner, run.row.NextAt, run.row.Queue = "", time.Time{}, 0
	}
	run.put(r)
	if len(s.Consumed) > 0 {
		run.unread = slices.DeleteFunc(run.unread, func(x runtype.Signal) bool { return slices.Contains(s.Consumed, x.ID) })
	}
	m.record(run, s.Events)
	for _, post := range s.Mail {
		if to := m.runs[post.To]; to != nil && !to.row.Phase.Final() {
			m.deliver(to, post.Signal, now)
		}
	}

	switch {
	case run.row.Owner != "":
		m.unschedule(run)
		if run.worker == nil || run.worker.name != run.row.Owner {
			m.assign(run, m.worker(run.row.Owner, 0, now))
		}
	default:
		m.unassign(run)
		if !r.Phase.Final() && r.Mail < run.row.Mail {
			run.row.NextAt = now
			m.sendWake(r.ID)
		}
		m.schedule(run)
	}
	if ends {
		m.releaseLimits(run, now)
		m.promote(run, now)
	}
	r.Revision, r.Mail = run.row.Revision, run.row.Mail
	r.Clean()
	return nil
}

// promote gives the slot of a run that has ended to the next run in the queue.
func (m *Memory) promote(run *memoryRun, now time.Time) {
	subject := run.subject
	if subject.active != run {
		subject.queue = slices.DeleteFunc(subject.queue, func(q *memoryRun) bool { return q == run })
		return
	}
	subject.active = nil
	if len(subject.queue) == 0 {
		return
	}
	at := 0
	if len(subject.queue[0].row.Limits) > 0 {
		at = max(0, slices.IndexFunc(subject.queue, func(q *memoryRun) bool { return q.row.PassesLimited() }))
	}
	next := subject.queue[at]
	subject.queue = slices.Delete(subject.queue, at, at+1)
	subject.active = next
	next.row.Queue = 0
	next.row.Revision++
	if len(next.row.Limits) == 0 || m.requestLimits(next) {
		m.begin(next, now)
	}
}

// standBehind moves the run that holds the slot and waits for its limits to the front of the queue: a child run passes it.
func (m *Memory) standBehind(subject *memorySubject, now time.Time) {
	run := subject.active
	subject.active = nil
	run.row.Queue = 1
	if len(subject.queue) > 0 {
		run.row.Queue = subject.queue[0].row.Queue
	}
	subject.last = max(subject.last, run.row.Queue)
	subject.queue = slices.Insert(subject.queue, 0, run)
	run.row.Revision++
	m.releaseLimits(run, now)
}

// begin makes a queued run Running and due.
func (m *Memory) begin(run *memoryRun, now time.Time) {
	run.row.Phase, run.row.NextAt = runtype.Running, now
	m.schedule(run)
	m.sendWake(run.row.ID)
}

// Send stores a signal for a run. See Store.
func (m *Memory) Send(ctx context.Context, id string, s runtype.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[id]
	switch {
	case run == nil:
		return ErrNotFound
	case run.hasSignal(s.ID):
		return nil
	case run.row.Phase.Final():
		return ErrFinal
	case len(run.unread) >= MaxUnread:
		return QueueFull.Errorf("run %s has %d unread signals", id, MaxUnread)
	}
	m.deliver(run, s, time.Now())
	return nil
}

func (m *Memory) deliver(run *memoryRun, s runtype.Signal, now time.Time) {
	if run.hasSignal(s.ID) {
		return
	}
	s.Payload = bytes.Clone(s.Payload)
	run.unread = append(run.unread, s)
	run.ids = append(run.ids, s.ID)
	if over := len(run.ids) - MaxSignalIDs; over > 0 {
		run.ids = slices.Delete(run.ids, 0, over)
	}
	run.row.Mail++
	if run.worker == nil {
		run.row.NextAt = now
		m.schedule(run)
	}
	m.sendWake(run.row.ID)
}

func (run *memoryRun) hasSignal(id string) bool {
	return slices.Contains(run.ids, id) || slices.ContainsFunc(run.unread, func(s runtype.Signal) bool { return s.ID == id })
}

// sendWake sends a wake-up. It never blocks: if the channel is full, the next wake-up has the id ""
// (any run).
func (m *Memory) sendWake(id string) {
	if m.wakeDropped {
		id = ""
	}
	select {
	case m.wake <- id:
		m.wakeDropped = false
	default:
		m.wakeDropped = true
	}
}

// Edit lets a test change the row and the records of every stored run.
func (m *Memory) Edit(edit func(row *runtype.Run, records []*runtype.StepRecord)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, run := range m.order {
		edit(&run.row, run.steps)
		if run.heapAt > 0 {
			m.schedule(run)
		}
	}
}

// Wake delivers wake-ups. See Claimer.
func (m *Memory) Wake() <-chan string { return m.wake }

// put stores the changed records.
func (run *memoryRun) put(r *runtype.Run) {
	for _, s := range r.Changed() {
		at := int(s.Row) - 1
		if at < 0 || at >= len(run.steps) || run.steps[at].Name != s.Name {
			at = run.find(s)
		}
		if at == len(run.steps) {
			run.steps = append(run.steps, new(runtype.StepRecord))
		}
		s.Row = int64(at) + 1
		s.CopyTo(run.steps[at])
	}
}

// find returns the position of a record that has no Row. Usually the record is new, and its
// position is the end.
func (run *memoryRun) find(s *runtype.StepRecord) int {
	n := len(run.steps)
	if n == 0 || s.Ord > run.steps[n-1].Ord {
		return n
	}
	if at := slices.IndexFunc(run.steps, func(known *runtype.StepRecord) bool { return known.Name == s.Name }); at >= 0 {
		return at
	}
	return n
}

// load returns a copy of a run. The caller may change everything in it.
func (run *memoryRun) load() *runtype.Run {
	r := new(runtype.Run)
	*r = run.row.CopyRow()
	r.Input, r.Labels, r.Limits = bytes.Clone(run.row.Input), maps.Clone(run.row.Labels), slices.Clone(run.row.Limits)
	if len(run.steps) > 0 {
		records := make([]*runtype.StepRecord, len(run.steps), len(run.steps)+4)
		for i, s := range run.steps {
			records[i] = new(runtype.StepRecord)
			s.CopyTo(records[i])
		}
		r.Restore(records)
	}
	return r
}

func (run *memoryRun) signals() []runtype.Signal {
	list := slices.Clone(run.unread)
	for i := range list {
		list[i].Payload = bytes.Clone(list[i].Payload)
	}
	return list
}

// PutDefinition stores a definition. See Definitions.
func (m *Memory) PutDefinition(ctx context.Context, d Definition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.definitions[d.Hash]; !known {
		d.Data, d.Source = bytes.Clone(d.Data), bytes.Clone(d.Source)
		m.definitions[d.Hash] = d
	}
	return nil
}

// Definition returns a definition by its hash. ErrNotFound.
func (m *Memory) Definition(ctx context.Context, hash string) (Definition, error) {
	if err := ctx.Err(); err != nil {
		return Definition{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.definitions[hash]
	if !ok {
		return Definition{}, ErrNotFound
	}
	d.Data, d.Source = bytes.Clone(d.Data), bytes.Clone(d.Source)
	return d, nil
}

// Expired returns finished runs that the policy does not keep any more. See Retainer.
func (m *Memory) Expired(ctx context.Context, now time.Time, policy func(flow string) runtype.Retention, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var old []*memoryRun
	for _, subject := range m.subjects {
		var ended []*memoryRun
		for _, run := range subject.runs {
			if run.row.Phase.Final() {
				ended = append(ended, run)
			}
		}
		slices.SortFunc(ended, func(a, b *memoryRun) int {
			return cmp.Or(b.row.EndedAt.Compare(a.row.EndedAt), cmp.Compare(b.number, a.number))
		})
		for rank, run := range ended {
			if parent := m.runs[run.row.Parent]; parent != nil && !parent.row.Phase.Final() {
				continue // child of a run that has not ended
			}
			if !policy(run.row.Flow).Keeps(now, run.row.EndedAt, rank) {
				old = append(old, run)
			}
		}
	}
	slices.SortFunc(old, func(a, b *memoryRun) int {
		return cmp.Or(a.row.EndedAt.Compare(b.row.EndedAt), cmp.Compare(a.number, b.number))
	})
	if limit > 0 && len(old) > limit {
		old = old[:limit]
	}
	ids := make([]string, len(old))
	for i, run := range old {
		ids[i] = run.row.ID
	}
	return ids, nil
}

// Remove deletes finished runs. See Retainer.
func (m *Memory) Remove(ctx context.Context, ids []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		run := m.runs[id]
		if run == nil || !run.row.Phase.Final() {
			continue
		}
		delete(m.runs, id)
		subject := run.subject
		subject.runs = slices.DeleteFunc(subject.runs, func(other *memoryRun) bool { return other == run })
		if len(subject.runs) == 0 {
			delete(m.subjects, run.row.Subject)
		}
		*run = memoryRun{number: run.number, removed: true}
		m.removedCount++
	}
	if m.removedCount > len(m.order)/2 {
		m.order = slices.DeleteFunc(m.order, func(run *memoryRun) bool { return run.removed })
		m.log.compact()
		m.removedCount = 0
	}
	return nil
}

func parseCursor(cursor string) (int64, error) {
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n < 0 {
		return 0, runtype.InputInvalid.Errorf("cursor %q is not from an earlier answer", cursor)
	}
	return n, nil
}
