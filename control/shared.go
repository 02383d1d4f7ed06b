package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"
)

// DefaultResync is the interval in which every cached item is handed to the handlers again.
const DefaultResync = 10 * time.Hour

// SharedOptions are the options of a Shared; the zero value is usable.
type SharedOptions[T any] struct {
	Name    string                      // name of the source, for logs and metrics
	Indexes map[string]func(T) []string // named indexes of the cache; the functions must not change T
	Copy    func(T) T                   // nil: T's method Copy() T, or assignment if T holds no references
	Resync  *time.Duration              // nil: DefaultResync; 0: never
	Metrics Metrics                     // nil: none
	Log     *slog.Logger                // nil: slog.Default
}

// Event is a change of an item. Old and New are copies; Old is zero if Created is set, New
// if Deleted is set.
type Event[T any] struct {
	Key      string
	Old, New T
	Created  bool // the item did not exist before
	Deleted  bool // the item does not exist any more
	Resync   bool // nothing changed; Old and New are equal
}

// Shared is one watch and one cache of a source for any number of handlers.
type Shared[T any] struct {
	source  Source[T]
	name    string
	resync  time.Duration
	metrics Metrics
	log     *slog.Logger
	cache   *Cache[T]

	mu       sync.Mutex // held while a change goes to cache and mailboxes, so that all get the same order
	boxes    map[*mailbox[T]]func(context.Context, Event[T])
	running  context.Context // nil while it does not run
	handlers sync.WaitGroup
}

// NewShared returns a Shared; Run starts it. It panics if a T cannot be copied: that is a
// programming error.
func NewShared[T any](source Source[T], o SharedOptions[T]) *Shared[T] {
	if o.Copy == nil {
		byDefault, ok := copier[T]()
		if !ok {
			panic(fmt.Sprintf("control: %s holds references; give it a method Copy or set SharedOptions.Copy", reflect.TypeFor[T]()))
		}
		o.Copy = byDefault
	}
	resync := DefaultResync
	if o.Resync != nil {
		resync = *o.Resync
	}
	log := orDefault(o.Log)
	return &Shared[T]{source: source, name: o.Name, resync: resync, metrics: orNoMetrics(o.Metrics), log: log,
		cache: newCache(o.Name, o.Copy, o.Indexes, log), boxes: map[*mailbox[T]]func(context.Context, Event[T]){}}
}

// Cache returns the cache; it is empty until Run.
func (s *Shared[T]) Cache() *Cache[T] { return s.cache }

// Handle adds a handler. It is called from a goroutine of its own, one event after
// another. While it is busy, changes of one key are merged into one event from the oldest
// to the newest state; a deletion is not merged with later changes. A handler that is
// added late gets an event with Created for each existing item. A panic is logged and ends
// only that call. The context of the handler ends with Run. remove removes the handler; it
// may still be busy with one event.
func (s *Shared[T]) Handle(h func(context.Context, Event[T])) (remove func()) {
	box := newMailbox[T]()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boxes[box] = h
	for _, item := range s.cache.snapshot() {
		box.put(notice[T]{key: item.Key, next: &item})
	}
	if s.running != nil {
		s.serve(box, h)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.boxes, box)
		box.close()
	}
}

// Run lists and watches until the context ends. It returns when all its goroutines have
// ended: it waits for busy handlers. It may be called once.
func (s *Shared[T]) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running != nil {
		s.mu.Unlock()
		return errors.New("control: the watch of " + s.name + " was started twice")
	}
	s.running = ctx
	for box, h := range s.boxes {
		s.serve(box, h)
	}
	s.mu.Unlock()
	if s.resync > 0 {
		s.handlers.Go(func() { s.resyncs(ctx) })
	}
	s.follow(ctx)
	s.mu.Lock()
	for box := range s.boxes {
		box.close()
	}
	s.mu.Unlock()
	s.handlers.Wait()
	return nil
}

