package kubestore

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// cache is what the watch and our own writes have told: the newest version of
// each object this process knows of. Versions are numbers that grow, so an
// echo of the watch never undoes an own write. The store's mutex guards it.
type cache struct {
	objects  map[objectKey]*entry
	ids      map[string]*entry
	subjects map[string]*subject
	owned    map[string]map[*entry]struct{} // by worker
	due      dueHeap
	sorted   []*entry // by creation, for lists; unsorted is set when it has to be sorted again
	unsorted bool
	gone     int
	dead     map[objectKey]string // uids of what is known to be deleted, until the watch says so too
	finals   []*entry             // finished ones that are kept whole, the newest
	log      eventLog
}

// keepWhole is how many finished runs are kept with their history: whoever
// follows the events reads it in the moment they end.
const keepWhole = 256

type objectKey struct{ namespace, name string }

// entry is one object, and what follows from it.
type entry struct {
	*object
	key       objectKey
	created   int64 // for lists; with the id it is an order
	write     chan struct{}
	placed    bool   // its place in the queue of its subject is decided
	claimer   string // worker this process gave the run to, with the epoch
	epoch     int64
	asked     time.Time // when its start was asked for
	claimed   bool      // somebody in this process is claiming it right now
	removed   bool
	foreign   bool // somebody else's: known to who asked for it, and to no index
	ended     bool
	slimmed   bool
	told      int64           // newest event in the log
	shard     int64           // events up to this one stand in an object of their own
	delivered map[string]bool // of the outbox

	owner  string // index: cache.owned
	listed bool   // index: cache.sorted
	place  standing
	dueAt  int64
	heapAt int
}

// standing is how a run counts for its subject.
type standing int

const (
	standsNot standing = iota
	standsActive
	standsQueued
)

// subject counts the runs that take or want its slot.
type subject struct {
	runs   map[*entry]struct{}
	active int
	queued int
}

func newCache() cache {
	return cache{objects: map[objectKey]*entry{}, ids: map[string]*entry{}, subjects: map[string]*subject{}, owned: map[string]map[*entry]struct{}{}, dead: map[objectKey]string{}}
}

// learn takes an object in if it is newer than what is known, and gives its
// entry. s.mu is held.
func (s *Store) learn(o *object) *entry {
	key := objectKey{o.namespace, o.name}
	if !s.serves(o.namespace, o.subject()) {
		return &entry{object: o, key: key, write: make(chan struct{}, 1), foreign: true}
	}
	e := s.cache.objects[key]
	switch {
	case e == nil && s.cache.dead[key] == o.uid: // the watch is behind its deletion
		return &entry{object: o, key: key, write: make(chan struct{}, 1), removed: true}
	case e == nil:
		e = &entry{key: key, write: make(chan struct{}, 1)}
	case e.version >= o.version:
		return e
	case e.uid != o.uid: // deleted and created again under the same name
		write := e.write
		s.unindex(e)
		e = &entry{key: key, write: write}
	}
	s.cache.objects[key] = e
	news := e.object != nil && (o.spec.Mail > e.spec.Mail || e.phase() == workflow.Queued && o.phase() == workflow.Running)
	slim := e.slimmed
	e.object, e.slimmed = o, false
	s.changed(e)
	if slim {
		e.slim()
	}
	if (news || s.o.Client) && e.id() != "" {
		s.hint(e.id())
	}
	return e
}

// changed brings every index up to date with an entry whose object is new or was
// edited. s.mu is held.
func (s *Store) changed(e *entry) {
	if e.foreign {
		return
	}
	c := &s.cache
	if e.accepted() && e.runID == "" { // it was adopted
		e.runID = e.status.ID
	}
	if e.id() != "" && e.accepted() {
		c.ids[e.id()] = e
		if !e.listed {
			d := &reader{}
			e.listed, e.created = true, d.time(e.createdText()).UnixNano()
			if n := len(c.sorted); n > 0 && c.sorted[n-1].after(e) {
				c.unsorted = true
			}
			c.sorted = append(c.sorted, e)
		}
	}
	s.stand(e)
	s.own(e)
	s.schedule(e)
	c.log.record(e)
	if e.phase().Final() && !e.ended {
		e.ended = true
		c.finals = append(c.finals, e)
		if len(c.finals) > keepWhole {
			c.finals[0].slim()
			c.finals = append(c.finals[:0], c.finals[1:]...)
		}
	}
	if len(e.annotations) > 0 || !e.accepted() {
		s.notifyRequests()
	}
	if len(e.status.Outbox) > 0 {
		s.outbox(e)
	}
	s.heal(e.subject())
}

func (o *object) createdText() string { return cmp.Or(o.status.CreatedAt, o.spec.CreatedAt) }

// stand counts the entry for its subject.
func (s *Store) stand(e *entry) {
	name := e.subject()
	sub := s.cache.subjects[name]
	if sub == nil {
		sub = &subject{runs: map[*entry]struct{}{}}
		s.cache.subjects[name] = sub
	}
	sub.runs[e] = struct{}{}
	now := standsNot
	switch {
	case e.removed || !e.accepted() || e.spec.Inline || e.phase().Final():
	case e.phase() == workflow.Queued:
		now = standsQueued
	default:
		now = standsActive
	}
	sub.count(e.place, -1)
	sub.count(now, 1)
	e.place = now
	if e.removed {
		if delete(sub.runs, e); len(sub.runs) == 0 {
			delete(s.cache.subjects, name)
		}
	}
}

