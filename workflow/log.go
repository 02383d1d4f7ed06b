package workflow

import (
	"io"
	"log/slog"
	"sync"

	"github.com/pawl-dev/pawl/workflow/internal/redact"
	"github.com/pawl-dev/pawl/workflow/internal/steplog"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Stdout returns a writer for what the step prints. Its lines are the log of the attempt, which
// `pawl logs` and the API show while the attempt runs and as long as the run is kept:
//
//	cmd := exec.CommandContext(ctx, "make", "release")
//	cmd.Stdout, cmd.Stderr = t.Stdout(), t.Stderr()
//
// A Write neither fails nor waits for the store. Secrets that the run has read are redacted. Of an
// attempt the first and the last 128 KiB are kept; see runstore.Logs. If the store keeps no logs, they
// are dropped.
func (t *Task) Stdout() io.Writer { return t.stream(runstore.LogOut, t.facts.Stdout) }

// Stderr is Stdout for messages; readers can tell the two apart.
func (t *Task) Stderr() io.Writer { return t.stream(runstore.LogErr, t.facts.Stderr) }

// Logger returns a logger with the attributes run and step, which writes to the logger of the engine.
// Lines of level Info and above are also in the log of the attempt, as those of Stdout. It redacts secrets.
func (t *Task) Logger() *slog.Logger {
	base := t.baseLogger
	if base == nil {
		base = slog.Default()
	}
	handler := base.With("run", t.facts.Run, "step", t.facts.Step).Handler()
	if log := t.printed.of(t); log != nil {
		handler = slog.NewMultiHandler(handler, slog.NewTextHandler(log.Stream(runstore.LogLogger), &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	}
	if t.redactor != nil {
		handler = redact.Handler{Handler: handler, Redactor: t.redactor}
	}
	return slog.New(handler)
}

// Printed returns a channel that receives after this engine has stored lines of a run. It tells nothing of
// lines of other engines. The caller calls stop.
func (e *Engine) Printed(id string) (printed <-chan struct{}, stop func()) { return e.printing.add(id) }

// withoutTime removes the time of a record: each line of a log has one.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// stream returns a stream of the attempt's log, or where a test takes it.
func (t *Task) stream(name runstore.LogStream, elsewhere io.Writer) io.Writer {
	if elsewhere != nil {
		return elsewhere
	}
	if log := t.printed.of(t); log != nil {
		return log.Stream(name)
	}
	return io.Discard
}

// printed is the log of one attempt. It is made when the attempt prints for the first time.
type printed struct {
	writer *steplog.Writer // nil: it is not kept

	mu  sync.Mutex
	log *steplog.Attempt
}

func (p *printed) of(t *Task) *steplog.Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil && p.writer != nil {
		p.log = p.writer.NewAttempt(steplog.Facts{Run: t.facts.Run, Step: t.facts.Step, Round: t.facts.Round, Attempt: t.facts.Attempt, Undo: t.facts.Undoing}, t.redactor)
	}
	return p.log
}

// close hands over what is left, and reports whether there is a log. A step that ignores its context may
// still print.
func (p *printed) close() bool {
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	if log != nil {
		log.Close()
	}
	return log != nil
}
