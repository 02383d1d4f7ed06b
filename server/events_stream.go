package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	eventPage = 500
	lookGap   = 20 * time.Millisecond // shortest time between a notification and the poll
)

// stream is an open event stream.
type stream struct {
	s        *Server
	lister   workflow.Lister
	objects  control.Objects
	clusters *service.Service // nil: no events of clusters
	who      cluster.Caller
	still    func() bool // the credentials are still those of the same caller; nil: always
	at       position
	lost     bool            // the position is not valid any more
	asked    bool            // the position comes from the reader and was not used yet
	run      string          // only events of this run
	cluster  string          // only events of this cluster and its runs
	seen     map[string]bool // whether the caller may see a run, by run id
	begun    []string        // runs with a step that began to wait or to retry in this poll
	waited   string          // last waiting event of a stream of one cluster or run
	wants    func(kind string) bool
	w        io.Writer
	flush    func() error
}

// serve writes events until the reader disconnects or the server ends.
func (t *stream) serve(ctx context.Context, w http.ResponseWriter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn := http.NewResponseController(w)
	t.w = w
	t.flush = func() error { return conn.Flush() }
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)

	changes := make(chan control.Change[control.Object])
	gap := make(chan struct{})
	if err := t.begin(ctx); err != nil {
		t.s.log.Debug("an event stream could not start", "error", err)
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if t.objects != nil {
		from := t.at.objects
		watching.Go(func() { t.watch(ctx, from, changes, gap) })
	}
	// Not all writers have deadlines. A deadline that stays set would end an idle HTTP/2 stream.
	deadline := func() { _ = conn.SetWriteDeadline(now().Add(t.s.options.SlowReader)) }
	patient := func() { _ = conn.SetWriteDeadline(time.Time{}) }
	deadline()
	if t.say("", "retry: 1000\n\n") != nil || t.flush() != nil {
		return
	}
	quiet := time.NewTicker(t.s.options.Heartbeat)
	defer quiet.Stop()
	look := time.NewTicker(t.s.options.Look)
	defer look.Stop()
	ask := time.NewTicker(t.s.options.Heartbeat)
	defer ask.Stop()
	for {
		rung := t.s.options.Notifier.wait()
		deadline()
		runs, err := t.runs(ctx)
		if err != nil {
			return
		}
		clusters, err := t.clusterEvents(ctx)
		told := runs || clusters
		if err != nil || told && t.flush() != nil {
			return
		}
		if told {
			quiet.Reset(t.s.options.Heartbeat)
		}
		patient()
		select {
		case <-ctx.Done():
			return
		case <-t.s.ending:
			return
		case <-rung:
			select {
			case <-time.After(lookGap):
			case <-ctx.Done():
				return
			}
		case <-look.C:
		case <-gap:
			gap = nil
			t.at.objects = ""
			deadline()
			if t.reset(ctx) != nil || t.flush() != nil {
				return
			}
		case c := <-changes:
			deadline()
			if t.object(c) != nil || t.flush() != nil {
				return
			}
			quiet.Reset(t.s.options.Heartbeat)
		case <-ask.C:
			if t.still != nil && !t.still() {
				return
			}
		case <-quiet.C:
			deadline()
			if t.say("", ": here\n\n") != nil || t.flush() != nil {
				return
			}
		}
	}
}

// start sets the position of the stream: now, or that of the reader if it is still valid.
func (t *stream) begin(ctx context.Context) error {
	if !t.lost && t.at.cursor != "" {
		_, end, err := t.lister.Events(ctx, "now", 1)
		if err != nil {
			return err
		}
		if t.lost = ahead(t.at.cursor, end); !t.lost {
			if t.lost, err = t.missed(ctx); err != nil {
				return err
			}
		}
	}
	if t.lost {
		return t.reset(ctx)
	}
	return t.fill(ctx)
}

// cursorAhead reports a cursor after the end of the log: it is of another store, or the
// store was restored to an earlier state.
func ahead(cursor, end string) bool {
	at, ok := leading(cursor)
	last, comparable := leading(end)
	return ok && comparable && at > last
}

