package workflow

import "sync"

// slots limits the attempts at once of a worker, of a flow and of a tenant,
// and lets a suspected step run with nothing beside it.
type slots struct {
	mu      sync.Mutex
	limit   int
	used    int
	byFlow  map[string]int
	byLabel map[string]int
	label   LabelLimit
	flows   func(string) int // limit of a flow; 0: none
	waiting map[*driver]struct{}
	sole    *driver // runs alone, or waits until it can
	freed   chan struct{}
}

func newSlots(limit int, label LabelLimit, flows func(string) int) *slots {
	return &slots{limit: limit, label: label, flows: flows, byFlow: map[string]int{}, byLabel: map[string]int{}, waiting: map[*driver]struct{}{}, freed: make(chan struct{}, 1)}
}

// take gets a slot for an attempt of d, or notes that d waits for one.
func (s *slots) take(d *driver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sole != nil && s.sole != d || s.used >= s.limit || !s.fits(d) {
		s.waiting[d] = struct{}{}
		return false
	}
	s.count(d, 1)
	return true
}

func (s *slots) fits(d *driver) bool {
	r := d.s.run
	if most := s.flows(r.Flow); most > 0 && s.byFlow[r.Flow] >= most {
		return false
	}
	tenant := r.Labels[s.label.Label]
	return s.label.Most <= 0 || tenant == "" || s.byLabel[tenant] < s.label.Most
}

func (s *slots) count(d *driver, n int) {
	s.used += n
	if s.byFlow[d.s.run.Flow] += n; s.byFlow[d.s.run.Flow] == 0 {
		delete(s.byFlow, d.s.run.Flow)
	}
	if tenant := d.s.run.Labels[s.label.Label]; tenant != "" {
		s.byLabel[tenant] += n
	}
}

// give returns slots and wakes who waits for one.
func (s *slots) give(d *driver, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.count(d, -n)
	s.wake()
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

func (s *slots) wake() {
	if s.sole != nil {
		s.sole.poke()
		return
	}
	for d := range s.waiting {
		d.poke()
	}
	clear(s.waiting)
}

// forget drops a driver that has ended from those that wait.
func (s *slots) forget(d *driver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, d)
}

// isolate lets d open an attempt alone, once every other attempt has ended.
func (s *slots) isolate(d *driver, held int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sole != nil && s.sole != d {
		s.waiting[d] = struct{}{}
		return false
	}
	s.sole = d
	if s.used > held {
		return false
	}
	s.count(d, 1-held)
	return true
}

// isolated reports that another driver has, or waits for, the worker alone.
func (s *slots) isolated(d *driver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sole != nil && s.sole != d {
		s.waiting[d] = struct{}{}
		return true
	}
	return false
}

// together ends the isolation.
func (s *slots) together(d *driver) {
	s.mu.Lock()
	ended := s.sole == d
	if ended {
		s.sole = nil
		s.wake()
	}
	s.mu.Unlock()
	if !ended {
		return
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// free is how many runs may be claimed.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sole != nil {
		return 0
	}
	return max(s.limit-s.used-len(s.waiting), 0)
}

// full lists the flows at their limit.
func (s *slots) full() []string {
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