func (s *subject) count(place standing, by int) {
	switch place {
	case standsActive:
		s.active += by
	case standsQueued:
		s.queued += by
	}
}

// own files the entry under its owner.
func (s *Store) own(e *entry) {
	owner := e.status.Owner
	if e.removed || e.phase().Final() {
		owner = ""
	}
	if owner == e.owner {
		return
	}
	if old := s.cache.owned[e.owner]; old != nil {
		if delete(old, e); len(old) == 0 {
			delete(s.cache.owned, e.owner)
		}
	}
	e.owner = owner
	if owner != "" {
		if s.cache.owned[owner] == nil {
			s.cache.owned[owner] = map[*entry]struct{}{}
		}
		s.cache.owned[owner][e] = struct{}{}
	}
}

// dueTime is when a run without an owner is due; false: when something happens.
func (e *entry) dueTime() (int64, bool) {
	switch {
	case e.removed || !e.accepted() || e.phase().Final() || e.status.Owner != "":
		return 0, false
	case e.spec.Mail > e.status.Seen:
		return 1, true // mail nobody has seen: at once, before what waits for time
	case e.phase() == workflow.Queued:
		return 0, false
	case e.status.NextAt == "":
		return 0, false
	}
	d := &reader{}
	return d.time(e.status.NextAt).UnixNano(), true
}

// schedule puts a run nobody works on where Claim finds it.
func (s *Store) schedule(e *entry) {
	if s.scheduleQuietly(e) {
		s.hint(e.id()) // the soonest has changed: whoever waits for it waits for too long
	}
}

// scheduleQuietly tells whether the entry is the soonest now, and was not before.
func (s *Store) scheduleQuietly(e *entry) bool {
	at, due := e.dueTime()
	due = due && !e.claimed
	switch {
	case !due && e.heapAt > 0:
		heap.Remove(&s.cache.due, e.heapAt-1)
	case due && e.heapAt > 0 && e.dueAt != at:
		e.dueAt = at
		heap.Fix(&s.cache.due, e.heapAt-1)
	case due && e.heapAt == 0:
		e.dueAt = at
		heap.Push(&s.cache.due, e)
	default:
		return false
	}
	return due && s.cache.due.entries[0] == e
}

// forget takes an object out that was deleted at a version. s.mu is held.
func (s *Store) forget(namespace, name string, version uint64) {
	e := s.cache.objects[objectKey{namespace, name}]
	if e == nil || e.version > version && version > 0 {
		return
	}
	s.cache.dead[e.key] = e.uid
	s.unindex(e)
	s.heal(e.subject())
	s.vacate(namespace, e.subject())
}

func (s *Store) unindex(e *entry) {
	c := &s.cache
	e.removed = true
	delete(c.objects, e.key)
	if c.ids[e.id()] == e {
		delete(c.ids, e.id())
	}
	s.stand(e)
	s.own(e)
	s.schedule(e)
	if e.listed {
		c.gone++
	}
	if c.gone > len(c.sorted)/2 {
		c.sorted = slices.DeleteFunc(c.sorted, func(e *entry) bool { return e.removed })
		c.gone = 0
	}
	c.log.dropped(e)
}

// slim keeps of a finished run what lists show: its history and records are
// read when somebody asks for them.
func (e *entry) slim() {
	for name, step := range e.status.Steps {
		switch workflow.StepPhase(step.Phase) {
		case workflow.StepFailed, workflow.StepRunning, workflow.StepRetrying, workflow.StepWaiting:
		default:
			delete(e.status.Steps, name)
		}
	}
	e.slimmed = true
	e.status.Events, e.status.Consumed = nil, nil
	e.spec.Signals = nil
}

// inOrder gives the runs in order of creation. s.mu is held.
func (c *cache) inOrder() []*entry {
	if c.unsorted {
		slices.SortStableFunc(c.sorted, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.id(), b.id()))
		})
		c.unsorted = false
	}
	return c.sorted
}

func (e *entry) after(other *entry) bool {
	return cmp.Or(cmp.Compare(e.created, other.created), cmp.Compare(e.id(), other.id())) > 0
}

// lock makes the caller the only one of this process that writes the object.
func (e *entry) lock(done <-chan struct{}) bool {
	select {
	case e.write <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (e *entry) unlock() { <-e.write }

// dueHeap holds the runs without owner by due time; entries know their place.
type dueHeap struct{ entries []*entry }

func (h *dueHeap) Len() int { return len(h.entries) }
func (h *dueHeap) Less(i, j int) bool {
	a, b := h.entries[i], h.entries[j]
	if a.dueAt != b.dueAt {
		return a.dueAt < b.dueAt
	}
	return b.after(a)
}
func (h *dueHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.entries[i].heapAt, h.entries[j].heapAt = i+1, j+1
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	h.entries = append(h.entries, e)
	e.heapAt = len(h.entries)
}
func (h *dueHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	e.heapAt = 0
	return e
}

// soonest is the first due time behind now among runs without owner.
func (h *dueHeap) soonest(now time.Time) int64 {
	best := int64(math.MaxInt64)
	if len(h.entries) > 0 && h.entries[0].dueAt > now.UnixNano() {
		return h.entries[0].dueAt
	}
	for _, e := range h.entries {
		if e.dueAt > now.UnixNano() {
			best = min(best, e.dueAt)
		}
	}
	return best
}
