package workflow

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

const hookQueueSize = 1024

// hookQueue delivers events to one hook from its own queue. The goroutine runs only while the queue
// has events. If the queue is full, events are dropped and counted; a run is never delayed.
type hookQueue struct {
	hook    Hook
	mu      sync.Mutex
	queue   []hookEvent
	busy    bool
	dropped atomic.Int64
}

type hookEvent struct {
	info  RunInfo
	event runtype.Event
}

func newHookQueue(h Hook) *hookQueue { return &hookQueue{hook: h} }

func (q *hookQueue) put(info RunInfo, events []runtype.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		if len(q.queue) >= hookQueueSize {
			q.dropped.Add(1)
			continue
		}
		q.queue = append(q.queue, hookEvent{info, e})
	}
	if !q.busy && len(q.queue) > 0 {
		q.busy = true
		go q.drain()
	}
}

func (q *hookQueue) drain() {
	for {
		q.mu.Lock()
		batch := q.queue
		q.queue = nil
		if len(batch) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, h := range batch {
			q.deliver(h)
		}
	}
}

func (q *hookQueue) deliver(h hookEvent) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("workflow: a hook panicked", "hook", q.hook.Name, "panic", r)
		}
	}()
	q.hook.OnEvent(h.info, h.event)
}

// publish passes saved events to the hooks.
func (e *Engine) publish(r *runtype.Run, events []runtype.Event) {
	if isIdle(r) {
		e.awaiting.wake(r.ID)
	}
	if len(e.hooks) == 0 || len(events) == 0 {
		return
	}
	info := infoOf(r)
	for _, q := range e.hooks {
		q.put(info, events)
	}
}

// Dropped returns, for each hook, the number of events that were dropped because its queue was
// full.
func (e *Engine) Dropped() map[string]int64 {
	counts := map[string]int64{}
	for _, q := range e.hooks {
		counts[q.hook.Name] = q.dropped.Load()
	}
	return counts
}