// cursorNumber returns the number at the beginning of a cursor. It grows in every store.
func leading(cursor string) (int64, bool) {
	digits := cursor
	if i := strings.IndexFunc(cursor, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = cursor[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// fillPosition sets the missing parts of the position to now.
func (t *stream) fill(ctx context.Context) error {
	if t.at.cursor == "" {
		_, next, err := t.lister.Events(ctx, "now", 1)
		if err != nil {
			return err
		}
		t.at.cursor = next
	}
	if t.objects != nil && t.at.objects == "" {
		_, version, err := t.objects.Feed("").List(ctx)
		if err != nil {
			return err
		}
		t.at.objects = version
	}
	if t.clusters != nil && t.at.clusters == "" {
		_, newest, err := t.clusters.Feed(ctx)
		if err != nil {
			return err
		}
		t.at.clusters = strconv.FormatInt(newest, 10)
	}
	return nil
}

// reset sets the position to now and writes a reset event.
func (t *stream) reset(ctx context.Context) error {
	t.at = position{}
	if err := t.fill(ctx); err != nil {
		return err
	}
	return t.event("reset", struct{}{})
}

// writeRuns writes the events of runs that were saved since the last poll.
func (t *stream) runs(ctx context.Context) (told bool, err error) {
	for {
		events, next, err := t.lister.Events(ctx, t.at.cursor, eventPage)
		if ctx.Err() != nil {
			return told, ctx.Err()
		}
		read, asked := t.at.read, t.asked
		t.asked = false
		switch {
		case err != nil && !(asked && fault.Of(err).Class == fault.Invalid): // an error of the store: the reader reconnects
			return told, err
		case err != nil, read > len(events), read > 0 && checkOf(events[read-1]) != t.at.check:
			return true, t.reset(ctx)
		}
		for i, e := range events[read:] {
			t.at.read, t.at.check = read+i+1, checkOf(e)
			kind := kindOfEvent(e)
			waits := e.Kind == workflow.StepWaitingEvent || e.Kind == workflow.StepRetryingEvent
			if t.run != "" && e.Run != t.run || !t.wants(kind) && !(waits && t.wants("waiting")) {
				continue
			}
			if may, err := t.hears(ctx, e.Run); err != nil {
				return told, err
			} else if !may {
				continue
			}
			if waits && !slices.Contains(t.begun, e.Run) {
				t.begun = append(t.begun, e.Run)
			}
			if !t.wants(kind) {
				continue
			}
			told = true
			if err := t.event(kind, RunEvent{ID: e.Run, Event: view.Event(e), State: phaseOf(e.Kind)}); err != nil {
				return told, err
			}
		}
		t.at.cursor, t.at.read, t.at.check = next, 0, ""
		if waits, err := t.waits(ctx); err != nil {
			return told, err
		} else if waits {
			told = true
		}
		if len(events) < eventPage {
			return told, nil
		}
	}
}

// watchObjects passes on changes of objects until the stream ends. It closes gap and returns if changes were lost.
func (t *stream) watch(ctx context.Context, from string, changes chan<- control.Change[control.Object], gap chan<- struct{}) {
	for ctx.Err() == nil {
		for change, err := range t.objects.Feed("").Watch(ctx, from) {
			if errors.Is(err, control.ErrGap) {
				close(gap)
				return
			}
			if err != nil {
				break
			}
			from = change.Version
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
		select { // the feed broke: watch again from the last position
		case <-time.After(t.s.options.Look):
		case <-ctx.Done():
		}
	}
}

func (t *stream) object(c control.Change[control.Object]) error {
	t.at.objects = c.Version
	if c.Type == control.Bookmark {
		return nil
	}
	o := c.Item.Value
	return t.event("object", ObjectEvent{ID: c.Item.Key, Revision: o.Revision, State: view.StateOf(o).State, Deleted: c.Type == control.Delete})
}

func (t *stream) event(kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return t.say(t.at.String(), "event: "+kind+"\ndata: "+string(text)+"\n\n")
}

func (t *stream) say(id, text string) error {
	if id != "" {
		text = "id: " + id + "\n" + text
	}
	_, err := io.WriteString(t.w, text)
	return err
}
