package steplog

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/workflow/internal/redact"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Limits of a chunk, and of each end of an attempt's log. Bytes are those of runstore.LogLine.Cost.
const (
	chunkLines = 500
	chunkBytes = 32 << 10
	endBytes   = runstore.MaxAttemptLog / 2
)

// Facts say which attempt prints.
type Facts struct {
	Run     string
	Step    string
	Round   int
	Attempt int
	Undo    bool
}

// Attempt takes what one attempt prints and keeps its first and its last lines. It may be used from
// several goroutines.
type Attempt struct {
	writer   *Writer
	facts    Facts
	redactor *redact.Redactor // nil: nothing is redacted

	mu      sync.Mutex
	streams map[runstore.LogStream]*stream
	head    []runstore.LogLine // new lines of the first half
	tail    []runstore.LogLine // new lines behind it
	begun   int64              // cost of the first half so far, written or not
	full    bool               // the first half has no more room
	fresh   int64              // cost of head
	size    int64              // cost of tail
	skipped int64              // bytes that were left out before tail
	lost    int64              // bytes of lines that the store did not take
	written []*chunk           // chunks of the last half that the store keeps, without lines
	kept    int64              // their cost

	queued *batch // that the attempt is in; under Writer.mu
}

// chunk is a chunk of a write.
type chunk struct {
	*runstore.LogChunk
	cost int64
}

// stream is one stream of an attempt.
type stream struct {
	attempt *Attempt
	name    runstore.LogStream
	held    string // may be the beginning of a secret
	line    []byte // clean text of the line that has no end yet
}

// NewAttempt returns the log of an attempt. The caller closes it.
func (w *Writer) NewAttempt(facts Facts, redactor *redact.Redactor) *Attempt {
	return &Attempt{writer: w, facts: facts, redactor: redactor, streams: map[runstore.LogStream]*stream{}}
}

// Stream returns the writer of one stream. It neither fails nor waits.
func (a *Attempt) Stream(name runstore.LogStream) io.Writer {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[name]
	if s == nil {
		s = &stream{attempt: a, name: name}
		a.streams[name] = s
	}
	return s
}

// heldSecret is from how many bytes on the beginning of a secret, at the end of what was printed, is one.
const heldSecret = 4

// Close takes the lines that have no end. It does not wait until the lines are written, which Writer.Flush
// does, unless very much waits. What is printed later is written without anybody waiting for it.
func (a *Attempt) Close() {
	a.mu.Lock()
	for _, s := range a.streams {
		if s.held != "" {
			if len(s.held) >= heldSecret {
				s.held = "***"
			}
			s.add(a.redactor.Text(s.held))
			s.held = ""
		}
		if len(s.line) > 0 {
			a.add(s.name, string(s.line))
			s.line = nil
		}
	}
	waiting := a.fresh + a.size
	a.mu.Unlock()
	if waiting > 0 {
		a.writer.addClosed(a, waiting)
	}
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	a := s.attempt
	a.mu.Lock()
	clean := string(p)
	if a.redactor != nil {
		clean, s.held = a.redactor.Stream(s.held + clean)
	}
	s.add(clean)
	fresh := a.hasNew()
	a.mu.Unlock()
	if fresh {
		a.writer.add(a)
	}
	return len(p), nil
}

// add splits text into lines.
func (s *stream) add(text string) {
	for text != "" {
		line, rest, ended := strings.Cut(text, "\n")
		if room := runstore.MaxLogLine - len(s.line); len(line) > room {
			n := room
			for n > 0 && room-n < utf8.UTFMax && !utf8.RuneStart(line[n]) {
				n--
			}
			s.line = append(s.line, line[:n]...)
			text = text[n:]
		} else {
			s.line = append(s.line, line...)
			text = rest
			if !ended {
				return
			}
		}
		s.attempt.add(s.name, string(bytes.TrimSuffix(s.line, []byte("\r"))))
		s.line = s.line[:0]
	}
}

// sizeOf is how many bytes were printed for a line.
func sizeOf(l runstore.LogLine) int64 { return int64(len(l.Text)) + 1 }

// add takes a line.
func (a *Attempt) add(name runstore.LogStream, text string) {
	l := runstore.LogLine{At: time.Now().UTC(), Stream: name, Text: strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")}
	cost := l.Cost()
	if !a.full && a.begun+cost <= endBytes {
		a.begun += cost
		a.fresh += cost
		a.head = append(a.head, l)
		return
	}
	a.full = true
	a.tail = append(a.tail, l)
	a.size += cost
	for a.size > endBytes {
		a.skipped += sizeOf(a.tail[0])
		a.size -= a.tail[0].Cost()
		a.tail = a.tail[1:]
	}
}

func (a *Attempt) hasNew() bool { return len(a.head)+len(a.tail) > 0 }

// part is what one write has of an attempt.
type part struct {
	attempt *Attempt
	chunks  []*chunk
	remove  []int64
	into    int64
	head    int // chunks of the first half, the others are of the last
	removed int // chunks of written that the write removes
}

// take moves the new lines into a write; nil: there are none.
func (a *Attempt) take() *part {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.hasNew() {
		return nil
	}
	p := &part{attempt: a, chunks: a.chunks(a.head)}
	p.head = len(p.chunks)
	p.chunks = append(p.chunks, a.chunks(a.tail)...)
	left := a.kept
	removed := int64(0)
	for ; p.removed < len(a.written) && (left+a.size > endBytes || a.skipped > 0); p.removed++ {
		c := a.written[p.removed]
		left -= c.cost
		removed += c.Bytes + c.LeftOut
		p.remove = append(p.remove, c.Number)
	}
	switch {
	case p.removed == 0:
	case p.removed < len(a.written):
		p.into = a.written[p.removed].Number
	default:
		p.chunks[p.head].LeftOut += removed
	}
	if len(a.tail) > 0 {
		p.chunks[p.head].LeftOut += a.skipped
		a.skipped = 0
	}
	p.chunks[0].LeftOut += a.lost
	a.head, a.tail, a.fresh, a.size, a.lost = nil, nil, 0, 0, 0
	return p
}

// chunks splits lines.
func (a *Attempt) chunks(lines []runstore.LogLine) (list []*chunk) {
	var c *chunk
	for i, l := range lines {
		cost := l.Cost()
		if c == nil || len(c.Lines) == chunkLines || c.cost+cost > chunkBytes {
			c = &chunk{LogChunk: &runstore.LogChunk{Step: a.facts.Step, Round: a.facts.Round, Attempt: a.facts.Attempt, Undo: a.facts.Undo}}
			list = append(list, c)
		}
		c.Lines = append(c.Lines, lines[i])
		c.Bytes += sizeOf(l)
		c.cost += cost
	}
	return list
}

// done notes the end of a write.
func (p *part) done(stored bool) {
	a := p.attempt
	a.mu.Lock()
	defer a.mu.Unlock()
	if !stored {
		gone := a.written[:p.removed]
		for _, c := range p.chunks {
			a.lost += c.Bytes + c.LeftOut
		}
		if p.into == 0 { // LeftOut of a new chunk counted them, and they are still there
			for _, c := range gone {
				a.lost -= c.Bytes + c.LeftOut
			}
		}
		return
	}
	for _, c := range a.written[:p.removed] {
		a.kept -= c.cost
		if p.into != 0 {
			a.written[p.removed].LeftOut += c.Bytes + c.LeftOut
		}
	}
	a.written = a.written[p.removed:]
	for _, c := range p.chunks[p.head:] {
		c.Lines = nil
		a.kept += c.cost
		a.written = append(a.written, c)
	}
}
