package events

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/runs"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Times and sizes of a stream of lines.
const (
	settling  = time.Second // from the end of a step to the end of its lines, while its run goes on
	logEvents = 500         // most lines of one event
	logBytes  = 100 << 10   // most bytes of its lines, but for the last: readers take 1 MiB a line of the stream
)

// LogEvent is the data of the event `log`.
type LogEvent struct {
	Lines []view.LogLine `json:"lines"`
}

// LogEndEvent is the data of the event `end`: no more lines come.
type LogEndEvent struct {
	Phase runtype.Phase `json:"phase,omitempty" doc:"of the run; absent: it was removed"`
}

type logStream struct {
	runs.LogsOf
	LastEventID string `header:"Last-Event-ID" doc:"continue after this event; absent: as since and tail say, else with the oldest line"`
	After       string `query:"after" doc:"the same for clients that cannot set headers"`
}

// ofLogs streams the lines of a run until it, or the step, has ended.
func (s *Service) ofLogs(ctx context.Context, in *logStream) (*huma.StreamResponse, error) {
	reader, err := s.Runs.LogReader(ctx, in.LogsOf, cmp.Or(in.LastEventID, in.After))
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		if r.Method == http.MethodHead { // the answer has no body
			return
		}
		who := route.CallOf(r.Context()).Who
		t := &logWriter{s: s, reader: reader, w: w, conn: http.NewResponseController(w), authorized: func() bool {
			again, err := s.Identify(r)
			return err == nil && again == who
		}}
		if err := t.serve(r.Context()); err != nil && r.Context().Err() == nil {
			s.Log.Debug("a stream of logs broke off", "run", reader.Run.ID, "error", err)
		}
	}}, nil
}

// logWriter writes one stream.
type logWriter struct {
	s          *Service
	reader     *runs.LogReader
	w          http.ResponseWriter
	conn       *http.ResponseController
	authorized func() bool
}

// serve writes lines until the reader disconnects, nothing can come, or the server ends.
func (t *logWriter) serve(ctx context.Context) error {
	if err := t.write("retry: 1000\n\n"); err != nil {
		return err
	}
	tail, stop := t.s.tails.follow(t.s.Runs.Engine, t.reader.Run.ID)
	defer stop()
	keepalive, identify := time.NewTicker(t.s.Heartbeat), time.NewTicker(t.s.Heartbeat)
	defer keepalive.Stop()
	defer identify.Stop()
	var looked int64             // at the end: with this state of the run
	var settled <-chan time.Time // the step has ended; nil: it has not
	ended := false
	for {
		select { // also while lines come without a pause
		case <-ctx.Done():
			return nil
		case <-t.s.ended:
			return nil
		case <-identify.C:
			if !t.authorized() {
				return nil
			}
		default:
		}
		changed := tail.changed.Next()
		lines, err := t.reader.Next(ctx, logEvents)
		if err != nil {
			return err
		}
		switch {
		case len(lines) > 0:
			if err := t.lines(lines); err != nil {
				return err
			}
			keepalive.Reset(t.s.Heartbeat)
			continue
		case ended: // nothing came between the end and this reading
			return t.end(ctx)
		}
		if head, version := tail.head(); version != looked {
			looked = version
			end, err := t.s.Runs.End(ctx, t.reader, head)
			switch {
			case err != nil:
				return err
			case end == runs.LogEnded:
				ended = true
				continue
			case end == runs.LogOpen:
				settled = nil
			case settled == nil:
				settled = time.After(settling)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.s.ended:
			return nil
		case <-changed:
		case <-settled:
			ended = true
		case <-identify.C:
			if !t.authorized() {
				return nil
			}
		case <-keepalive.C:
			if err := t.write(": here\n\n"); err != nil {
				return err
			}
		}
	}
}

// lines writes lines as events. Only the last event has an id: a reader goes on behind all of them.
func (t *logWriter) lines(lines []view.LogLine) error {
	for len(lines) > 0 {
		n, size := 0, 0
		for ; n < len(lines) && size < logBytes; n++ {
			size += len(lines[n].Text)
		}
		if err := t.event("log", LogEvent{lines[:n]}, n == len(lines)); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (t *logWriter) end(ctx context.Context) error {
	var e LogEndEvent
	if r, err := t.s.Runs.Engine.Head(ctx, t.reader.Run.ID); err == nil {
		e.Phase = r.Phase
	}
	return t.event("end", e, true)
}

func (t *logWriter) event(kind string, data any, last bool) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	id := ""
	if cursor := t.reader.Cursor(); last && cursor != "" {
		id = "id: " + cursor + "\n"
	}
	return t.write(id + "event: " + kind + "\ndata: " + string(text) + "\n\n")
}

// write writes to a reader that may be slow, but not too slow.
func (t *logWriter) write(text string) error {
	_ = t.conn.SetWriteDeadline(time.Now().Add(t.s.SlowReader)) // not all writers have deadlines
	_, err := io.WriteString(t.w, text)
	if err == nil {
		err = t.conn.Flush()
	}
	_ = t.conn.SetWriteDeadline(time.Time{})
	return err
}
