package events

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
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	eventPage = 500
	pollGap   = 20 * time.Millisecond // shortest time between a notification and the poll
)

// stream is an open event stream.
type stream struct {
	s              *Service
	lister         runstore.Lister
	objects        control.Objects
	watched        []watched
	clusters       *service.Service // nil: no events of clusters
	who            cluster.Caller
	authorized     func() bool // the credentials are still those of the same caller; nil: always
	pos            position
	mustReset      bool            // the position is not valid any more
	fromReader     bool            // the position comes from the reader and was not used yet
	run            string          // only events of this run
	cluster        string          // only events of this cluster and its runs
	visible        map[string]bool // whether the caller may see a run, by run id
	startedWaiting []string        // runs with a step that began to wait or to retry in this poll
	lastWaiting    string          // last waiting event of a stream of one cluster or run
	wants          func(kind string) bool
	w              io.Writer
	flush          func() error
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
	if err := t.start(ctx); err != nil {
		t.s.Log.Debug("an event stream could not start", "error", err)
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if t.objects != nil {
		from := t.pos.objects
		watching.Go(func() { t.watchObjects(ctx, from, changes, gap) })
	}
	changed := make(chan watched)
	for _, w := range t.watched {
		watching.Go(func() { t.follow(ctx, w, changed) })
	}
	// Not all writers have deadlines. A deadline that stays set would end an idle HTTP/2 stream.
	deadline := func() { _ = conn.SetWriteDeadline(time.Now().Add(t.s.SlowReader)) }
	patient := func() { _ = conn.SetWriteDeadline(time.Time{}) }
	deadline()
	if t.write("", "retry: 1000\n\n") != nil || t.flush() != nil {
		return
	}
	keepalive := time.NewTicker(t.s.Heartbeat)
	defer keepalive.Stop()
	poll := time.NewTicker(t.s.PollInterval)
	defer poll.Stop()
	identify := time.NewTicker(t.s.Heartbeat)
	defer identify.Stop()
	for {
		notified := t.s.Notifier.Next()
		deadline()
		runs, err := t.writeRuns(ctx)
		if err != nil {
			return
		}
		clusters, err := t.writeClusterEvents(ctx)
		reported := runs || clusters
		if err != nil || reported && t.flush() != nil {
			return
		}
		if reported {
			keepalive.Reset(t.s.Heartbeat)
		}
		patient()
		select {
		case <-ctx.Done():
			return
		case <-t.s.ended:
			return
		case <-notified:
			select {
			case <-time.After(pollGap):
			case <-ctx.Done():
				return
			}
		case <-poll.C:
		case <-gap:
			gap = nil
			t.pos.objects = ""
			deadline()
			if t.reset(ctx) != nil || t.flush() != nil {
				return
			}
		case c := <-changes:
			deadline()
			if t.writeObject(c) != nil || t.flush() != nil {
				return
			}
			keepalive.Reset(t.s.Heartbeat)
		case w := <-changed:
			deadline()
			if t.writeWatched(w) != nil || t.flush() != nil {
				return
			}
			keepalive.Reset(t.s.Heartbeat)
		case <-identify.C:
			if t.authorized != nil && !t.authorized() {
				return
			}
		case <-keepalive.C:
			deadline()
			if t.write("", ": here\n\n") != nil || t.flush() != nil {
				return
			}
		}
	}
}

// start sets the position of the stream: now, or that of the reader if it is still valid.
func (t *stream) start(ctx context.Context) error {
	if !t.mustReset && t.pos.cursor != "" {
		_, end, err := t.lister.Events(ctx, "now", 1)
		if err != nil {
			return err
		}
		if t.mustReset = cursorAhead(t.pos.cursor, end); !t.mustReset {
			if t.mustReset, err = t.hasGap(ctx); err != nil {
				return err
			}
		}
	}
	if t.mustReset {
		return t.reset(ctx)
	}
	return t.fillPosition(ctx)
}

// cursorAhead reports a cursor after the end of the log: it is of another store, or the
// store was restored to an earlier state.
func cursorAhead(cursor, end string) bool {
	at, ok := cursorNumber(cursor)
	last, comparable := cursorNumber(end)
	return ok && comparable && at > last
}

// cursorNumber returns the number at the beginning of a cursor. It grows in every store.
func cursorNumber(cursor string) (int64, bool) {
	digits := cursor
	if i := strings.IndexFunc(cursor, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = cursor[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// fillPosition sets the missing parts of the position to now.
func (t *stream) fillPosition(ctx context.Context) error {
	if t.pos.cursor == "" {
		_, next, err := t.lister.Events(ctx, "now", 1)
		if err != nil {
			return err
		}
		t.pos.cursor = next
	}
	if t.objects != nil && t.pos.objects == "" {
		_, version, err := t.objects.Feed("").List(ctx)
		if err != nil {
			return err
		}
		t.pos.objects = version
	}
	if t.clusters != nil && t.pos.clusters == "" {
		_, newest, err := t.clusters.Feed(ctx)
		if err != nil {
			return err
		}
		t.pos.clusters = strconv.FormatInt(newest, 10)
	}
	return nil
}

// reset sets the position to now and writes a reset event.
func (t *stream) reset(ctx context.Context) error {
	t.pos = position{}
	if err := t.fillPosition(ctx); err != nil {
		return err
	}
	return t.writeEvent("reset", struct{}{})
}

// writeRuns writes the events of runs that were saved since the last poll.
func (t *stream) writeRuns(ctx context.Context) (reported bool, err error) {
	for {
		events, next, err := t.lister.Events(ctx, t.pos.cursor, eventPage)
		if ctx.Err() != nil {
			return reported, ctx.Err()
		}
		read, fromReader := t.pos.read, t.fromReader
		t.fromReader = false
		switch {
		case err != nil && !(fromReader && fault.Of(err).Class == fault.Invalid): // an error of the store: the reader reconnects
			return reported, err
		case err != nil, read > len(events), read > 0 && checksumOf(events[read-1]) != t.pos.checksum:
			return true, t.reset(ctx)
		}
		for i, e := range events[read:] {
			t.pos.read, t.pos.checksum = read+i+1, checksumOf(e)
			kind := kindOfEvent(e)
			waits := e.Kind == runtype.StepWaitingEvent || e.Kind == runtype.StepRetryingEvent
			if t.run != "" && e.Run != t.run || !t.wants(kind) && !(waits && t.wants("waiting")) {
				continue
			}
			if may, err := t.maySee(ctx, e.Run); err != nil {
				return reported, err
			} else if !may {
				continue
			}
			if waits && !slices.Contains(t.startedWaiting, e.Run) {
				t.startedWaiting = append(t.startedWaiting, e.Run)
			}
			if !t.wants(kind) {
				continue
			}
			reported = true
			if err := t.writeEvent(kind, RunEvent{ID: e.Run, Event: view.Event(e), State: phaseOf(e.Kind)}); err != nil {
				return reported, err
			}
		}
		t.pos.cursor, t.pos.read, t.pos.checksum = next, 0, ""
		if waits, err := t.writeWaiting(ctx); err != nil {
			return reported, err
		} else if waits {
			reported = true
		}
		if len(events) < eventPage {
			return reported, nil
		}
	}
}

// watchObjects passes on changes of objects until the stream ends. It closes gap and returns if changes were lost.
func (t *stream) watchObjects(ctx context.Context, from string, changes chan<- control.Change[control.Object], gap chan<- struct{}) {
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
		case <-time.After(t.s.PollInterval):
		case <-ctx.Done():
		}
	}
}

func (t *stream) writeObject(c control.Change[control.Object]) error {
	t.pos.objects = c.Version
	if c.Type == control.Bookmark {
		return nil
	}
	o := c.Item.Value
	return t.writeEvent("object", ObjectEvent{ID: c.Item.Key, Revision: o.Revision, State: view.StateOf(o).State, Deleted: c.Type == control.Delete})
}

func (t *stream) writeEvent(kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return t.write(t.pos.String(), "event: "+kind+"\ndata: "+string(text)+"\n\n")
}

func (t *stream) write(id, text string) error {
	if id != "" {
		text = "id: " + id + "\n" + text
	}
	_, err := io.WriteString(t.w, text)
	return err
}
