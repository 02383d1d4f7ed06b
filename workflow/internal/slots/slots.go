// Package slots limits the attempts that a worker executes at the same time.
package slots

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// Holder is the driver of one run, as the slots see it. Only its goroutine may change it.
type Holder struct {
	Flow     string
	Tenant   string
	Decision uint64 // number of its newest decision
	Wake     func() // makes it decide again
}

func (h *Holder) key() limitKey { return limitKey{flow: h.Flow, tenant: h.Tenant} }

// Pool limits the concurrent attempts of a worker, of a flow and of a tenant. It also lets only
// one suspected step run at a time; steps that are not suspected run beside it.
//
//	Acquire ──▶ has a slot ──▶ Release
//	   └──▶ waits in a queue ──▶ slots are reserved for it ──▶ Acquire, or Forget
//
// A free slot is reserved for the driver that has waited longest and that may use it; only that
// driver is woken. A driver that wants several slots gets several. If it does not need them any
// more, it passes them on: each decision of a waiting driver ends with a refusal, which queues it
// or keeps its position, or with Forget.
type Pool struct {
	mu         sync.Mutex
	limit      int
	used       int // includes the reserved slots
	byFlow     map[string]int
	byLabel    map[string]int
	perTenant  int              // limit of a tenant; 0: none
	flows      func(string) int // limit of a flow; 0: none
	waiting    map[*Holder]*ticket
	queues     map[limitKey]*list.List // of tickets; a driver whose limit is reached does not block the others
	last       uint64
	reserved   map[*Holder]int // slots that are reserved for a driver
	turnHolder *Holder         // driver that has the only suspected attempt, or may open it
	suspects   []*Holder       // drivers that wait for their turn, in order
	turns      int             // turns that were requested since the last time that no driver had one
	Freed      chan struct{}   // receives when a slot may be free
}

// limitKey names the limits that apply to an attempt besides that of the worker.
type limitKey struct{ flow, tenant string }

// ticket is a position in the queue for slots.
type ticket struct {
	driver   *Holder
	key      limitKey
	number   uint64
	decision uint64 // newest decision of the driver that was refused a slot
	wants    int    // slots that it was refused, minus those that were reserved for it since then
	at       *list.Element
}

// New returns a pool of limit slots. At most perTenant of them are used by one tenant (0: no limit), and
// flows returns the limit of a flow (0: no limit).
func New(limit, perTenant int, flows func(string) int) *Pool {
	return &Pool{
		limit: limit, perTenant: perTenant, flows: flows, byFlow: map[string]int{}, byLabel: map[string]int{},
		waiting: map[*Holder]*ticket{}, queues: map[limitKey]*list.List{}, reserved: map[*Holder]int{}, Freed: make(chan struct{}, 1),
	}
}

// Acquire gets a slot for an attempt of d, or queues d.
func (s *Pool) Acquire(d *Holder) bool {
	of := d.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquireLocked(d, of)
}

func (s *Pool) acquireLocked(d *Holder, of limitKey) bool {
	switch {
	case s.reserved[d] > 0:
		if s.reserved[d]--; s.reserved[d] == 0 {
			delete(s.reserved, d)
		}
		return true
	case s.used < s.limit && s.fits(of):
		s.count(of, 1)
		return true
	}
	s.queue(d, of)
	return false
}

func (s *Pool) fits(of limitKey) bool {
	if most := s.flows(of.flow); most > 0 && s.byFlow[of.flow] >= most {
		return false
	}
	return s.perTenant <= 0 || of.tenant == "" || s.byLabel[of.tenant] < s.perTenant
}

func (s *Pool) count(of limitKey, n int) {
	s.used += n
	if s.byFlow[of.flow] += n; s.byFlow[of.flow] == 0 {
		delete(s.byFlow, of.flow)
	}
	if of.tenant != "" {
		if s.byLabel[of.tenant] += n; s.byLabel[of.tenant] == 0 {
			delete(s.byLabel, of.tenant)
		}
	}
}

// queue appends d to the queue. A driver that waits already keeps its position.
func (s *Pool) queue(d *Holder, of limitKey) {
	t := s.waiting[d]
	if t == nil {
		q := s.queues[of]
		if q == nil {
			q = list.New()
			s.queues[of] = q
		}
		s.last++
		t = &ticket{driver: d, key: of, number: s.last}
		t.at = q.PushBack(t)
		s.waiting[d] = t
	}
	if t.decision != d.Decision {
		t.decision, t.wants = d.Decision, 0
	}
	t.wants++
}

