package schedule

import (
	"container/heap"
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// longestSleep is how long an alarm clock sleeps at most. After that it looks at the clock on the
// wall, which may have been set, or may have gone on while the machine was suspended.
const longestSleep = 10 * time.Second

// alarmClock rings for keys at times of the clock on the wall. It has one timer for all of them.
type alarmClock struct {
	now  func() time.Time
	seed maphash.Seed // of the order of one time: servers that share schedules rarely meet at one

	mu    sync.Mutex
	at    map[string]time.Time // newest time of each key
	queue alarms               // may hold older times of a key too
	poke  chan struct{}
}

func newAlarmClock(now func() time.Time) *alarmClock {
	return &alarmClock{now: now, seed: maphash.MakeSeed(), at: map[string]time.Time{}, poke: make(chan struct{}, 1)}
}

// set replaces the time of a key. Zero: none.
func (c *alarmClock) set(key string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		delete(c.at, key)
		return
	}
	if c.at[key].Equal(at) {
		return
	}
	c.at[key] = at
	heap.Push(&c.queue, alarm{at, maphash.String(c.seed, key), key})
	if c.queue[0].key == key {
		select {
		case c.poke <- struct{}{}:
		default:
		}
	}
}

// run rings until the context ends.
func (c *alarmClock) run(ctx context.Context, ring func(key string)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.poke:
		}
		due, sleep := c.take()
		for _, key := range due {
			ring(key)
		}
		timer.Reset(sleep)
	}
}

// take removes the keys whose time has come, and returns how long to sleep.
func (c *alarmClock) take() (due []string, sleep time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now().Round(0) // without the monotonic clock
	for len(c.queue) > 0 {
		first := c.queue[0]
		if first.at.After(now) {
			return due, min(longestSleep, first.at.Sub(now))
		}
		heap.Pop(&c.queue)
		if c.at[first.key].Equal(first.at) {
			delete(c.at, first.key)
			due = append(due, first.key)
		}
	}
	return due, longestSleep
}

type alarm struct {
	at   time.Time
	rank uint64
	key  string
}

type alarms []alarm

func (a alarms) Len() int      { return len(a) }
func (a alarms) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a alarms) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].rank < a[j].rank
}

func (a *alarms) Push(x any) { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}
