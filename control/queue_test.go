package control

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"pgregory.net/rapid"
)

// The states of a key: waiting, processing, and dirty during a pass.
func TestQueueTable(t *testing.T) {
	type state struct{ dirty, processing, waiting bool }
	look := func(q *Queue) state {
		_, dirty := q.dirty["k"]
		return state{dirty, q.processing["k"], slices.Contains(q.waiting, "k")}
	}
	get := func(q *Queue) { q.Get() }
	add := func(q *Queue) { q.Add("k") }
	done := func(q *Queue) { q.Done("k") }
	for _, c := range []struct {
		name   string
		before []func(*Queue)
		call   func(*Queue)
		want   state
	}{
		{"Add, not dirty, not worked on: marked dirty, appended", nil, add, state{true, false, true}},
		{"Add, dirty, not worked on: nothing", []func(*Queue){add}, add, state{true, false, true}},
		{"Add, not dirty, worked on: marked dirty only", []func(*Queue){add, get}, add, state{true, true, false}},
		{"Add, dirty, worked on: nothing", []func(*Queue){add, get, add}, add, state{true, true, false}},
		{"Get: moved to processing, no longer dirty", []func(*Queue){add}, get, state{false, true, false}},
		{"Done, dirty: appended again", []func(*Queue){add, get, add}, done, state{true, false, true}},
		{"Done, not dirty: forgotten", []func(*Queue){add, get}, done, state{}},
		{"Done of a key that nobody works on: nothing", []func(*Queue){add}, done, state{true, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := NewQueue(QueueOptions{})
			for _, f := range c.before {
				f(q)
			}
			c.call(q)
			if got := look(q); got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
			if n := len(q.waiting); n > 1 {
				t.Fatalf("the key waits %d times", n)
			}
		})
	}
}

// Against a model: keys are handed out in order, none to two workers at once, and none is
// lost.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewQueue(QueueOptions{})
		var waiting, working []string
		dirty := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			switch rapid.IntRange(0, 2).Draw(t, "call") {
			case 0:
				q.Add(key)
				if !dirty[key] {
					dirty[key] = true
					if !slices.Contains(working, key) {
						waiting = append(waiting, key)
					}
				}
			case 1:
				if len(waiting) == 0 {
					continue
				}
				got, ok := q.Get()
				if !ok || got != waiting[0] || slices.Contains(working, got) {
					t.Fatalf("Get gave %q %t, want %q; working on %v", got, ok, waiting[0], working)
				}
				waiting, working = waiting[1:], append(working, got)
				delete(dirty, got)
			case 2:
				q.Done(key)
				if i := slices.Index(working, key); i >= 0 {
					working = slices.Delete(working, i, i+1)
					if dirty[key] {
						waiting = append(waiting, key)
					}
				}
			}
			if q.Len() != len(waiting) {
				t.Fatalf("%d keys ready, want %v", q.Len(), waiting)
			}
		}
	})
}

func TestThousandUpdatesCostOnePass(t *testing.T) {
	q := NewQueue(QueueOptions{})
	q.Add("k")
	q.Get()
	for range 1000 {
		q.Add("k")
	}
	q.Done("k")
	if q.Len() != 1 {
		t.Fatalf("%d ready, want 1", q.Len())
	}
	q.Get()
	q.Done("k")
	if q.Len() != 0 {
		t.Fatalf("%d ready after the second pass, want 0", q.Len())
	}
}

func TestManyWorkers(t *testing.T) {
	q := NewQueue(QueueOptions{})
	var mu sync.Mutex
	inside, passes := map[string]bool{}, 0
	var workers, adders sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for key, ok := q.Get(); ok; key, ok = q.Get() {
				mu.Lock()
				if inside[key] {
					t.Errorf("%s is worked on twice at once", key)
				}
				inside[key] = true
				passes++
				mu.Unlock()
				mu.Lock()
				inside[key] = false
				mu.Unlock()
				q.Done(key)
			}
		})
	}
	for range 4 {
		adders.Go(func() {
			for i := range 500 {
				q.Add(fmt.Sprint(i % 7))
			}
		})
	}
	adders.Wait()
	q.ShutDown()
	workers.Wait()
	if q.Len() != 0 || len(q.dirty) != 0 || len(q.processing) != 0 || passes < 7 {
		t.Fatalf("left: %d ready, %d dirty, %d worked on; %d passes", q.Len(), len(q.dirty), len(q.processing), passes)
	}
}

// next waits for a key and returns how long that took.
func next(q *Queue) (string, time.Duration) {
	start := time.Now()
	key, _ := q.Get()
	return key, time.Since(start)
}

func TestDelayedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		defer q.Discard()
		expect := func(key string, after time.Duration) {
			t.Helper()
			if k, d := next(q); k != key || d != after {
				t.Fatalf("%s after %s, want %s after %s", k, d, key, after)
			}
			q.Done(key)
		}
		q.AddAfter("b", 2*time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Hour) // the shorter delay counts
		q.AddAfter("c", time.Minute)
		q.AddAfter("c", 3*time.Second)
		q.AddAfter("n", 0)
		expect("n", 0)
		expect("a", time.Second)
		expect("b", time.Second)
		expect("c", time.Second)

		q.AddAfter("a", time.Minute)
		q.Add("a") // an event comes earlier
		expect("a", 0)
		q.AddAfter("z", 2*time.Minute)
		expect("z", 2*time.Minute) // the pass of a has cleared its delay
	})
}

func TestRetryDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		defer q.Discard()
		want := 5 * time.Millisecond
		for n := range 20 {
			if d := q.Retry("k"); d != want {
				t.Fatalf("delay after failure %d: %s, want %s", n+1, d, want)
			}
			if k, d := next(q); k != "k" || d != want {
				t.Fatalf("%q came after %s, want %s", k, d, want)
			}
			q.Done("k")
			want = min(2*want, 5*time.Minute)
		}
		q.Forget("k")
		if d := q.Retry("k"); d != 5*time.Millisecond {
			t.Fatalf("delay after success: %s", d)
		}
		for n := range 3 {
			if got := q.Charge("c"); got != n+1 {
				t.Fatalf("charge %d, want %d", got, n+1)
			}
			q.Retry("c")
		}
		q.Forget("c")
		if got := q.Charge("c"); got != 1 {
			t.Fatalf("charge after success: %d", got)
		}
	})
}

func TestBucketOfAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		defer q.Discard()
		for i := range 300 {
			if d := q.Retry(fmt.Sprint(i)); d != 5*time.Millisecond {
				t.Fatalf("retry %d of the burst is delayed by %s", i+1, d)
			}
		}
		for i, want := range []int64{20, 40, 60} {
			if d := q.Retry(fmt.Sprint("x", i)); d.Milliseconds() != want {
				t.Fatalf("retry %d after the burst is delayed by %s, want %d ms", i+1, d, want)
			}
		}
		time.Sleep(time.Second) // 50 tokens come back, 3 were owed
		var last time.Duration
		for i := range 48 {
			last = q.Retry(fmt.Sprint("y", i))
		}
		if last != 20*time.Millisecond {
			t.Fatalf("retry 48 of the next second is delayed by %s, want 20 ms", last)
		}
	})
}

func TestShutDownDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		q.Add("a")
		q.Get()
		q.Add("a")
		q.Add("b")
		q.AddAfter("late", time.Second)
		q.ShutDown()
		q.Add("c")
		q.AddAfter("c", time.Second)
		q.Retry("c")
		q.Done("a")
		var got []string
		for key, ok := q.Get(); ok; key, ok = q.Get() {
			got = append(got, key)
			q.Done(key)
		}
		if !slices.Equal(got, []string{"b", "a"}) {
			t.Fatalf("drained %v, want b and a", got)
		}
		time.Sleep(time.Minute)
		if q.Len() != 0 || q.timer != nil {
			t.Fatal("something came after the shutdown")
		}
	})
	q := NewQueue(QueueOptions{})
	q.Add("a")
	q.Discard()
	if key, ok := q.Get(); ok {
		t.Fatalf("Get gave %q after Discard", key)
	}
}

func TestBackoff(t *testing.T) {
	b := newBackoff(0, 0)
	for n, want := range map[int]time.Duration{0: 5 * time.Millisecond, 1: 10 * time.Millisecond, 15: 163840 * time.Millisecond, 16: 5 * time.Minute, 1 << 20: 5 * time.Minute} {
		if got := b.after(n); got != want {
			t.Errorf("delay after %d failures: %s, want %s", n, got, want)
		}
	}
	if got := (backoff{time.Hour, time.Minute}).after(0); got != time.Minute {
		t.Errorf("a first delay beyond the longest: %s", got)
	}
}

func TestBreakDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, r := rapid.IntRange(1, 1000).Draw(t, "n"), rapid.Float64Range(0, 0.999).Draw(t, "r")
		d := breakDelay(n, r)
		if d < 200*time.Millisecond || d > 30*time.Second {
			t.Fatalf("delay of break %d: %s; want 0.2 s to 30 s", n, d)
		}
		if n > 10 && d < 15*time.Second {
			t.Fatalf("delay of break %d: %s; want it grown", n, d)
		}
	})
	if a, b := breakDelay(3, 0), breakDelay(3, 0.9); a == b {
		t.Error("no jitter")
	}
}

// counts is a Metrics that keeps the values.
type counts struct {
	mu        sync.Mutex
	depth     []int
	latency   []time.Duration
	work      []string
	retries   []string
	exhausted []string
	relists   int
}

func (c *counts) with(f func()) { c.mu.Lock(); defer c.mu.Unlock(); f() }

func (c *counts) Depth(_ string, n int) { c.with(func() { c.depth = append(c.depth, n) }) }
func (c *counts) Latency(_ string, d time.Duration) {
	c.with(func() { c.latency = append(c.latency, d) })
}
func (c *counts) Relist(string) { c.with(func() { c.relists++ }) }
func (c *counts) Work(_ string, d time.Duration, o outcome.Outcome) {
	c.with(func() { c.work = append(c.work, fmt.Sprint(d, " ", o.Reason())) })
}
func (c *counts) Retry(_ string, code fault.Code, exhausted bool) {
	c.with(func() {
		c.retries = append(c.retries, string(code))
		if exhausted {
			c.exhausted = append(c.exhausted, string(code))
		}
	})
}

func TestQueueMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counts{}
		q := NewQueue(QueueOptions{Metrics: m})
		q.Add("a")
		q.Add("b")
		time.Sleep(3 * time.Second)
		q.Get()
		q.Add("a") // dirty from now on
		time.Sleep(time.Second)
		q.Done("a")
		q.Get()
		q.Get()
		if !slices.Equal(m.depth, []int{1, 2, 1, 2, 1, 0}) {
			t.Errorf("depths %v", m.depth)
		}
		if !slices.Equal(m.latency, []time.Duration{3 * time.Second, 4 * time.Second, time.Second}) {
			t.Errorf("latencies %v", m.latency)
		}
	})
}
