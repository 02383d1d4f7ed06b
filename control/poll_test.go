package control

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPollReportsOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		items, calls, fail := map[string]int{"a": 1, "b": 2}, 0, false
		set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		p := &Poll[int]{Interval: time.Minute, Items: func(context.Context) (map[string]int, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			if fail {
				return nil, errors.New("provider away")
			}
			return maps.Clone(items), nil
		}}
		s := NewShared(p, SharedOptions[int]{Log: discardLogs()})
		var h eventLog
		s.Handle(h.handle)
		defer run(t, s)()
		h.expect(t, "+a=1", "+b=2")
		time.Sleep(10 * time.Minute)
		h.expect(t)
		if calls != 11 {
			t.Fatalf("%d lists in ten minutes, want 11", calls)
		}
		set(func() { items["a"] = 3; delete(items, "b"); items["c"] = 4 })
		time.Sleep(time.Minute)
		h.expect(t, "a=1→3", "-b=2", "+c=4")
		set(func() { items["a"] = 1 }) // the first state again
		time.Sleep(time.Minute)
		h.expect(t, "a=3→1")
		set(func() { fail = true })
		time.Sleep(time.Hour)
		h.expect(t)
		set(func() { fail = false; delete(items, "a") })
		time.Sleep(2 * time.Minute)
		h.expect(t, "-a=1")
	})
}

func TestPollForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := &Poll[int]{Items: func(context.Context) (map[string]int, error) { n++; return map[string]int{"n": n}, nil }}
		_, first, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range pollHistory {
			if _, _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range p.Watch(t.Context(), first) {
			if !errors.Is(err, ErrGap) {
				t.Fatalf("watch from a forgotten position: %v", err)
			}
		}
	})
	bad := &Poll[func()]{Items: func(context.Context) (map[string]func(), error) { return map[string]func(){"f": nil}, nil }}
	if _, _, err := bad.List(t.Context()); err == nil {
		t.Fatal("what cannot be hashed was listed")
	}
	own := &Poll[int]{Items: func(context.Context) (map[string]int, error) { return map[string]int{"a": 1, "b": 2}, nil },
		Hash: func(int) (string, error) { return "7", nil }}
	items, _, err := own.List(t.Context())
	if err != nil || len(items) != 2 || items[0].Version != items[1].Version || decimal(items[0].Version) {
		t.Fatalf("own hashes: %v, %v", items, err)
	}
}

func TestDifferKeepsThePositionUntilTheLast(t *testing.T) {
	p := &Poll[int]{Interval: time.Nanosecond}
	state := map[string]int{}
	p.Items = func(context.Context) (map[string]int, error) { return maps.Clone(state), nil }
	_, start, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state = map[string]int{"a": 1, "b": 2, "c": 3}
	var versions []string
	for c, err := range p.Watch(t.Context(), start) {
		if err != nil {
			t.Fatal(err)
		}
		if versions = append(versions, c.Version); len(versions) == 3 {
			break
		}
	}
	_, end, err := p.List(t.Context())
	if err != nil || !slices.Equal(versions, []string{start, start, end}) {
		t.Fatalf("positions %v, want %s twice, then %s: a break in between must lose nothing", versions, start, end)
	}
}
