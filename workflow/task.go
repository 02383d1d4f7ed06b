package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/internal/redact"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Task gives one attempt of a step access to its run. Its methods may be called from several
// goroutines. The values that they return are copies.
type Task struct {
	facts TaskFacts
	view  View

	mu         sync.Mutex
	output     json.RawMessage
	taken      []string
	progress   *runtype.Progress
	reporter   *attempt
	secrets    Secrets
	ctx        context.Context
	addSecret  func(string) // adds a value to redact
	capacity   int          // bytes that the run may still store; 0: not known
	limit      int          // largest total size of the run in bytes
	baseLogger *slog.Logger
	redactor   *redact.Redactor
	printed    printed
}

// TaskFacts is the data of a task. NewTask takes it, for tests of steps and actions without an
// engine.
type TaskFacts struct {
	Run, Flow, Subject, Step string // Step is the instance name
	Round                    int
	Attempt                  int // from 1
	Failures                 int // consecutive counted failures before this attempt
	Epoch                    int64
	Undoing                  bool
	Input                    json.RawMessage
	With                     json.RawMessage            // parameters of the action; expressions are resolved
	Outputs                  map[string]json.RawMessage // outputs of earlier steps, for NewTask only
	Signals                  []runtype.Signal           // unread, oldest first
	MaxOutput                int
	Secrets                  map[string]SecretRef
	Resolver                 Secrets
	Wait                     *runtype.WaitRecord // the wait this attempt continues; nil on a fresh attempt
	Retry                    Retry
	Fault                    *runtype.Fault // fault of the previous attempt, or the fault that the healer must remove
	Logger                   *slog.Logger
	Stdout, Stderr           io.Writer            // take what the task prints, for NewTask only; nil: nobody reads it
	Lease                    func() time.Duration // remaining time of the worker's lease on the run; nil: no other worker can claim the run
}

// NewTask creates a task without an engine, for tests of steps and actions.
func NewTask(ctx context.Context, facts TaskFacts) *Task {
	facts.Attempt = max(facts.Attempt, 1)
	t := &Task{facts: facts, secrets: facts.Resolver, ctx: ctx, baseLogger: facts.Logger}
	t.view = View{source: (*taskSource)(t), scope: parent(facts.Step)}
	return t
}

// Key is the idempotency key <run>/<step>/<round>; for an undo /undo is appended. All attempts of a
// round have the same key.
func (t *Task) Key() string {
	key := t.facts.Run + "/" + t.facts.Step + "/" + strconv.Itoa(t.facts.Round)
	if t.facts.Undoing {
		key += "/undo"
	}
	return key
}

// Attempt is the number of the attempt in its round, from 1.
func (t *Task) Attempt() int { return t.facts.Attempt }

// Failures is the number of consecutive counted failures before this attempt.
func (t *Task) Failures() int { return t.facts.Failures }

// Epoch increases with each claim of the run. External systems can use it as a fencing token.
func (t *Task) Epoch() int64 { return t.facts.Epoch }

// RunID is the id of the run.
func (t *Task) RunID() string { return t.facts.Run }

// Step is the instance name of the step.
func (t *Task) Step() string { return t.facts.Step }

// Subject is the object of the run: kind/namespace/name[/uid].
func (t *Task) Subject() string { return t.facts.Subject }

// Lease returns how long this worker may still begin something in the run: the remaining time of
// its lease, less a tenth as a reserve. It uses clocks that continue while the process is
// suspended. If it is 0, another worker may soon own the run, or have saved an outcome of this
// step. So an attempt checks it before it does something that cannot be undone, and returns
// ErrLeaseLost if it is 0; that failure is not counted. leased is false if no other worker can
// claim the run.
func (t *Task) Lease() (left time.Duration, leased bool) {
	if t.facts.Lease == nil {
		return 0, false
	}
	return t.facts.Lease(), true
}

// Undoing reports whether the attempt undoes the step.
func (t *Task) Undoing() bool { return t.facts.Undoing }

