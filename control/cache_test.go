package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestCacheGivesCopiesAndIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		for i, tier := range []string{"gold", "tin", "gold"} {
			if _, err := store.Apply(t.Context(), Object{Ref: Ref{"demo", "default", fmt.Sprint("c", i)}, Labels: map[string]string{"tier": tier}}); err != nil {
				t.Fatal(err)
			}
		}
		s := NewShared(store.Feed("demo"), SharedOptions[Object]{Log: discardLogs(), Indexes: map[string]func(Object) []string{
			"tier": func(o Object) []string { return []string{o.Labels["tier"]} },
			"bad":  func(o Object) []string { panic("an index that panics") },
		}})
		s.Handle(func(_ context.Context, e Event[Object]) { e.New.Labels["tier"] = "spoilt" })
		defer run(t, s)()
		c := s.Cache()
		tier := func(value string) []string {
			var keys []string
			for key := range c.By("tier", value) {
				keys = append(keys, key)
			}
			return keys
		}
		if got := tier("gold"); !slices.Equal(got, []string{"demo/default/c0", "demo/default/c2"}) {
			t.Fatalf("gold: %v", got)
		}
		o, ok := c.Get("demo/default/c0")
		o.Labels["tier"] = "spoilt"
		for _, o := range c.All() {
			o.Labels["tier"] = "spoilt"
		}
		for _, o := range c.By("tier", "gold") {
			o.Labels["tier"] = "spoilt"
		}
		if again, _ := c.Get("demo/default/c0"); !ok || again.Labels["tier"] != "gold" || c.Len() != 3 {
			t.Fatalf("a reader changed the cache: %v", again.Labels)
		}
		if _, err := store.Apply(t.Context(), Object{Ref: Ref{"demo", "default", "c0"}, Labels: map[string]string{"tier": "tin"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Delete(t.Context(), Ref{"demo", "default", "c2"}, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := tier("gold"); len(got) != 0 {
			t.Fatalf("gold after the change: %v", got)
		}
		if got := tier("tin"); !slices.Equal(got, []string{"demo/default/c0", "demo/default/c1"}) {
			t.Fatalf("tin after the change: %v", got)
		}
		if len(c.by["tier"]) != 1 {
			t.Fatalf("the index keeps empty values: %v", c.by["tier"])
		}
		if _, ok := c.Get("none"); ok || c.Has("none") || !c.Has("demo/default/c1") {
			t.Fatal("the cache holds what is not there")
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an index that nobody declared must panic")
				}
			}()
			c.By("none", "x")
		}()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := NewShared(store.Feed(""), SharedOptions[Object]{}).Cache().WaitSynced(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("WaitSynced with an ended context: %v", err)
		}
	})
}

func TestUncopyableTypesAreRefused(t *testing.T) {
	NewShared(&Poll[struct {
		A int
		B [2]string
	}]{}, SharedOptions[struct {
		A int
		B [2]string
	}]{})
	defer func() {
		if recover() == nil {
			t.Fatal("a type with a map and without Copy was taken")
		}
	}()
	NewShared(&Poll[map[string]int]{}, SharedOptions[map[string]int]{})
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b         string
		newer, older bool
	}{
		{"2", "1", true, false}, {"10", "9", true, false}, {"9", "10", false, true}, {"7", "7", false, false}, {"007", "7", false, false},
		{"99999999999999999999999", "2", true, false}, {"h1", "h2", true, false}, {"h1", "h1", false, false}, {"h1", "5", true, false}, {"", "5", true, false}, {"", "", true, false},
	} {
		if newer(c.a, c.b) != c.newer || older(c.a, c.b) != c.older {
			t.Errorf("%q after %q: newer %t, older %t", c.a, c.b, newer(c.a, c.b), older(c.a, c.b))
		}
	}
}

// chaos is a faulty source: watches end early, repeat changes, and have gaps.
type chaos struct {
	Source[Object]
	luck []int
	n    atomic.Int64
}

func (c *chaos) draw() int { return c.luck[int(c.n.Add(1))%len(c.luck)] }

func (c *chaos) List(ctx context.Context) ([]Item[Object], string, error) {
	if c.draw() == 0 {
		return nil, "", errors.New("no list")
	}
	return c.Source.List(ctx)
}

func (c *chaos) Watch(ctx context.Context, version string) iter.Seq2[Change[Object], error] {
	return func(yield func(Change[Object], error) bool) {
		if c.draw() == 1 {
			yield(Change[Object]{}, ErrGap)
			return
		}
		for change, err := range c.Source.Watch(ctx, version) {
			switch c.draw() {
			case 2:
				yield(Change[Object]{}, errors.New("cut"))
				return
			case 3:
				return
			case 4:
				if !yield(change, err) {
					return
				}
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

// Cache and handler end with the state of the source, whatever breaks.
func TestCacheFollowsABrokenSource(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		luck := append(rapid.SliceOfN(rapid.IntRange(0, 8), 10, 10).Draw(r, "luck"), 5, 6, 7, 8)
		writes := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(r, "writes")
		synctest.Test(t, func(t *testing.T) {
			store := NewMemory()
			s := NewShared[Object](&chaos{Source: store.Feed("demo"), luck: luck}, SharedOptions[Object]{Log: discardLogs()})
			var mu sync.Mutex
			view := map[string]int64{}
			s.Handle(func(_ context.Context, e Event[Object]) {
				mu.Lock()
				defer mu.Unlock()
				if e.Created != (view[e.Key] == 0) || !e.Created && e.Old.Revision != view[e.Key] {
					t.Errorf("%s: told of old revision %d, heard %d before", e.Key, e.Old.Revision, view[e.Key])
				}
				if view[e.Key] = e.New.Revision; e.Deleted {
					delete(view, e.Key)
				}
			})
			stop := run(t, s)
			for i, w := range writes {
				name := fmt.Sprint("o", w%3)
				if w < 3 {
					_, _ = store.Delete(t.Context(), demo(name), 0) // may not exist
				} else {
					apply(t, store, name, i)
				}
				time.Sleep(time.Duration(w) * 100 * time.Millisecond)
			}
			time.Sleep(time.Hour)
			stop()
			want := map[string]int64{}
			for ref, o := range store.objects {
				want[ref.String()] = o.Revision
			}
			have := map[string]int64{}
			for key, o := range s.Cache().All() {
				have[key] = o.Revision
			}
			if !maps.Equal(have, want) || !maps.Equal(view, want) {
				t.Errorf("cache %v, handler %v, source %v", have, view, want)
			}
		})
	})
}
