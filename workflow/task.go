package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Limits of values in bytes (workflow.md 2.8).
const (
	MaxInput        = 256 << 10
	MaxOutput       = 64 << 10
	MaxOutputRaised = 256 << 10
	MaxSignal       = 64 << 10
	MaxRun          = 1 << 20
)

// Task is what one attempt of a step sees of its run. Its methods may be
// called from several goroutines. Values are copies.
type Task struct {
	facts TaskFacts
	view  View

	mu         sync.Mutex
	output     json.RawMessage
	taken      []string
	progress   *Progress
	reporter   *attempt
	secrets    Secrets
	ctx        context.Context
	addSecret  func(string) // tells the run which value to hide
	capacity   int          // what the run may still hold; 0: not known
	limit      int          // of what it holds in all
	baseLogger *slog.Logger
	redactor   *redactor
}

// TaskFacts is everything a task answers from. NewTask takes it for tests of
// steps and actions without an engine.
type TaskFacts struct {
	Run, Flow, Subject, Step string // Step is the instance name
	Round                    int
	Attempt                  int // from 1
	Failures                 int // charged failures in a row before this attempt
	Epoch                    int64
	Undoing                  bool
	Input                    json.RawMessage
	With                     json.RawMessage            // parameters of the action, expressions resolved
	Outputs                  map[string]json.RawMessage // of earlier steps, for NewTask only
	Signals                  []Signal                   // unread, oldest first
	MaxOutput                int
	Secrets                  map[string]SecretRef
	Resolver                 Secrets
	Wait                     *WaitRecord // the wait this attempt continues; nil on a fresh attempt
	Retry                    Retry
	Fault                    *Fault // of the attempt before, or the one a healer is to end
	Logger                   *slog.Logger
	Lease                    func() time.Duration // how long the worker's lease on the run still holds; nil: nobody else may work on it
}

// NewTask makes a task outside an engine: for tests of steps and actions.
func NewTask(ctx context.Context, facts TaskFacts) *Task {
	facts.Attempt = max(facts.Attempt, 1)
	t := &Task{facts: facts, secrets: facts.Resolver, ctx: ctx, baseLogger: facts.Logger}
	t.view = View{source: (*taskSource)(t), scope: parent(facts.Step)}
	return t
}

// Key is the idempotency key: <run>/<step>/<round>, with /undo behind it for
// an undo. All attempts of a round share it.
func (t *Task) Key() string {
	key := t.facts.Run + "/" + t.facts.Step + "/" + strconv.Itoa(t.facts.Round)
	if t.facts.Undoing {
		key += "/undo"
	}
	return key
}

// Attempt counts the attempts of the round, from 1.
func (t *Task) Attempt() int { return t.facts.Attempt }

// Failures counts the charged failures in a row before this attempt.
func (t *Task) Failures() int { return t.facts.Failures }

// Epoch rises with each claim of the run: for outer systems that can fence.
func (t *Task) Epoch() int64 { return t.facts.Epoch }

// RunID is the id of the run.
func (t *Task) RunID() string { return t.facts.Run }

// Step is the instance name of the step.
func (t *Task) Step() string { return t.facts.Step }

// Subject is what the run works on: kind/namespace/name[/uid].
func (t *Task) Subject() string { return t.facts.Subject }

// Lease is how long this worker's lease on the run still holds, by clocks that go on
// while the process is stopped. With 0 another worker may have the run, and may have
// saved an outcome of this step: an attempt that asks before it begins something
// that cannot be taken back, and returns ErrLeaseLost then, is not charged. leased is false where no
// other worker can take the run.
func (t *Task) Lease() (left time.Duration, leased bool) {
	if t.facts.Lease == nil {
		return 0, false
	}
	return t.facts.Lease(), true
}

// Undoing reports an attempt that takes the step back.
func (t *Task) Undoing() bool { return t.facts.Undoing }

// Retry is the step's policy with its defaults filled in.
func (t *Task) Retry() Retry { return t.facts.Retry.filled() }

// Fault is the failure of the attempt before; in a healer, the fault to end. nil: none.
func (t *Task) Fault() *Fault { return t.facts.Fault }

// Outputs gives the outputs of all steps in the order in which the steps were opened.
func (t *Task) Outputs() iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if w, ok := t.view.source.(driverSource); ok {
			for _, o := range w.outputs() {
				if !yield(o.name, o.output) {
					return
				}
			}
			return
		}
		for _, name := range slices.Sorted(maps.Keys(t.facts.Outputs)) {
			if !yield(name, t.facts.Outputs[name]) {
				return
			}
		}
	}
}