func (s *Shared[T]) serve(box *mailbox[T], h func(context.Context, Event[T])) {
	ctx := s.running
	if ctx.Err() != nil {
		return
	}
	s.handlers.Go(func() {
		for {
			n, ok := box.get()
			if !ok || ctx.Err() != nil {
				return
			}
			err := guarded("handler of "+s.name, func() { h(ctx, s.event(n)) })
			if err != nil {
				s.log.Error("a handler failed", "source", s.name, "key", n.key, "error", err)
			}
		}
	})
}

func (s *Shared[T]) event(n notice[T]) Event[T] {
	e := Event[T]{Key: n.key, Created: n.old == nil, Deleted: n.next == nil, Resync: n.resync}
	if n.old != nil {
		e.Old = s.cache.copyOf(n.old.Value)
	}
	if n.next != nil {
		e.New = s.cache.copyOf(n.next.Value)
	}
	return e
}

func (s *Shared[T]) resyncs(ctx context.Context) {
	ticker := time.NewTicker(s.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.mu.Lock()
			for _, item := range s.cache.snapshot() {
				s.notify(notice[T]{key: item.Key, old: &item, next: &item, resync: true})
			}
			s.mu.Unlock()
		}
	}
}

// follow lists, then watches from that position. After a break it watches again from the
// last position, after a gap it lists again.
func (s *Shared[T]) follow(ctx context.Context) {
	position, listed, breaks := "", false, 0
	for lists := 0; ctx.Err() == nil; {
		var err error
		if !listed {
			if lists++; lists > 1 {
				s.metrics.Relist(s.name)
			}
			position, err = s.list(ctx)
			listed = err == nil
		}
		if listed {
			var moved bool
			moved, err = s.watch(ctx, &position)
			if moved {
				breaks = 0
			}
			listed = !errors.Is(err, ErrGap)
		}
		if ctx.Err() != nil {
			return
		}
		breaks++
		delay := breakDelay(breaks, rand.Float64())
		s.log.Info("the watch broke", "source", s.name, "again", delay, "list", !listed, "error", err)
		pause(ctx, delay)
	}
}

func (s *Shared[T]) list(ctx context.Context) (position string, err error) {
	panicked := guarded("list of "+s.name, func() {
		var items []Item[T]
		if items, position, err = s.source.List(ctx); err == nil {
			s.replace(items)
		}
	})
	return position, cmp.Or(panicked, err)
}

// replace replaces the contents of the cache by a list, and notifies the handlers of the
// differences.
func (s *Shared[T]) replace(items []Item[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := make(map[string]bool, len(items))
	for _, item := range items {
		present[item.Key] = true
		s.put(item)
	}
	for _, item := range s.cache.snapshot() {
		if !present[item.Key] {
			s.remove(item.Key, "")
		}
	}
	if !s.cache.Synced() {
		close(s.cache.synced)
	}
}

// watch applies changes until the watch breaks. It reports whether there were any.
func (s *Shared[T]) watch(ctx context.Context, position *string) (moved bool, err error) {
	panicked := guarded("watch of "+s.name, func() {
		for change, failure := range s.source.Watch(ctx, *position) {
			if failure != nil {
				err = failure
				return
			}
			s.apply(change)
			*position, moved = change.Version, true
		}
	})
	return moved, cmp.Or(panicked, err)
}

func (s *Shared[T]) apply(c Change[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.Type {
	case Put:
		s.put(c.Item)
	case Delete:
		s.remove(c.Item.Key, c.Item.Version)
	}
}

func (s *Shared[T]) put(item Item[T]) {
	item.Value = s.cache.copyOf(item.Value) // the source may keep using its value
	if old, had, changed := s.cache.put(item); changed {
		n := notice[T]{key: item.Key, next: &item}
		if had {
			n.old = &old
		}
		s.notify(n)
	}
}

func (s *Shared[T]) remove(key, version string) {
	if old, had := s.cache.remove(key, version); had {
		s.notify(notice[T]{key: key, old: &old})
	}
}

func (s *Shared[T]) notify(n notice[T]) {
	for box := range s.boxes {
		box.put(n)
	}
}

func compareText(a, b string) int { return strings.Compare(a, b) }