// Retry returns the retry policy of the step with its defaults.
func (t *Task) Retry() Retry { return t.facts.Retry.filled() }

// Fault is the failure of the previous attempt; in a healer, the fault to remove. nil: none.
func (t *Task) Fault() *runtype.Fault { return t.facts.Fault }

// Outputs returns the outputs of all steps in the order in which the steps were opened.
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

// View returns the run as expressions read it.
func (t *Task) View() View { return t.view }

// Waited is the wait that this attempt continues; nil in the first attempt. Its Since and Deadline
// survive restarts.
func (t *Task) Waited() *runtype.WaitRecord { return t.facts.Wait }

// Input decodes the input of the run into v.
func (t *Task) Input(v any) error { return decode(t.facts.Input, v, "input") }

// With decodes the parameters of the action into v.
func (t *Task) With(v any) error { return decode(t.facts.With, v, "with") }

// Output decodes the output of an earlier step. The name is resolved as in View.Step.
func (t *Task) Output(step string, v any) error {
	s, ok := t.view.Step(step)
	if !ok || s.Output == nil {
		return fmt.Errorf("step %q has set no output", step)
	}
	return decode(s.Output, v, "output of "+step)
}

// Set sets the output of the step to a value that encodes as JSON. The newest call counts.
// OUTPUT_TOO_LARGE if it exceeds the limit of the step or of the run.
func (t *Task) Set(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	limit := t.facts.MaxOutput
	if limit == 0 {
		limit = runtype.MaxOutput
	}
	if limit = min(limit, runtype.MaxOutputRaised); len(data) > limit {
		return runtype.OutputTooLarge.Errorf("the output has %d bytes, the limit is %d", len(data), limit)
	}
	if t.capacity > 0 && len(data) > t.capacity {
		return runtype.OutputTooLarge.Errorf("the output has %d bytes, and the run may hold %d more of %d", len(data), t.capacity, t.limit)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output = data
	return nil
}

// Result returns the output that Set has set; nil if there is none.
func (t *Task) Result() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output
}

// Signal takes the oldest unread signal with this name. Each call takes the next one. The write
// that saves the outcome of this attempt consumes the signals, unless the outcome is Fail.
func (t *Task) Signal(name string) (runtype.Signal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.facts.Signals {
		if s.Name == name && !slices.Contains(t.taken, s.ID) {
			t.taken = append(t.taken, s.ID)
			return s, true
		}
	}
	return runtype.Signal{}, false
}

// Signals returns the unread signals with this name without taking them.
func (t *Task) Signals(name string) []runtype.Signal {
	var found []runtype.Signal
	for _, s := range t.facts.Signals {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Progress reports how far the attempt is. It counts as a heartbeat. The engine stores it with each
// save, and otherwise at most once per Options.ProgressInterval.
func (t *Task) Progress(done, total int64, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	p := runtype.Progress{Done: done, Total: total, Text: text, At: time.Now().UTC()}
	t.mu.Lock()
	t.progress = &p
	reporter := t.reporter
	t.mu.Unlock()
	if reporter != nil {
		reporter.report(p)
	}
}

// Secret returns the value of a secret that the step declares under the name ref. SECRET_MISSING.
// The engine redacts the value in all texts of this run.
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

// taskSource answers a View from TaskFacts.
type taskSource Task

func (w *taskSource) info() RunInfo {
	return RunInfo{ID: w.facts.Run, Flow: w.facts.Flow, Subject: w.facts.Subject}
}

func (w *taskSource) input() json.RawMessage { return w.facts.Input }

func (w *taskSource) lookup(name string) (StepView, bool) {
	out, ok := w.facts.Outputs[name]
	return StepView{Phase: runtype.StepDone, Output: out}, ok
}

func (w *taskSource) item(string, string) (json.RawMessage, bool) { return nil, false }

func (w *taskSource) params(string) (json.RawMessage, error) { return json.RawMessage("{}"), nil }

func (w *taskSource) object() (json.RawMessage, error) { return json.RawMessage("null"), nil }
