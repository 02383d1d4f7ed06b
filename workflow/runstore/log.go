package runstore

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Limits of logs. The first two are in bytes of LogLine.Cost, the third in bytes of text. See
// docs/adr/0137-logs-of-steps.md.
const (
	MaxAttemptLog = 256 << 10 // of one attempt: the first and the last half
	MaxRunLog     = 4 << 20   // of one run: the newest
	MaxLogLine    = 16 << 10  // a longer line becomes several
)

// LogsNotKept is the fault of reading logs from a store that keeps none.
var LogsNotKept = fault.Declare(fault.Kind{Code: "LOGS_NOT_KEPT", Class: fault.Blocked, Title: "the store keeps no logs of steps",
	Remedy: "Read the log of the process that runs the steps, on Kubernetes with kubectl logs; or keep the runs in SQLite or PostgreSQL."})

// Logs is a store that keeps what the attempts of steps print. Logs are not part of the state of a
// run: nothing is decided by them, and a crash may lose the newest ones.
type Logs interface {
	// WriteLogs stores all writes, or none. Writes to a run that does not exist are ignored. It numbers
	// the chunks of each run, from 1, in the order of the writes, and sets LogChunk.Number. If the lines of a run
	// cost more than MaxRunLog then, its oldest chunks are removed until they cost at most KeptRunLog. What a
	// store counts may differ from LogLine.Cost by a tenth.
	WriteLogs(ctx context.Context, writes []*LogWrite) error
	// ReadLogs returns chunks of a run in the order of their numbers. A run without logs has none.
	// ErrNotFound.
	ReadLogs(ctx context.Context, id string, q LogQuery) (LogPage, error)
}

// LogWrite changes the logs of a run: it adds chunks of any attempts, or also removes chunks of one.
type LogWrite struct {
	Run    string
	Chunks []*LogChunk // to add
	Remove []int64     // numbers of chunks to remove
	Into   int64       // number of the chunk whose LeftOut counts what is removed; 0: LeftOut of one of Chunks does
}

// LogChunk is a part of what one attempt has printed. A store does not change Lines.
type LogChunk struct {
	Number  int64
	Step    string // instance name; of a healer heal:CODE
	Round   int
	Attempt int
	Undo    bool  // the attempt takes the step back
	LeftOut int64 // bytes that the attempt printed before these lines and that are not kept
	Bytes   int64 // of the texts, with an end of line for each
	Lines   []LogLine
}

// LogLine is a line without its end.
type LogLine struct {
	At     time.Time `json:"t"`
	Stream LogStream `json:"s,omitempty"`
	Text   string    `json:"x"`
}

// lineCost is what a store needs for a line beside its text: time, stream, and the syntax around them.
const lineCost = 64

// Cost is about how many bytes a store needs for the line. The text is counted as JSON writes it.
func (l LogLine) Cost() int64 {
	n := lineCost + len(l.Text)
	for i := range len(l.Text) {
		switch c := l.Text[i]; {
		case c == '"', c == '\\', c == '\t', c == '\n', c == '\r':
			n++
		case c < ' ', c == '<', c == '>', c == '&':
			n += len(`\u0000`) - 1
		}
	}
	return int64(n)
}

// Cost is what the lines of the chunk cost.
func (c *LogChunk) Cost() (sum int64) {
	for _, l := range c.Lines {
		sum += l.Cost()
	}
	return sum
}

// LogStream is where a line was printed.
type LogStream string

// The streams of an attempt.
const (
	LogOut    LogStream = "stdout"
	LogErr    LogStream = "stderr"
	LogLogger LogStream = "log" // lines of Task.Logger
)

// LogQuery selects chunks.
type LogQuery struct {
	After  int64 // only chunks with a greater number
	Before int64 // only chunks with a smaller number; 0: all
	Newest bool  // the newest ones, if there are more than Limit
	Limit  int   // chunks; default 100
}

// LogPage is the answer to a LogQuery.
type LogPage struct {
	Chunks  []LogChunk
	LeftOut int64 // bytes of the oldest chunks that the run does not keep any more
}

// Matches reports whether a query selects a chunk.
func (q LogQuery) Matches(number int64) bool {
	return number > q.After && (q.Before == 0 || number < q.Before)
}

// KeptRunLog is how much, in bytes of LogLine.Cost, of a run's logs is kept when there is more than MaxRunLog.
const KeptRunLog = MaxRunLog / 8 * 7

// PageSize returns the limit with its default.
func (q LogQuery) PageSize() int {
	if q.Limit <= 0 {
		return 100
	}
	return q.Limit
}
