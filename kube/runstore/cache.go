package runstore

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// cache holds the newest known version of each object, from the watch and from our own
// writes. Versions are growing numbers, so a late watch event never replaces an own
// write. The store's mutex guards it.
type cache struct {
	objects  map[objectKey]*entry
	ids      map[string]*entry
	subjects map[string]*subject
	owned    map[string]map[*entry]struct{} // by worker
	due      dueHeap
	sorted   []*entry // by creation, for lists; unsorted: it must be sorted again
	unsorted bool
	removed  int                  // removed entries in sorted
	deleted  map[objectKey]string // uids of deleted objects, until the watch reports the deletion
	finals   []*entry             // the newest finished runs, not trimmed
	log      eventLog
}

// maxUntrimmed is how many finished runs stay in the cache with their history: readers
// of the events ask for it right after a run ends.
const maxUntrimmed = 256

type objectKey struct{ namespace, name string }

// entry is one object with its place in the indexes.
type entry struct {
	*format.Object
	key              objectKey
	created          int64         // sort key of lists, together with the id
	write            chan struct{} // held by the one writer of this process
	slotTaken        bool          // the run is known to hold its slot
	claimer          string        // worker of this process that was given the run, with the epoch
	epoch            int64
	startRequestedAt time.Time // when its start was last requested
	claimed          bool      // this process is claiming it now
	removed          bool
	foreign          bool // not served by this store: in no index
	ended            bool
	trimmed          bool            // see trim
	loggedSeq        int64           // number of the newest event in the log
	movedSeq         int64           // events up to this number are in history objects
	delivered        map[string]bool // keys of the outbox

	owner     string // index: cache.owned
	listed    bool   // index: cache.sorted
	slotState slotState
	dueAt     int64
	heapIndex int
}

// slotState is how a run counts for its subject.
type slotState int

const (
	slotNone slotState = iota
	slotActive
	slotQueued
)

// subject counts the runs that hold its slot or are queued for it.
type subject struct {
	runs   map[*entry]struct{}
	active int
	queued int
}

func newCache() cache {
	return cache{objects: map[objectKey]*entry{}, ids: map[string]*entry{}, subjects: map[string]*subject{}, owned: map[string]map[*entry]struct{}{}, deleted: map[objectKey]string{}}
}

// upsert stores an object in the cache if it is newer than the known version, and
// returns its entry. s.mu is held.
func (s *shared) upsert(o *format.Object) *entry {
	key := objectKey{o.Namespace, o.Name}
	if !s.serves(o.Namespace, o.Subject(), o.Operator) {
		return &entry{Object: o, key: key, write: make(chan struct{}, 1), foreign: true}
	}
	e := s.cache.objects[key]
	switch {
	case e == nil && s.cache.deleted[key] == o.UID: // the watch is behind its deletion
		return &entry{Object: o, key: key, write: make(chan struct{}, 1), removed: true}
	case e == nil:
		e = &entry{key: key, write: make(chan struct{}, 1)}
	case e.Version >= o.Version:
		return e
	case e.UID != o.UID: // deleted and created again under the same name
		write := e.write
		s.unindex(e)
		e = &entry{key: key, write: write}
	}
	s.cache.objects[key] = e
	wake := e.Object != nil && (o.Spec.Mail > e.Spec.Mail || e.Phase() == runtype.Queued && o.Phase() == runtype.Running)
	trimmed := e.trimmed
	e.Object, e.trimmed = o, false
	s.reindex(e)
	if trimmed {
		e.trim()
	}
	if (wake || s.o.Client) && e.ID() != "" {
		s.notify(e.ID())
	}
	return e
}

// reindex updates every index for an entry whose object is new or was edited. s.mu is
// held.
func (s *shared) reindex(e *entry) {
	if e.foreign {
		return
	}
	c := &s.cache
	if e.Accepted() && e.RunID == "" { // it was adopted
		e.RunID = e.Status.ID
	}
	if e.ID() != "" && e.Accepted() {
		c.ids[e.ID()] = e
		if !e.listed {
			d := &format.Decoder{}
			e.listed, e.created = true, d.Time(e.CreatedText()).UnixNano()
			if n := len(c.sorted); n > 0 && c.sorted[n-1].after(e) {
				c.unsorted = true
			}
			c.sorted = append(c.sorted, e)
		}
	}
	s.indexSubject(e)
	s.indexOwner(e)
	s.schedule(e)
	c.log.record(e)
	if e.Phase().Final() && !e.ended {
		e.ended = true
		c.finals = append(c.finals, e)
		if len(c.finals) > maxUntrimmed {
			c.finals[0].trim()
			c.finals = append(c.finals[:0], c.finals[1:]...)
		}
	}
	if len(e.Annotations) > 0 || !e.Accepted() {
		s.starter.notifyRequests()
	}
	if len(e.Status.Outbox) > 0 {
		s.outbox.retryOutbox(e)
	}
	s.slots.repairSlot(e.Subject())
}

