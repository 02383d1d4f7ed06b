package workflow

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// slots limits the attempts at once of a worker, of a flow and of a tenant,
// and lets one suspected step run at a time: those that are not suspected go on beside it.
//
//	take ──▶ has a slot ──▶ give
//	  └──▶ waits, in order ──▶ called: slots are kept for it ──▶ take, or forget
//
// A slot that is free is kept for who has waited longest of those that it
// fits, and only that driver is woken. Several that are free at once go to one
// that wants as many. One that has no use for them any more gives them on: each
// decision of a driver that was told to wait ends with a refusal, which queues
// it or keeps its place, or with forget.
type slots struct {
	mu         sync.Mutex
	limit      int
	used       int // those that are kept for called drivers among them
	byFlow     map[string]int
	byLabel    map[string]int
	label      LabelLimit
	flows      func(string) int // limit of a flow; 0: none
	waiting    map[*driver]*ticket
	queues     map[limitKey]*list.List // of tickets: whoever a share is full for does not keep others back
	last       uint64
	reserved   map[*driver]int // slots that are kept for it
	turnHolder *driver         // it is its turn: it has the one suspected attempt, or may open it
	suspects   []*driver       // wait for their turn, in order
	turns      int             // asked for since nobody had one
	freed      chan struct{}
}

// share is what an attempt counts for beside the worker.
type limitKey struct{ flow, tenant string }

// ticket is a place among those that wait.
type ticket struct {
	driver   *driver
	key      limitKey
	number   uint64
	decision uint64 // of the driver: the newest that was refused
	wants    int    // slots it was refused, less those that are kept for it since
	at       *list.Element
}

func newSlots(limit int, label LabelLimit, flows func(string) int) *slots {
	return &slots{
		limit: limit, label: label, flows: flows, byFlow: map[string]int{}, byLabel: map[string]int{},
		waiting: map[*driver]*ticket{}, queues: map[limitKey]*list.List{}, reserved: map[*driver]int{}, freed: make(chan struct{}, 1),
	}
}

// share of the attempts of a driver. Only its own goroutine may ask.
func (s *slots) limitKey(d *driver) limitKey {
	return limitKey{flow: d.s.run.Flow, tenant: d.s.run.Labels[s.label.Label]}
}

// take gets a slot for an attempt of d, or notes that d waits for one.
func (s *slots) acquire(d *driver) bool {
	of := s.limitKey(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquireLocked(d, of)
}

func (s *slots) acquireLocked(d *driver, of limitKey) bool {
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

func (s *slots) fits(of limitKey) bool {
	if most := s.flows(of.flow); most > 0 && s.byFlow[of.flow] >= most {
		return false
	}
	return s.label.Max <= 0 || of.tenant == "" || s.byLabel[of.tenant] < s.label.Max
}

func (s *slots) count(of limitKey, n int) {
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

// queue puts d behind those that wait; whoever waits already keeps its place.
func (s *slots) queue(d *driver, of limitKey) {
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
	if t.decision != d.decision {
		t.decision, t.wants = d.decision, 0
	}
	t.wants++
}

func (s *slots) unqueue(d *driver) {
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

// give returns slots and wakes who waits for them.
func (s *slots) release(d *driver, n int) {
	if n == 0 {
		return
	}
	of := s.limitKey(d)
	s.mu.Lock()
	s.count(of, -n)
	s.reserveFree()
	s.mu.Unlock()
	s.notifyFreed()
}

// tell says to who claims runs that there may be room.
func (s *slots) notifyFreed() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// call keeps the slots that are free for those that have waited longest, and
// wakes them.
func (s *slots) reserveFree() {
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
		next.driver.wake()
	}
}

// decline gives the slots on that are kept for d; false: none is.
func (s *slots) decline(d *driver, of limitKey) bool {
	n := s.reserved[d]
	if n == 0 {
		return false
	}
	delete(s.reserved, d)
	s.count(of, -n)
	s.reserveFree()
	return true
}

// forget drops a driver that wants no slot any more from those that wait.
func (s *slots) forget(d *driver) {
	of := s.limitKey(d)
	s.mu.Lock()
	waited := s.waiting[d] != nil
	s.unqueue(d)
	s.suspects = slices.DeleteFunc(s.suspects, func(other *driver) bool { return other == d })
	freed := s.decline(d, of)
	s.mu.Unlock()
	if freed || waited {
		s.notifyFreed()
	}
}

// isolate lets d open a suspected attempt, unless it is the turn of another one: who kills
// the process then is known. held slots of d are given for the one it needs.
func (s *slots) isolate(d *driver, held int) bool {
	of := s.limitKey(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turnHolder != nil && s.turnHolder != d {
		s.decline(d, of)
		if !slices.Contains(s.suspects, d) {
			s.suspects = append(s.suspects, d)
			s.turns++
			s.turnHolder.wake() // its turn is shorter now
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

// turn is how long a suspected attempt that was lost so many times stays the only one: all
// suspects share a time that grows with the deaths.
func (s *slots) turn(isolated time.Duration, lost int) time.Duration {
	s.mu.Lock()
	turns := max(s.turns, 1)
	s.mu.Unlock()
	whole := isolated << (2 * min(max(lost-1, 0), 2))
	return max(whole/time.Duration(turns), min(shortestTurn, isolated))
}

// shortestTurn is what a step needs at least to be begun, and to do what kills a process.
const shortestTurn = 50 * time.Millisecond

// together ends the turn of d: it is the turn of the suspect that has waited longest.
func (s *slots) endTurn(d *driver) {
	s.mu.Lock()
	ended := s.turnHolder == d
	if ended {
		s.turnHolder = nil
		if len(s.suspects) > 0 {
			s.turnHolder = s.suspects[0]
			s.suspects = slices.Delete(s.suspects, 0, 1)
			s.turnHolder.wake()
		} else {
			s.turns = 0
		}
	}
	s.mu.Unlock()
	if ended {
		s.notifyFreed()
	}
}

// withdraw ends the turn of a driver that wants none any more, or its waiting for one:
// nobody may give it another meanwhile.
func (s *slots) withdraw(d *driver) {
	s.mu.Lock()
	s.suspects = slices.DeleteFunc(s.suspects, func(other *driver) bool { return other == d })
	s.mu.Unlock()
	s.endTurn(d)
}

// free is how many runs may be claimed.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.limit-s.used-len(s.waiting), 0)
}

// full lists the flows at their limit.
func (s *slots) fullFlows() []string {
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
