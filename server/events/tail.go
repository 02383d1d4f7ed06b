package events

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Times of a tail.
const (
	logPoll = 50 * time.Millisecond // between polls for lines that another process writes
	endPoll = time.Second           // between polls for the state of the run, and for lines that the engine tells of
)

// tails are the runs whose logs are followed in this process, by id.
type tails struct {
	mu   sync.Mutex
	runs map[string]*tail
}

// tail polls the log of one run for all its followers: each waits for changed and then reads from its own
// position. While the engine of this process executes the run, the engine wakes the tail.
type tail struct {
	changed   control.Notifier // there are new lines, or the run has changed
	followers int              // under tails.mu

	engine *workflow.Engine
	id     string
	end    context.CancelFunc
	done   chan struct{} // closed when poll has returned

	mu      sync.Mutex
	run     *runtype.Run // newest head; nil: it was removed, or version is 0
	version int64        // grows with each change of run; 0: not read yet
}

// follow returns the tail of a run. The caller calls stop.
func (s *tails) follow(engine *workflow.Engine, id string) (t *tail, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.runs[id]
	if t == nil {
		ctx, end := context.WithCancel(context.Background())
		t = &tail{engine: engine, id: id, end: end, done: make(chan struct{})}
		if s.runs == nil {
			s.runs = map[string]*tail{}
		}
		s.runs[id] = t
		go func() {
			defer close(t.done)
			t.poll(ctx)
		}()
	}
	t.followers++
	return t, func() { s.leave(t) }
}

// leave ends a tail that nobody follows any more.
func (s *tails) leave(t *tail) {
	s.mu.Lock()
	t.followers--
	last := t.followers == 0
	if last {
		delete(s.runs, t.id)
		t.end()
	}
	s.mu.Unlock()
	if last {
		<-t.done
	}
}

// head returns the newest head of the run and its version; nil: the run was removed. Version 0: it was not
// read yet.
func (t *tail) head() (run *runtype.Run, version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run, t.version
}

// poll notifies of new lines and of changes of the run until ctx ends.
func (t *tail) poll(ctx context.Context) {
	store, _ := t.engine.Store().(runstore.Logs) // a reader of it exists
	printed, stop := t.engine.Printed(t.id)
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var newest int64
	var looked time.Time // at the run
	for {
		select {
		case <-ctx.Done():
			return
		case <-printed:
		case <-timer.C:
		}
		page, err := store.ReadLogs(ctx, t.id, runstore.LogQuery{After: newest, Newest: true, Limit: 1})
		if len(page.Chunks) > 0 {
			newest = page.Chunks[0].Number
		}
		changed := len(page.Chunks) > 0 || err != nil // a follower reports the error
		if time.Since(looked) >= endPoll {
			looked = time.Now()
			changed = t.look(ctx) || changed
		}
		if changed {
			t.changed.Notify()
		}
		wait := logPoll
		if t.engine.Executes(t.id) {
			wait = endPoll
		}
		timer.Reset(wait)
	}
}

// look reads the head of the run and reports whether it has changed.
func (t *tail) look(ctx context.Context) bool {
	run, err := t.engine.Head(ctx, t.id)
	if err != nil && fault.Of(err) != workflow.RunNotFound { // the next look tries again
		return false
	}
	if err != nil {
		run = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.version > 0 && (run == nil) == (t.run == nil) && (run == nil || run.Revision == t.run.Revision)
	if !same {
		t.run = run
		t.version++
	}
	return !same
}