// indexSubject counts the entry for its subject.
func (s *shared) indexSubject(e *entry) {
	name := e.Subject()
	sub := s.cache.subjects[name]
	if sub == nil {
		sub = &subject{runs: map[*entry]struct{}{}}
		s.cache.subjects[name] = sub
	}
	sub.runs[e] = struct{}{}
	now := slotNone
	switch {
	case e.removed || !e.Accepted() || e.Spec.Inline || e.Phase().Final():
	case e.Phase() == runtype.Queued:
		now = slotQueued
	default:
		now = slotActive
	}
	sub.count(e.slotState, -1)
	sub.count(now, 1)
	e.slotState = now
	if e.removed {
		if delete(sub.runs, e); len(sub.runs) == 0 {
			delete(s.cache.subjects, name)
		}
	}
}

func (s *subject) count(state slotState, by int) {
	switch state {
	case slotActive:
		s.active += by
	case slotQueued:
		s.queued += by
	}
}

// indexOwner files the entry under the worker that owns it.
func (s *shared) indexOwner(e *entry) {
	owner := e.Status.Owner
	if e.removed || e.Phase().Final() {
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

// dueTime returns when a run without an owner is due; false: not before something happens.
func (e *entry) dueTime() (int64, bool) {
	switch {
	case e.removed || !e.Accepted() || e.Phase().Final() || e.Status.Owner != "":
		return 0, false
	case e.Spec.Mail > e.Status.Seen:
		return 1, true // new signals: at once, before runs that wait for a time
	case e.Phase() == runtype.Queued:
		return 0, false
	case e.Status.NextAt == "":
		return 0, false
	}
	d := &format.Decoder{}
	return d.Time(e.Status.NextAt).UnixNano(), true
}

// schedule files a run without an owner under its due time, for Claim.
func (s *shared) schedule(e *entry) {
	if s.scheduleQuietly(e) {
		s.notify(e.ID()) // the soonest due time has changed
	}
}

// scheduleQuietly is schedule without the notification. It reports whether the entry
// has become the soonest.
func (s *shared) scheduleQuietly(e *entry) bool {
	at, due := e.dueTime()
	due = due && !e.claimed
	switch {
	case !due && e.heapIndex > 0:
		heap.Remove(&s.cache.due, e.heapIndex-1)
	case due && e.heapIndex > 0 && e.dueAt != at:
		e.dueAt = at
		heap.Fix(&s.cache.due, e.heapIndex-1)
	case due && e.heapIndex == 0:
		e.dueAt = at
		heap.Push(&s.cache.due, e)
	default:
		return false
	}
	return due && s.cache.due.entries[0] == e
}

// forget removes an object that was deleted at a version; 0: any. s.mu is held.
func (s *shared) forget(namespace, name string, version uint64) {
	e := s.cache.objects[objectKey{namespace, name}]
	if e == nil || e.Version > version && version > 0 {
		return
	}
	s.cache.deleted[e.key] = e.UID
	s.unindex(e)
	s.slots.repairSlot(e.Subject())
	s.slots.forgetSlot(namespace, e.Subject())
}

func (s *shared) unindex(e *entry) {
	c := &s.cache
	e.removed = true
	delete(c.objects, e.key)
	if c.ids[e.ID()] == e {
		delete(c.ids, e.ID())
	}
	s.indexSubject(e)
	s.indexOwner(e)
	s.schedule(e)
	if e.listed {
		c.removed++
	}
	if c.removed > len(c.sorted)/2 {
		c.sorted = slices.DeleteFunc(c.sorted, func(e *entry) bool { return e.removed })
		c.removed = 0
	}
	c.log.dropped(e)
}

// trim reduces a finished run to the fields that lists need. Its history and records
// are read on demand.
func (e *entry) trim() {
	for name, step := range e.Status.Steps {
		switch runtype.StepPhase(step.Phase) {
		case runtype.StepFailed, runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting:
		default:
			delete(e.Status.Steps, name)
		}
	}
	e.trimmed = true
	e.Status.Events, e.Status.Consumed = nil, nil
	e.Spec.Signals = nil
}

// byCreation returns the runs in order of creation. s.mu is held.
func (c *cache) byCreation() []*entry {
	if c.unsorted {
		slices.SortStableFunc(c.sorted, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.ID(), b.ID()))
		})
		c.unsorted = false
	}
	return c.sorted
}

func (e *entry) after(other *entry) bool {
	return cmp.Or(cmp.Compare(e.created, other.created), cmp.Compare(e.ID(), other.ID())) > 0
}

// lock makes the caller the only writer of the object in this process.
func (e *entry) lock(done <-chan struct{}) bool {
	select {
	case e.write <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (e *entry) unlock() { <-e.write }

// dueHeap holds the runs without an owner by due time; heapIndex is an entry's index in
// it plus one.
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
	h.entries[i].heapIndex, h.entries[j].heapIndex = i+1, j+1
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	h.entries = append(h.entries, e)
	e.heapIndex = len(h.entries)
}
func (h *dueHeap) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = nil
	h.entries = h.entries[:last]
	e.heapIndex = 0
	return e
}

// soonest returns the first due time after now among runs without an owner.
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
