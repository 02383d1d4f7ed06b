package control

import (
	"container/heap"
	"sync"
	"time"
)

// QueueOptions are the options of a queue; the zero value is the specification's (section 6).
type QueueOptions struct {
	Name    string
	Metrics Metrics       // nil: none
	First   time.Duration // delay before the first retry of a key; 0: 5 ms; it doubles with each failure
	Longest time.Duration // the most that one key is delayed; 0: 5 min
	Rate    float64       // retries per second of all keys together; 0: 50
	Burst   int           // retries that may come at once; 0: 300
}

// Queue gives out keys to workers.
//
//	Add ──▶ dirty, waiting list ──Get──▶ processing ──Done──▶ forgotten
//	           ▲                            │ Add meanwhile: dirty only
//	           └────────Done, if dirty──────┘
//
// A key is never given out twice at once, and however often it is added during
// a pass, it is given out once more after it.
type Queue struct {
	name    string
	metrics Metrics
	delay   backoff

	mu         sync.Mutex
	more       sync.Cond
	waiting    []string             // ready keys in order
	dirty      map[string]time.Time // keys that must be worked on, and since when
	processing map[string]bool
	delayed    delays
	timer      *time.Timer // fires when the first of delayed is due
	bucket     bucket
	failures   map[string]*failures
	closed     bool
}

// failures are what went wrong with a key since its last success.
type failures struct {
	all     int // they set the delay
	charged int // they use up the retries
}

// NewQueue gives an empty queue. ShutDown ends it.
func NewQueue(o QueueOptions) *Queue {
	q := &Queue{
		name: o.Name, metrics: orSilence(o.Metrics), delay: newBackoff(o.First, o.Longest), bucket: newBucket(o.Rate, o.Burst),
		dirty: map[string]time.Time{}, processing: map[string]bool{}, failures: map[string]*failures{},
		delayed: delays{at: map[string]*look{}},
	}
	q.more.L = &q.mu
	return q
}

// Add says that a key must be worked on.
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
	q.more.Signal()
}

// AddAfter adds a key when d has passed. A key has one delayed look, the
// soonest asked for; the next pass takes it along, for its outcome says anew
// when to look again.
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

// Get waits for a key and moves it to processing; Done must follow. It answers
// false when the queue is shut down and empty.
func (q *Queue) Get() (key string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.closed {
			return "", false
		}
		q.more.Wait()
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

// Charge counts a failure that uses up a retry and gives the number of those in a row.
func (q *Queue) Charge(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed(key)
	f.charged++
	return f.charged
}

// Retry counts a failure and adds the key after its delay, which it gives: it
// doubles with each failure in a row, and all keys share one bucket.
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

// Forget forgets the failures of a key.
func (q *Queue) Forget(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failures, key)
}

// Len is the number of ready keys.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// ShutDown refuses further keys and drops the delayed ones. What is ready, or
// was added during a pass, is still given out.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.delayed.clear()
	q.arm()
	q.more.Broadcast()
}

// Discard is ShutDown that also drops what is ready.
func (q *Queue) Discard() {
	q.ShutDown()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	clear(q.dirty)
	q.metrics.Depth(q.name, 0)
}

// arm sets the timer to the first delayed look.
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

// delays is a heap of looks with one entry per key.
type delays struct {
	heap []*look
	at   map[string]*look
}

type look struct {
	key   string
	when  time.Time
	index int
}

func (d *delays) set(key string, when time.Time) {
	l := d.at[key]
	switch {
	case l == nil:
		l = &look{key: key, when: when}
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
	l := heap.Pop(d).(*look)
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
	l := x.(*look)
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
