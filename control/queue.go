package control

import (
	"container/heap"
	"sync"
	"time"
)

// QueueOptions are the options of a queue; the zero value selects the defaults.
type QueueOptions struct {
	Name    string
	Metrics Metrics       // nil: none
	First   time.Duration // delay before the first retry of a key; 0: 5 ms; it doubles with each failure
	Longest time.Duration // the most that one key is delayed; 0: 5 min
	Rate    float64       // retries per second of all keys together; 0: 50
	Burst   int           // retries that are allowed at once; 0: 300
}

// Queue hands keys to workers.
//
//	Add ──▶ dirty, waiting list ──Get──▶ processing ──Done──▶ forgotten
//	           ▲                            │ Add meanwhile: dirty only
//	           └────────Done, if dirty──────┘
//
// A key is never handed to two workers at once. If it is added during a pass, however
// often, it is handed out once more after the pass.
type Queue struct {
	name    string
	metrics Metrics
	delay   backoff

	mu         sync.Mutex
	nonEmpty   sync.Cond
	waiting    []string             // ready keys in order
	dirty      map[string]time.Time // keys that must be worked on, and since when
	processing map[string]bool
	delayed    delays
	timer      *time.Timer // fires when the first of delayed is due
	bucket     bucket
	failures   map[string]*failures
	closed     bool
}

// failures counts the failures of a key since its last success.
type failures struct {
	all     int // determines the delay
	charged int // limited by Controller.MaxRetries
}

// NewQueue returns an empty queue. ShutDown ends it.
func NewQueue(o QueueOptions) *Queue {
	q := &Queue{
		name: o.Name, metrics: orNoMetrics(o.Metrics), delay: newBackoff(o.First, o.Longest), bucket: newBucket(o.Rate, o.Burst),
		dirty: map[string]time.Time{}, processing: map[string]bool{}, failures: map[string]*failures{},
		delayed: delays{at: map[string]*delayedKey{}},
	}
	q.nonEmpty.L = &q.mu
	return q
}

// Add adds a key that must be reconciled.
func (q *Queue) Add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key)
}

func (q *Queue) add(key string) {
	if _, dirty := q.dirty[key]; dirty || q.closed {
		return
	}
	q.dirty[key] = time.Now()
	if q.processing[key] {
		return
	}
	q.append(key)
}

func (q *Queue) append(key string) {
	q.waiting = append(q.waiting, key)
	q.metrics.Depth(q.name, len(q.waiting))
	q.nonEmpty.Signal()
}

// AddAfter adds a key when d has passed. A key has at most one delay, the shortest that
// was requested. The next pass of the key clears it: its outcome sets a new one.
func (q *Queue) AddAfter(key string, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAfter(key, d)
}

func (q *Queue) addAfter(key string, d time.Duration) {
	if q.closed {
		return
	}
	if d <= 0 {
		q.add(key)
		return
	}
	q.delayed.set(key, time.Now().Add(d))
	q.arm()
}

// Get waits for a key and moves it to processing; Done must follow. It returns
// false when the queue is shut down and empty.
func (q *Queue) Get() (key string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.closed {
			return "", false
		}
		q.nonEmpty.Wait()
	}
	key = q.waiting[0]
	q.waiting[0] = ""
	q.waiting = q.waiting[1:]
	since := q.dirty[key]
	delete(q.dirty, key)
	q.processing[key] = true
	q.delayed.drop(key)
	q.metrics.Depth(q.name, len(q.waiting))
	q.metrics.Latency(q.name, time.Since(since))
	return key, true
}

// Done ends the work on a key; if it was added meanwhile it is ready again.
func (q *Queue) Done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.processing[key] {
		return
	}
	delete(q.processing, key)
	if _, dirty := q.dirty[key]; dirty {
		q.append(key)
	}
}

// Charge counts a failure that uses up a retry and returns how many such failures the key
// has had in a row.
func (q *Queue) Charge(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed(key)
	f.charged++
	return f.charged
}

// Retry counts a failure, adds the key after its delay and returns the delay. It doubles
// with each failure in a row; the token bucket of all keys may prolong it.
func (q *Queue) Retry(key string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed(key)
	d := max(q.delay.after(f.all), q.bucket.take(time.Now()))
	f.all++
	q.addAfter(key, d)
	return d
}

func (q *Queue) failed(key string) *failures {
	f := q.failures[key]
	if f == nil {
		f = &failures{}
		q.failures[key] = f
	}
	return f
}

// Forget resets the failures of a key.
func (q *Queue) Forget(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, key)
}

// Len returns the number of ready keys.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// ShutDown refuses further keys and drops the delayed ones. Keys that are ready, or were
// added during a pass, are still handed out.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.delayed.clear()
	q.arm()
	q.nonEmpty.Broadcast()
}

// Discard is ShutDown that also drops the ready keys.
func (q *Queue) Discard() {
	q.ShutDown()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	clear(q.dirty)
	q.metrics.Depth(q.name, 0)
}

// arm sets the timer to the first delayed key.
func (q *Queue) arm() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	if first, ok := q.delayed.first(); ok {
		q.timer = time.AfterFunc(time.Until(first), q.due)
	}
}

func (q *Queue) due() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for {
		first, ok := q.delayed.first()
		if !ok || first.After(now) {
			break
		}
		q.add(q.delayed.pop())
	}
	q.arm()
}

// delays is a heap of delayed keys with one entry per key.
type delays struct {
	heap []*delayedKey
	at   map[string]*delayedKey
}

type delayedKey struct {
	key   string
	when  time.Time
	index int
}

func (d *delays) set(key string, when time.Time) {
	l := d.at[key]
	switch {
	case l == nil:
		l = &delayedKey{key: key, when: when}
		d.at[key] = l
		heap.Push(d, l)
	case when.Before(l.when):
		l.when = when
		heap.Fix(d, l.index)
	}
}

func (d *delays) drop(key string) {
	if l := d.at[key]; l != nil {
		heap.Remove(d, l.index)
		delete(d.at, key)
	}
}

func (d *delays) pop() string {
	l := heap.Pop(d).(*delayedKey)
	delete(d.at, l.key)
	return l.key
}

func (d *delays) first() (time.Time, bool) {
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return d.heap[0].when, true
}

func (d *delays) clear() {
	d.heap = nil
	clear(d.at)
}

func (d *delays) Len() int           { return len(d.heap) }
func (d *delays) Less(i, j int) bool { return d.heap[i].when.Before(d.heap[j].when) }
func (d *delays) Swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].index, d.heap[j].index = i, j
}
func (d *delays) Push(x any) {
	l := x.(*delayedKey)
	l.index = len(d.heap)
	d.heap = append(d.heap, l)
}
func (d *delays) Pop() any {
	last := len(d.heap) - 1
	l := d.heap[last]
	d.heap[last] = nil
	d.heap = d.heap[:last]
	return l
}