// View is the run as expressions see it.
func (t *Task) View() View { return t.view }

// Waited is the wait this attempt continues; nil on the first look. Its Since
// and Deadline are kept over restarts.
func (t *Task) Waited() *WaitRecord { return t.facts.Wait }

// Logger writes to the run's log, with run and step set.
func (t *Task) Logger() *slog.Logger {
	base := t.baseLogger
	if base == nil {
		base = slog.Default()
	}
	if t.redactor != nil {
		base = slog.New(redactHandler{base.Handler(), t.redactor})
	}
	return base.With("run", t.facts.Run, "step", t.facts.Step)
}

// Input decodes the run's input into v.
func (t *Task) Input(v any) error { return decode(t.facts.Input, v, "input") }

// With decodes the action's parameters into v.
func (t *Task) With(v any) error { return decode(t.facts.With, v, "with") }

// Output decodes what an earlier step has set. The name is resolved as in View.Step.
func (t *Task) Output(step string, v any) error {
	s, ok := t.view.Step(step)
	if !ok || s.Output == nil {
		return fmt.Errorf("step %q has set no output", step)
	}
	return decode(s.Output, v, "output of "+step)
}

// Set sets the step's output: any value that encodes as JSON. The newest Set counts.
// OUTPUT_TOO_LARGE beyond the step's limit.
func (t *Task) Set(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	limit := t.facts.MaxOutput
	if limit == 0 {
		limit = MaxOutput
	}
	if limit = min(limit, MaxOutputRaised); len(data) > limit {
		return OutputTooLarge.Errorf("the output has %d bytes, the limit is %d", len(data), limit)
	}
	if t.capacity > 0 && len(data) > t.capacity {
		return OutputTooLarge.Errorf("the output has %d bytes, and the run may hold %d more of %d", len(data), t.capacity, t.limit)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output = data
	return nil
}

// Result is what Set has set so far; nil if nothing.
func (t *Task) Result() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output
}

// Signal takes the oldest unread signal of the name. It is consumed by the
// write that saves the outcome of this attempt, whatever the outcome is but
// Fail; each call takes the next one.
func (t *Task) Signal(name string) (Signal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.facts.Signals {
		if s.Name == name && !contains(t.taken, s.ID) {
			t.taken = append(t.taken, s.ID)
			return s, true
		}
	}
	return Signal{}, false
}

// Signals gives the unread signals of the name without taking them.
func (t *Task) Signals(name string) []Signal {
	var found []Signal
	for _, s := range t.facts.Signals {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Progress tells how far the attempt is. It counts as a heartbeat, is shown
// live, and is stored at most every 5 s and with each save.
func (t *Task) Progress(done, total int64, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	p := Progress{Done: done, Total: total, Text: text, At: time.Now().UTC()}
	t.mu.Lock()
	t.progress = &p
	reporter := t.reporter
	t.mu.Unlock()
	if reporter != nil {
		reporter.report(p)
	}
}

// Secret resolves a secret the step declares under the name ref, or the
// reference "name" or "name/key" itself. SECRET_MISSING. The value is hidden
// wherever the engine writes text of this run.
func (t *Task) Secret(ref string) (string, error) {
	named, ok := t.facts.Secrets[ref]
	if !ok {
		return "", SecretMissing.Errorf("the step declares no secret %q: add it to its secrets", ref)
	}
	if t.secrets == nil {
		return "", SecretMissing.Errorf("secret %q: no source of secrets is set up", ref)
	}
	value, err := t.secrets.Secret(t.ctx, named)
	if err != nil {
		return "", SecretMissing.Errorf("secret %q: %w", ref, err)
	}
	if t.addSecret != nil {
		t.addSecret(value)
	}
	return value, nil
}

func contains(ids []string, id string) bool {
	for _, known := range ids {
		if known == id {
			return true
		}
	}
	return false
}

// taskWorld answers a View from TaskFacts.
type taskSource Task

func (w *taskSource) info() RunInfo {
	return RunInfo{ID: w.facts.Run, Flow: w.facts.Flow, Subject: w.facts.Subject}
}
func (w *taskSource) input() json.RawMessage { return w.facts.Input }
func (w *taskSource) lookup(name string) (StepView, bool) {
	out, ok := w.facts.Outputs[name]
	return StepView{Phase: StepDone, Output: out}, ok
}
func (w *taskSource) item(string, string) (json.RawMessage, bool) { return nil, false }
func (w *taskSource) params(string) (json.RawMessage, error)      { return json.RawMessage("{}"), nil }
func (w *taskSource) object() (json.RawMessage, error)            { return json.RawMessage("null"), nil }
