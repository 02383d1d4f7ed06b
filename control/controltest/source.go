// Package controltest has the conformance suites of package control: for every Source, and
// for every controller that turns changes into passes of a reconcile function.
//
//	func TestFeed(t *testing.T) {
//		controltest.Source(t, func(t *testing.T) controltest.SourceFixture[control.Object] { … })
//	}
package controltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// Timeout is how long the suites wait for an expected event. Only a failing test takes
// that long.
const Timeout = 20 * time.Second

// SourceFixture is a source and functions that change its items.
type SourceFixture[T any] struct {
	Source control.Source[T]
	// Put creates the item or sets its value, and returns when that is durable.
	Put func(key string, value int)
	// Delete removes the item.
	Delete func(key string)
	// Name is the name of a key among the items of the source; nil: the key itself.
	Name func(key string) string
	// Value returns the value that Put has set.
	Value func(T) int
	// Forget makes the source drop its history, so that earlier positions are a gap;
	// nil: not tested.
	Forget func()
}

// Source is the conformance suite of sources. Each test gets a new, empty fixture.
func Source[T any](t *testing.T, open func(t *testing.T) SourceFixture[T]) {
	world := func(t *testing.T) SourceFixture[T] {
		w := open(t)
		if w.Name == nil {
			w.Name = func(key string) string { return key }
		}
		return w
	}
	t.Run("an empty list has a position to watch from", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		if len(seen) != 0 || version == "" {
			t.Fatalf("list of an empty source: %v at %q; want nothing and a position", seen, version)
		}
		r := watch(t, w, seen, version)
		w.Put("a", 1)
		r.until(t, map[string]int{w.Name("a"): 1})
	})
	t.Run("the list holds what is there", func(t *testing.T) {
		w := world(t)
		w.Put("a", 1)
		w.Put("b", 2)
		w.Put("a", 3)
		w.Put("c", 4)
		w.Delete("c")
		want := map[string]int{w.Name("a"): 3, w.Name("b"): 2}
		if seen, _ := list(t, w); !maps.Equal(seen, want) {
			t.Fatalf("list: %v, want %v", seen, want)
		}
	})
	t.Run("a watch goes on from the list without loss", func(t *testing.T) {
		w := world(t)
		w.Put("a", 1)
		w.Put("b", 1)
		seen, version := list(t, w)
		w.Put("a", 2) // before the watch begins
		w.Delete("b")
		r := watch(t, w, seen, version)
		r.until(t, map[string]int{w.Name("a"): 2})
		w.Put("c", 3)
		r.until(t, map[string]int{w.Name("a"): 2, w.Name("c"): 3})
	})
	t.Run("deleted and created anew ends as created", func(t *testing.T) {
		w := world(t)
		w.Put("a", 1)
		seen, version := list(t, w)
		r := watch(t, w, seen, version)
		w.Delete("a")
		w.Put("a", 7)
		w.Put("z", 1)
		r.until(t, map[string]int{w.Name("a"): 7, w.Name("z"): 1})
	})
	t.Run("a broken watch goes on from its last position", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		r := watch(t, w, seen, version)
		w.Put("a", 1)
		r.until(t, map[string]int{w.Name("a"): 1})
		state, position := r.stop(t)
		w.Put("b", 2)
		w.Delete("a")
		r = watch(t, w, state, position)
		r.until(t, map[string]int{w.Name("b"): 2})
	})
	t.Run("a watch ends with its context", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		r := watch(t, w, seen, version)
		w.Put("a", 1)
		r.until(t, map[string]int{w.Name("a"): 1})
		r.cancel()
		select {
		case <-r.ended:
		case <-time.After(Timeout):
			t.Fatalf("the watch still runs %s after its context ended", Timeout)
		}
	})
	t.Run("a watch ends when the caller stops", func(t *testing.T) {
		w := world(t)
		_, version := list(t, w)
		w.Put("a", 1)
		ctx, cancel := context.WithTimeout(t.Context(), Timeout)
		defer cancel()
		n := 0
		for _, err := range w.Source.Watch(ctx, version) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			break
		}
		if n != 1 {
			t.Fatal("the watch ended before its first change")
		}
	})
	t.Run("two watches hear the same", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		one, two := watch(t, w, seen, version), watch(t, w, seen, version)
		w.Put("a", 1)
		w.Put("b", 2)
		want := map[string]int{w.Name("a"): 1, w.Name("b"): 2}
		one.until(t, want)
		two.until(t, want)
	})
	t.Run("many writers, one truth", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		r := watch(t, w, seen, version)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 10 {
					w.Put(fmt.Sprintf("k%d", i), n)
				}
				if i%2 == 1 {
					w.Delete(fmt.Sprintf("k%d", i))
				}
			})
		}
		wg.Wait()
		want, _ := list(t, w)
		if len(want) != 4 {
			t.Fatalf("list after the writers: %v, want 4 items", want)
		}
		r.until(t, want)
	})
	t.Run("versions of one item rise", func(t *testing.T) {
		w := world(t)
		seen, version := list(t, w)
		r := watch(t, w, seen, version)
		for n := range 5 {
			w.Put("a", n+1)
			r.until(t, map[string]int{w.Name("a"): n + 1})
		}
		versions := r.versions(w.Name("a"))
		if len(slices.Compact(versions)) != len(versions) || slices.Contains(versions, "") {
			t.Fatalf("versions of one item: %q; want each of them new", versions)
		}
	})
	t.Run("an unknown position is a gap", func(t *testing.T) {
		w := world(t)
		w.Put("a", 1)
		for _, version := range []string{"", "no such position", "999999999999"} { // the last one is newer than the source, as after a restore
			expectGap(t, w, version)
		}
	})
	t.Run("a forgotten position is a gap", func(t *testing.T) {
		w := world(t)
		if w.Forget == nil {
			t.Skip("this source forgets nothing")
		}
		_, version := list(t, w)
		w.Put("a", 1)
		w.Put("b", 2)
		w.Forget()
		expectGap(t, w, version)
		seen, version := list(t, w)
		if want := map[string]int{w.Name("a"): 1, w.Name("b"): 2}; !maps.Equal(seen, want) {
			t.Fatalf("list after the gap: %v, want %v", seen, want)
		}
		r := watch(t, w, seen, version)
		w.Delete("a")
		r.until(t, map[string]int{w.Name("b"): 2})
	})
}

