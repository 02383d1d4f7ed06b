package workflow

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const hookQueueSize = 1024

// hookQueue calls one hook from its own queue. The goroutine runs only while the queue has calls. If
// the queue is full, calls are dropped and counted; a run is never delayed.
type hookQueue struct {
	hook    Hook
	mu      sync.Mutex
	queue   []func()
	busy    bool
	dropped atomic.Int64
}

func newHookQueue(h Hook) *hookQueue { return &hookQueue{hook: h} }

func (q *hookQueue) put(call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) >= hookQueueSize {
		q.dropped.Add(1)
		return
	}
	q.queue = append(q.queue, call)
	if !q.busy {
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
		for _, call := range batch {
			q.deliver(call)
		}
	}
}

func (q *hookQueue) deliver(call func()) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("workflow: a hook panicked", "hook", q.hook.Name, "panic", r)
		}
	}()
	call()
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
		if q.hook.OnEvent == nil {
			continue
		}
		for _, event := range events {
			q.put(func() { q.hook.OnEvent(info, event) })
		}
	}
}

// publishPrinted passes lines that the store has taken to those who wait for them and to the hooks.
func (e *Engine) publishPrinted(w *runstore.LogWrite) {
	e.printing.wake(w.Run)
	for _, q := range e.hooks {
		if q.hook.OnPrinted == nil {
			continue
		}
		for _, c := range w.Chunks {
			lines := PrintedLines{Run: w.Run, Step: c.Step, Attempt: c.Attempt, Undo: c.Undo, Lines: c.Lines}
			q.put(func() { q.hook.OnPrinted(lines) })
		}
	}
}

// Dropped returns, for each hook, the number of events, and of chunks of printed lines, that were dropped because its
// queue was full.
func (e *Engine) Dropped() map[string]int64 {
	counts := map[string]int64{}
	for _, q := range e.hooks {
		counts[q.hook.Name] = q.dropped.Load()
	}
	return counts
}
