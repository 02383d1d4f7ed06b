package sim

import (
	"container/heap"
	"time"
)

// event is something that happens at a time. Events of one time happen in the order of their making.
type event struct {
	at     time.Duration
	serial int
	do     func()
}

// clock is a virtual clock: time passes only when somebody lets it.
type clock struct {
	now    time.Duration // since the start of the model
	serial int
	queue  events
}

// after makes something happen after some time.
func (c *clock) after(d time.Duration, do func()) {
	c.serial++
	heap.Push(&c.queue, event{at: c.now + max(0, d), serial: c.serial, do: do})
}

// next moves the clock to the next event up to a time and returns it; nil if there is none.
func (c *clock) next(until time.Duration) func() {
	if len(c.queue) == 0 || c.queue[0].at > until {
		c.now = until
		return nil
	}
	e, _ := heap.Pop(&c.queue).(event)
	c.now = e.at
	return e.do
}

// events is a heap by time.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].serial < e[j].serial
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any) {
	if x, ok := x.(event); ok {
		*e = append(*e, x)
	}
}
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}