func list[T any](t *testing.T, w SourceFixture[T]) (map[string]int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	items, version, err := w.Source.List(ctx)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	seen := map[string]int{}
	for _, item := range items {
		if _, twice := seen[item.Key]; twice || item.Key == "" {
			t.Fatalf("list holds the key %q twice, or it is empty", item.Key)
		}
		seen[item.Key] = w.Value(item.Value)
	}
	return seen, version
}

func expectGap[T any](t *testing.T, w SourceFixture[T], version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	for c, err := range w.Source.Watch(ctx, version) {
		if !errors.Is(err, control.ErrGap) {
			t.Fatalf("watch from %q gave %v, %v; want ErrGap", version, c, err)
		}
		return
	}
	t.Fatalf("watch from %q ended without ErrGap", version)
}

// recorder applies the changes of a watch to a state.
type recorder struct {
	mu       sync.Mutex
	state    map[string]int
	seen     map[string][]string
	position string
	err      error
	moved    chan struct{}
	ended    chan struct{}
	cancel   context.CancelFunc
}

// watch records the changes after a list; seen is the result of the list.
func watch[T any](t *testing.T, w SourceFixture[T], seen map[string]int, version string) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &recorder{state: maps.Clone(seen), seen: map[string][]string{}, position: version,
		moved: make(chan struct{}, 1), ended: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.ended)
		for c, err := range w.Source.Watch(ctx, version) {
			r.fold(c.Type, c.Item.Key, c.Item.Version, c.Version, func() int { return w.Value(c.Item.Value) }, err)
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

func (r *recorder) fold(kind control.Type, key, itemVersion, version string, value func() int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.err = err
	case kind == control.Put:
		r.state[key] = value()
		r.seen[key] = append(r.seen[key], itemVersion)
	case kind == control.Delete:
		delete(r.state, key)
	}
	if err == nil {
		r.position = version
	}
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

func (r *recorder) versions(key string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[key])
}

func (r *recorder) until(t *testing.T, want map[string]int) {
	t.Helper()
	timeout := time.After(Timeout)
	for {
		r.mu.Lock()
		state, err := maps.Clone(r.state), r.err
		r.mu.Unlock()
		switch {
		case maps.Equal(state, want):
			return
		case err != nil:
			t.Fatalf("watch broke with %v at %v, want %v", err, state, want)
		}
		select {
		case <-r.moved:
		case <-timeout:
			t.Fatalf("watch told of %v after %s, want %v", state, Timeout, want)
		}
	}
}

func (r *recorder) stop(t *testing.T) (map[string]int, string) {
	t.Helper()
	r.cancel()
	select {
	case <-r.ended:
	case <-time.After(Timeout):
		t.Fatal("the watch does not end")
	}
	return maps.Clone(r.state), r.position
}
