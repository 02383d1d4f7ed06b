package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// script is a source with prepared answers: each list and each watch takes the next one. A
// watch without an answer waits until its context ends.
type script struct {
	mu      sync.Mutex
	lists   []func() ([]Item[int], string, error)
	watches []func(yield func(Change[int], error) bool)
	calls   []string
}

func (s *script) note(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *script) List(context.Context) ([]Item[int], string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("list")
	next := s.lists[0]
	if len(s.lists) > 1 {
		s.lists = s.lists[1:]
	}
	return next()
}

func (s *script) Watch(ctx context.Context, version string) iter.Seq2[Change[int], error] {
	return func(yield func(Change[int], error) bool) {
		s.mu.Lock()
		s.note("watch %s", version)
		var next func(func(Change[int], error) bool)
		if len(s.watches) > 0 {
			next, s.watches = s.watches[0], s.watches[1:]
		}
		s.mu.Unlock()
		if next != nil {
			next(yield)
			return
		}
		<-ctx.Done()
	}
}

func (s *script) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func lists(version string, items ...Item[int]) func() ([]Item[int], string, error) {
	return func() ([]Item[int], string, error) { return items, version, nil }
}

func put(key string, value int, version string) Change[int] {
	return Change[int]{Type: Put, Item: Item[int]{Key: key, Version: version, Value: value}, Version: version}
}

// slowChanges yields a change per second, then an error.
func slowChanges(err error, changes ...Change[int]) func(func(Change[int], error) bool) {
	return func(yield func(Change[int], error) bool) {
		for _, c := range changes {
			time.Sleep(time.Second)
			if !yield(c, nil) {
				return
			}
		}
		yield(Change[int]{}, err)
	}
}

// eventLog records events.
type eventLog struct {
	mu     sync.Mutex
	events []string
}

func (h *eventLog) handle(_ context.Context, e Event[int]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Resync:
		h.events = append(h.events, fmt.Sprintf("%s=%d again", e.Key, e.New))
	case e.Created:
		h.events = append(h.events, fmt.Sprintf("+%s=%d", e.Key, e.New))
	case e.Deleted:
		h.events = append(h.events, fmt.Sprintf("-%s=%d", e.Key, e.Old))
	default:
		h.events = append(h.events, fmt.Sprintf("%s=%d→%d", e.Key, e.Old, e.New))
	}
}

func (h *eventLog) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.events
	h.events = nil
	slices.Sort(out)
	return out
}

func (h *eventLog) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	slices.Sort(want)
	if got := h.take(); !slices.Equal(got, want) {
		t.Fatalf("heard %q, want %q", got, want)
	}
}

// run starts a Shared in a bubble; stop ends it.
func run[T any](t *testing.T, s *Shared[T]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return func() { cancel(); wg.Wait() }
}

func discardLogs() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestListThenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{lists: []func() ([]Item[int], string, error){lists("10", Item[int]{"a", "3", 1}, Item[int]{"b", "9", 1})}}
		src.watches = append(src.watches, slowChanges(errors.New("cut"),
			put("a", 2, "11"),
			put("b", 7, "8"),  // older than the cached item
			put("b", 7, "9"),  // the same
			put("c", 1, "12"), // new
			Change[int]{Type: Delete, Item: Item[int]{Key: "a", Version: "13"}, Version: "13"},
			Change[int]{Type: Delete, Item: Item[int]{Key: "b", Version: "5"}, Version: "14"}, // older than the cached item
			Change[int]{Type: Bookmark, Version: "40"},
		))
		s := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		var h eventLog
		s.Handle(h.handle)
		if s.Cache().Synced() {
			t.Fatal("synced before the first list")
		}
		defer run(t, s)()
		h.expect(t, "+a=1", "+b=1")
		time.Sleep(10 * time.Second)
		h.expect(t, "a=1→2", "+c=1", "-a=2") // b did not change
		if !s.Cache().Synced() {
			t.Fatal("not synced after the list")
		}
		if got := maps.Collect(s.Cache().All()); !maps.Equal(got, map[string]int{"b": 1, "c": 1}) {
			t.Fatalf("cache: %v", got)
		}
		time.Sleep(time.Minute)
		if want := []string{"list", "watch 10", "watch 40"}; !slices.Equal(src.called(), want) {
			t.Fatalf("calls %q, want %q: after a break watch again from the last version, bookmarks included", src.calls, want)
		}
	})
}

func TestGapListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counts{}
		src := &script{lists: []func() ([]Item[int], string, error){
			lists("10", Item[int]{"a", "1", 1}, Item[int]{"b", "2", 1}, Item[int]{"c", "3", 1}),
			lists("50", Item[int]{"a", "1", 1}, Item[int]{"b", "44", 2}, Item[int]{"d", "45", 1}),
		}}
		src.watches = append(src.watches, func(yield func(Change[int], error) bool) {
			time.Sleep(time.Minute)
			yield(Change[int]{}, fmt.Errorf("trimmed: %w", ErrGap))
		})
		s := NewShared(src, SharedOptions[int]{Log: discardLogs(), Metrics: m})
		var h eventLog
		s.Handle(h.handle)
		defer run(t, s)()
		h.expect(t, "+a=1", "+b=1", "+c=1")
		time.Sleep(2 * time.Minute)
		h.expect(t, "b=1→2", "-c=1", "+d=1")
		if want := []string{"list", "watch 10", "list", "watch 50"}; !slices.Equal(src.called(), want) || m.relists != 1 {
			t.Fatalf("calls %q, %d relists; want %q and 1", src.calls, m.relists, want)
		}
	})
}

func TestDelaysOfABrokenSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		src := &script{lists: []func() ([]Item[int], string, error){func() ([]Item[int], string, error) {
			at = append(at, time.Now())
			if len(at) == 5 {
				panic("a source that panics")
			}
			return nil, "", errors.New("no answer")
		}}}
		s := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		stop := run(t, s)
		time.Sleep(10 * time.Minute)
		stop()
		if len(at) < 20 || len(at) > 60 {
			t.Fatalf("%d lists in 10 minutes; want the delay to grow to 30 s at most", len(at))
		}
		for i := range at[1:] {
			gap := at[i+1].Sub(at[i])
			if gap < 200*time.Millisecond || gap > 30*time.Second || i > 10 && gap < 15*time.Second {
				t.Fatalf("delay %d: %s", i+1, gap)
			}
		}
		if s.Cache().Synced() {
			t.Fatal("synced without a list")
		}
	})
}

func TestProgressMakesTheDelayShortAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{lists: []func() ([]Item[int], string, error){lists("1")}}
		var at []time.Time
		for n := range 30 {
			src.watches = append(src.watches, func(yield func(Change[int], error) bool) {
				at = append(at, time.Now())
				if n >= 10 {
					yield(Change[int]{Type: Bookmark, Version: fmt.Sprint(n)}, nil)
				}
			})
		}
		stop := run(t, NewShared(src, SharedOptions[int]{Log: discardLogs()}))
		time.Sleep(time.Hour)
		stop()
		if len(at) != 30 {
			t.Fatalf("%d watches", len(at))
		}
		if gap := at[10].Sub(at[9]); gap < 15*time.Second {
			t.Errorf("after ten fruitless watches the delay is %s", gap)
		}
		if gap := at[20].Sub(at[19]); gap > 400*time.Millisecond {
			t.Errorf("after a watch that moved the delay is %s", gap)
		}
	})
}

func TestResync(t *testing.T) {
	for _, c := range []struct {
		resync *time.Duration
		after  time.Duration
		want   []string
	}{
		{nil, 10*time.Hour + 1, []string{"a=1 again", "b=2 again"}},
		{nil, 10*time.Hour - 1, nil},
		{new(time.Minute), time.Minute + 1, []string{"a=1 again", "b=2 again"}},
		{new(time.Duration(0)), 1000 * time.Hour, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &script{lists: []func() ([]Item[int], string, error){lists("1", Item[int]{"a", "1", 1}, Item[int]{"b", "1", 2})}}
			s := NewShared(src, SharedOptions[int]{Log: discardLogs(), Resync: c.resync})
			var h eventLog
			s.Handle(h.handle)
			defer run(t, s)()
			h.expect(t, "+a=1", "+b=2")
			time.Sleep(c.after)
			h.expect(t, c.want...)
			if !slices.Equal(src.called(), []string{"list", "watch 1"}) {
				t.Fatalf("calls %q; a resync must not ask the source", src.calls)
			}
		})
	}
}

func TestASlowHandlerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := make(chan Change[int])
		src := &script{lists: []func() ([]Item[int], string, error){lists("1")}}
		src.watches = append(src.watches, func(yield func(Change[int], error) bool) {
			for c := range feed {
				if !yield(c, nil) {
					return
				}
			}
		})
		s := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		var fast, slow eventLog
		release := make(chan struct{})
		s.Handle(func(ctx context.Context, e Event[int]) { <-release; slow.handle(ctx, e) })
		s.Handle(fast.handle)
		stop := run(t, s)
		for n := range 1000 {
			feed <- put("a", n, fmt.Sprint(n+2))
			if n == 0 {
				synctest.Wait() // the slow handler has begun with this one
			}
		}
		synctest.Wait()
		if got := fast.take(); !slices.ContainsFunc(got, func(e string) bool { return strings.HasSuffix(e, "999") }) {
			t.Fatalf("the fast handler did not hear of the last change while the slow one was busy: %q", got)
		}
		close(release)
		slow.expect(t, "+a=0", "a=0→999") // one event for all changes meanwhile
		close(feed)
		stop()
	})
}

func TestLateAndRemovedHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := make(chan Change[int])
		src := &script{lists: []func() ([]Item[int], string, error){lists("1", Item[int]{"a", "1", 1})}}
		src.watches = append(src.watches, func(yield func(Change[int], error) bool) {
			for c := range feed {
				yield(c, nil)
			}
		})
		s := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		stop := run(t, s)
		var late eventLog
		remove := s.Handle(late.handle)
		s.Handle(func(context.Context, Event[int]) { panic("a handler that panics") })
		late.expect(t, "+a=1")
		feed <- put("a", 2, "2")
		late.expect(t, "a=1→2")
		remove()
		feed <- put("a", 3, "3")
		late.expect(t)
		close(feed)
		stop()
		var after eventLog
		s.Handle(after.handle)
		after.expect(t)
		if err := s.Run(t.Context()); err == nil {
			t.Fatal("Run twice succeeded")
		}
	})
}

// The joined events of a mailbox lead to the same state as the single ones, and never join a deleted object with a new one.
func TestMailboxJoins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMailbox[int]()
		truth, view := map[string]*Item[int]{}, map[string]*Item[int]{}
		life, seen := map[string]int{}, 0
		hear := func() {
			if len(m.pending) == 0 || !slices.ContainsFunc(m.order, func(k string) bool { return len(m.pending[k]) > 0 }) {
				return
			}
			n, _ := m.get()
			seen++
			if (n.old == nil) != (view[n.key] == nil) || n.old != nil && n.old.Value != view[n.key].Value {
				t.Fatalf("%s: told of old %v, but heard %v before", n.key, n.old, view[n.key])
			}
			if n.old != nil && n.next != nil && n.old.Version != n.next.Version {
				t.Fatalf("%s: two lives in one event", n.key)
			}
			view[n.key] = n.next
		}
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			old := truth[key]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if old == nil {
					life[key]++
				}
				truth[key] = &Item[int]{Key: key, Value: i, Version: fmt.Sprint(life[key])}
				m.put(notice[int]{key: key, old: old, next: truth[key]})
			case 2:
				if old != nil {
					truth[key] = nil
					m.put(notice[int]{key: key, old: old})
				}
			case 3:
				hear()
			}
			if len(m.order) > 2 {
				t.Fatalf("the order holds %v", m.order)
			}
		}
		for range 10 {
			hear()
		}
		for _, key := range []string{"a", "b"} {
			if view[key] != truth[key] {
				t.Fatalf("%s: heard %v, true is %v", key, view[key], truth[key])
			}
		}
	})
}

func TestMailboxResync(t *testing.T) {
	old, next := &Item[int]{Key: "k", Value: 1}, &Item[int]{Key: "k", Value: 2}
	again := notice[int]{key: "k", old: old, next: old, resync: true}
	change := notice[int]{key: "k", old: old, next: next}
	after := notice[int]{key: "k", old: next, next: next, resync: true}
	for _, c := range []struct {
		name   string
		put    []notice[int]
		resync bool
		last   int
	}{
		{"two resyncs", []notice[int]{again, again}, true, 1},
		{"a resync, then a change", []notice[int]{again, change}, false, 2},
		{"a change, then a resync", []notice[int]{change, after}, false, 2},
	} {
		m := newMailbox[int]()
		for _, n := range c.put {
			m.put(n)
		}
		n, ok := m.get()
		if !ok || n.resync != c.resync || n.old != old || n.next.Value != c.last || len(m.pending) != 0 {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
}