func (s *Pool) unqueue(d *Holder) {
	t := s.waiting[d]
	if t == nil {
		return
	}
	delete(s.waiting, d)
	q := s.queues[t.key]
	if q.Remove(t.at); q.Len() == 0 {
		delete(s.queues, t.key)
	}
}

// Release returns slots and wakes drivers that wait for them.
func (s *Pool) Release(d *Holder, n int) {
	if n == 0 {
		return
	}
	of := d.key()
	s.mu.Lock()
	s.count(of, -n)
	s.reserveFree()
	s.mu.Unlock()
	s.notifyFreed()
}

// notifyFreed tells the claim loop that a slot may be free.
func (s *Pool) notifyFreed() {
	select {
	case s.Freed <- struct{}{}:
	default:
	}
}

// reserveFree reserves the free slots for the drivers that have waited longest, and wakes them.
func (s *Pool) reserveFree() {
	for s.used < s.limit {
		var next *ticket
		for of, q := range s.queues {
			if t := q.Front().Value.(*ticket); (next == nil || t.number < next.number) && s.fits(of) {
				next = t
			}
		}
		if next == nil {
			return
		}
		if next.wants--; next.wants <= 0 {
			s.unqueue(next.driver)
		}
		s.count(next.key, 1)
		s.reserved[next.driver]++
		next.driver.Wake()
	}
}

// decline passes on the slots that are reserved for d. It returns false if there are none.
func (s *Pool) decline(d *Holder, of limitKey) bool {
	n := s.reserved[d]
	if n == 0 {
		return false
	}
	delete(s.reserved, d)
	s.count(of, -n)
	s.reserveFree()
	return true
}

// Forget removes a driver that does not want a slot any more from the queue.
func (s *Pool) Forget(d *Holder) {
	of := d.key()
	s.mu.Lock()
	waited := s.waiting[d] != nil
	s.unqueue(d)
	s.suspects = slices.DeleteFunc(s.suspects, func(other *Holder) bool { return other == d })
	freed := s.decline(d, of)
	s.mu.Unlock()
	if freed || waited {
		s.notifyFreed()
	}
}

// Isolate lets d open a suspected attempt, unless another driver has the turn. So if the process
// dies, the step that killed it is known. d exchanges its held slots for the one that it needs.
func (s *Pool) Isolate(d *Holder, held int) bool {
	of := d.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turnHolder != nil && s.turnHolder != d {
		s.decline(d, of)
		if !slices.Contains(s.suspects, d) {
			s.suspects = append(s.suspects, d)
			s.turns++
			s.turnHolder.Wake() // its turn is shorter now
		}
		return false
	}
	if s.turnHolder == nil {
		s.turns++
	}
	s.turnHolder = d
	if held == 0 {
		return s.acquireLocked(d, of)
	}
	s.count(of, 1-held)
	s.reserveFree()
	return true
}

// Turn returns how long a suspected attempt stays the only one. All suspects share the time all,
// which grows with the number of deaths (lost).
func (s *Pool) Turn(all time.Duration, lost int) time.Duration {
	s.mu.Lock()
	turns := max(s.turns, 1)
	s.mu.Unlock()
	whole := all << (2 * min(max(lost-1, 0), 2))
	return max(whole/time.Duration(turns), min(shortestTurn, all))
}

// shortestTurn is the minimum: a step needs this time to start, and to kill its process if it does.
const shortestTurn = 50 * time.Millisecond

// EndTurn ends the turn of d. The suspect that has waited longest has the next turn.
func (s *Pool) EndTurn(d *Holder) {
	s.mu.Lock()
	ended := s.turnHolder == d
	if ended {
		s.turnHolder = nil
		if len(s.suspects) > 0 {
			s.turnHolder = s.suspects[0]
			s.suspects = slices.Delete(s.suspects, 0, 1)
			s.turnHolder.Wake()
		} else {
			s.turns = 0
		}
	}
	s.mu.Unlock()
	if ended {
		s.notifyFreed()
	}
}

// Withdraw ends the turn of a driver that does not want one any more, or its wait for a turn.
func (s *Pool) Withdraw(d *Holder) {
	s.mu.Lock()
	s.suspects = slices.DeleteFunc(s.suspects, func(other *Holder) bool { return other == d })
	s.mu.Unlock()
	s.EndTurn(d)
}

// Free returns the number of runs that may be claimed.
func (s *Pool) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.limit-s.used-len(s.waiting), 0)
}

// FullFlows lists the flows that have reached their limit.
func (s *Pool) FullFlows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for flow, n := range s.byFlow {
		if most := s.flows(flow); most > 0 && n >= most {
			names = append(names, flow)
		}
	}
	return names
}
