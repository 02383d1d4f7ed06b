// Package steplog writes what the attempts of steps print to the store of their runs.
//
//	Attempt.Stream ─▶ redact ─▶ lines ─▶ head and tail ─▶ Writer ─▶ one WriteLogs for all attempts
//
// A line reaches the store after Gather and a write; while lines come all the time, there is one write
// an Interval. See docs/adr/0137-logs-of-steps.md.
package steplog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Times of a Writer.
const (
	Gather   = 10 * time.Millisecond  // from the first line to the write that has it, if there was none before
	Interval = 100 * time.Millisecond // between the beginnings of two writes

	patience = 5 * time.Second        // for one try of a write
	tries    = 10                     // of a write, then its lines are left out
	first    = 100 * time.Millisecond // before the second try; doubled for each further one, up to patience
)

// maxWaiting is the cost of the lines of closed attempts from which on Close waits for their write.
const maxWaiting = 4 << 20

// Writer gathers the lines of all attempts of an engine. It has a goroutine only while lines wait.
type Writer struct {
	store runstore.Logs
	log   *slog.Logger
	ctx   func() context.Context   // when it ends, waiting lines are dropped
	wrote func(*runstore.LogWrite) // called with each write that has succeeded

	mu      sync.Mutex
	waiting *batch // nil: no attempt has new lines
	current *batch // that is being written; nil: none
	busy    bool   // run is under way
	failing bool   // the newest write has failed
	began   time.Time
	urgent  chan struct{} // an attempt waits for its write
}

// batch is what one write takes.
type batch struct {
	attempts []*Attempt
	closed   int64         // cost of the lines of attempts that have ended
	tried    chan struct{} // closed when the write was tried once
	isTried  bool
}

// NewWriter returns a writer. ctx returns the context of the writes that begin now. wrote is called with
// each write that has succeeded; it must not block.
func NewWriter(store runstore.Logs, log *slog.Logger, ctx func() context.Context, wrote func(*runstore.LogWrite)) *Writer {
	return &Writer{store: store, log: log, ctx: ctx, wrote: wrote, urgent: make(chan struct{}, 1)}
}

// add puts an attempt into the next write.
func (w *Writer) add(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue(a)
}

// addClosed is add for an attempt that has ended with lines of a cost. It waits if very much waits, so that
// steps do not print faster than the store takes it.
func (w *Writer) addClosed(a *Attempt, cost int64) {
	w.mu.Lock()
	b := w.queue(a)
	b.closed += cost
	full := b.closed > maxWaiting
	w.mu.Unlock()
	if full {
		w.await(b)
	}
}

// Flush waits until the lines of all attempts that were closed are written, or the store has refused them once.
func (w *Writer) Flush() {
	w.mu.Lock()
	b := w.waiting
	if b == nil {
		b = w.current
	}
	w.mu.Unlock()
	if b != nil {
		w.await(b)
	}
}

// queue puts an attempt into the next write and returns that write.
func (w *Writer) queue(a *Attempt) *batch {
	if w.waiting == nil {
		w.waiting = &batch{tried: make(chan struct{})}
		if w.failing {
			w.waiting.release()
		}
	}
	if a.queued != w.waiting {
		a.queued = w.waiting
		w.waiting.attempts = append(w.waiting.attempts, a)
	}
	if !w.busy {
		w.busy = true
		go w.run()
	}
	return w.waiting
}

// release lets the attempts go on that wait for the batch.
func (b *batch) release() {
	if !b.isTried {
		b.isTried = true
		close(b.tried)
	}
}

// await waits until a batch was tried, and does not let it gather more.
func (w *Writer) await(b *batch) {
	select {
	case <-b.tried:
		return
	case w.urgent <- struct{}{}:
	default:
	}
	<-b.tried
}

// run writes until nothing waits.
func (w *Writer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if w.waiting == nil {
			w.busy = false
			w.mu.Unlock()
			return
		}
		timer.Reset(max(Gather, time.Until(w.began.Add(Interval))))
		w.mu.Unlock()
		ctx := w.ctx()
		select {
		case <-timer.C:
		case <-w.urgent:
		case <-ctx.Done():
		}
		w.mu.Lock()
		b := w.waiting
		w.current, w.waiting, w.began = b, nil, time.Now()
		w.mu.Unlock()
		w.write(ctx, b)
	}
}

// write writes a batch. Attempts do not wait for tries after the first.
func (w *Writer) write(ctx context.Context, b *batch) {
	var parts []*part
	for _, a := range b.attempts {
		if p := a.take(); p != nil {
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(p, q *part) int { return strings.Compare(p.attempt.facts.Run, q.attempt.facts.Run) }) // writers of several workers lock in one order
	writes := writesOf(parts)
	var err error
	for try, delay := 1, first; len(parts) > 0; try, delay = try+1, min(2*delay, patience) {
		if err = w.try(ctx, writes); err == nil || try == tries || ctx.Err() != nil {
			break
		}
		w.failed(b)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	for _, p := range parts {
		p.done(err == nil)
	}
	if err == nil {
		for _, one := range writes {
			w.wrote(one)
		}
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("workflow: the store does not take the logs of steps; they are left out", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = err != nil && ctx.Err() == nil
	w.current = nil
	b.release()
}

// writesOf makes one write of the parts of a run that follow each other; a part that removes chunks is one of its own.
func writesOf(parts []*part) (writes []*runstore.LogWrite) {
	var last *runstore.LogWrite // that takes more chunks
	for _, p := range parts {
		run := p.attempt.facts.Run
		if last == nil || last.Run != run || len(p.remove) > 0 {
			last = &runstore.LogWrite{Run: run, Remove: p.remove, Into: p.into}
			writes = append(writes, last)
		}
		for _, c := range p.chunks {
			last.Chunks = append(last.Chunks, c.LogChunk)
		}
		if len(p.remove) > 0 {
			last = nil
		}
	}
	return writes
}

func (w *Writer) try(ctx context.Context, writes []*runstore.LogWrite) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.store.WriteLogs(bounded, writes)
}

// failed lets all attempts go on that wait for a write.
func (w *Writer) failed(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = true
	b.release()
	if w.waiting != nil {
		w.waiting.release()
	}
}
