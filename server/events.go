package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// Bell wakes event streams when something was saved. It is given to the engine
// as a hook before the server exists; events of other processes are found by
// looking.
type Bell struct {
	mu   sync.Mutex
	next chan struct{}
}

// NewBell makes a bell.
func NewBell() *Bell { return &Bell{next: make(chan struct{})} }

// Hook rings the bell for each saved event.
func (b *Bell) Hook() workflow.Hook {
	return workflow.Hook{Name: "events", Hear: func(workflow.RunInfo, workflow.Event) { b.Ring() }}
}

// Ring wakes all that wait.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// wait is closed by the next Ring.
func (b *Bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// RunEvent is the data of the events `run` and `step`.
type RunEvent struct {
	ID string `json:"id" doc:"of the run"`
	view.Event
	State workflow.Phase `json:"state,omitempty" doc:"phase of the run, if the event tells it"`
}

// ObjectEvent is the data of the event `object`.
type ObjectEvent struct {
	ID       string `json:"id" doc:"kind/namespace/name"`
	Revision int64  `json:"revision"`
	State    string `json:"state,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

type eventStream struct {
	LastEventID string   `header:"Last-Event-ID" doc:"go on behind this event; absent: from now on"`
	After       string   `query:"after" doc:"the same for those who cannot set headers"`
	Run         string   `query:"run" doc:"only events of this run"`
	Types       []string `query:"type" enum:"run,step,object" doc:"only these types"`
}

func (s *Server) eventRoutes() {
	data := func(name string, v *huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Title: "event: " + name, Properties: map[string]*huma.Schema{
			"id": {Type: huma.TypeString}, "event": {Type: huma.TypeString, Enum: []any{name}}, "data": v}, Required: []string{"event", "data"}}
	}
	run := huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[RunEvent]())
	object := huma.SchemaFromType(s.api.OpenAPI().Components.Schemas, reflect.TypeFor[ObjectEvent]())
	at(s, huma.Operation{OperationID: "events", Method: http.MethodGet, Path: "/v1/events", Summary: "Hear what happens", Tags: []string{"events"},
		Description: "Server-sent events. Last-Event-ID goes on without a gap; an id too old gets one event `reset`, and the client reads anew what it shows. A comment comes every 15 s. A reader that is too slow is cut off and comes back.",
		Responses: map[string]*huma.Response{"200": {Description: "Events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{
			Type: huma.TypeArray, Items: &huma.Schema{OneOf: []*huma.Schema{data("run", run), data("step", run), data("object", object), data("reset", &huma.Schema{Type: huma.TypeObject})}}}}}}},
		Errors: []int{400, 404}}, Operator, s.events)
}

func (s *Server) events(ctx context.Context, in *eventStream) (*huma.StreamResponse, error) {
	lister, err := s.lister()
	if err != nil {
		return nil, err
	}
	at, err := parsePosition(or(in.LastEventID, in.After))
	stream := &stream{s: s, lister: lister, at: at, lost: err != nil, asked: at.cursor != ""}
	stream.wants = func(kind string) bool { return len(in.Types) == 0 || slices.Contains(in.Types, kind) }
	if in.Run != "" {
		r, err := s.options.Engine.Get(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		stream.run = r.ID
	}
	if stream.run == "" && stream.wants("object") {
		stream.objects = s.options.Objects
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if r.Method == http.MethodHead { // nothing would ever reach its caller
			w.Header().Set("Content-Type", "text/event-stream")
			return
		}
		stream.serve(r.Context(), w)
	}}, nil
}

// position is where a stream stands. Its text is an event's id:
//
//	<cursor of runs>[:<events read behind it>:<check of the last one>][;<version of objects>]
//
// The check finds out when what lay behind the cursor was removed in between.
type position struct {
	cursor  string
	read    int
	check   string
	objects string
}

func (p position) String() string {
	id := url.QueryEscape(p.cursor) // a store's cursor may hold any sign
	if p.read > 0 {
		id += ":" + strconv.Itoa(p.read) + ":" + p.check
	}
	if p.objects != "" {
		id += ";" + url.QueryEscape(p.objects)
	}
	return id
}

var errPosition = errors.New("not an id of this server")

func parsePosition(id string) (position, error) {
	if id == "" {
		return position{}, nil
	}
	runs, objects, _ := strings.Cut(id, ";")
	parts := strings.Split(runs, ":")
	p := position{}
	var err, other error
	p.cursor, err = url.QueryUnescape(parts[0])
	p.objects, other = url.QueryUnescape(objects)
	if err != nil || other != nil || p.cursor == "" || p.cursor == "now" {
		return position{}, errPosition
	}
	switch len(parts) {
	case 1:
		return p, nil
	case 3:
		if p.read, err = strconv.Atoi(parts[1]); err == nil && p.read > 0 && p.read <= eventPage {
			p.check = parts[2]
			return p, nil
		}
	}
	return position{}, errPosition
}

func checkOf(e workflow.Event) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", e.Run, e.Seq)
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

const (
	eventPage = 500
	lookGap   = 20 * time.Millisecond // between looks, however often the bell rings
)

// stream is one reader of events.
type stream struct {
	s       *Server
	lister  workflow.Lister
	objects control.Objects
	at      position
	lost    bool // where it stood is not known any more
	asked   bool // the position is the reader's and was not used yet
	run     string
	wants   func(kind string) bool
	w       io.Writer
	flush   func() error
}

// serve tells events until the reader goes or the server ends.
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
		t.s.log.Debug("an event stream could not begin", "error", err)
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if t.objects != nil {
		from := t.at.objects
		watching.Go(func() { t.watch(ctx, from, changes, gap) })
	}
	// Not all writers have deadlines. One that is left behind would end an idle stream of HTTP/2.
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
	for {
		rung := t.s.options.Bell.wait()
		deadline()
		told, err := t.runs(ctx)
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
		case <-quiet.C:
			deadline()
			if t.say("", ": here\n\n") != nil || t.flush() != nil {
				return
			}
		}
	}
}

// begin finds where the stream stands: now, or where it was.
func (t *stream) begin(ctx context.Context) error {
	if !t.lost && t.at.cursor != "" {
		_, end, err := t.lister.Events(ctx, "now", 1)
		if err != nil {
			return err
		}
		t.lost = ahead(t.at.cursor, end)
	}
	if t.lost {
		return t.reset(ctx)
	}
	return t.fill(ctx)
}

// ahead reports a cursor behind the end of the log: it is another store's, or
// the store was put back to an earlier state.
func ahead(cursor, end string) bool {
	at, ok := leading(cursor)
	last, comparable := leading(end)
	return ok && comparable && at > last
}

// leading is the number a cursor begins with: in every store it rises.
func leading(cursor string) (int64, bool) {
	digits := cursor
	if i := strings.IndexFunc(cursor, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = cursor[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// fill sets what the position does not say to now.
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
	return nil
}

// reset begins anew from now and says so.
func (t *stream) reset(ctx context.Context) error {
	t.at = position{}
	if err := t.fill(ctx); err != nil {
		return err
	}
	return t.event("reset", struct{}{})
}

// runs tells what was saved of runs since the stream looked last.
func (t *stream) runs(ctx context.Context) (told bool, err error) {
	for {
		events, next, err := t.lister.Events(ctx, t.at.cursor, eventPage)
		if ctx.Err() != nil {
			return told, ctx.Err()
		}
		read, asked := t.at.read, t.asked
		t.asked = false
		switch {
		case err != nil && !(asked && fault.Of(err).Class == fault.Invalid): // the store's trouble: the reader comes back
			return told, err
		case err != nil, read > len(events), read > 0 && checkOf(events[read-1]) != t.at.check:
			return true, t.reset(ctx)
		}
		for i, e := range events[read:] {
			t.at.read, t.at.check = read+i+1, checkOf(e)
			kind := "run"
			if strings.HasPrefix(string(e.Kind), "Step") {
				kind = "step"
			}
			if t.run != "" && e.Run != t.run || !t.wants(kind) {
				continue
			}
			told = true
			if err := t.event(kind, RunEvent{ID: e.Run, Event: view.Event(e), State: phaseOf(e.Kind)}); err != nil {
				return told, err
			}
		}
		t.at.cursor, t.at.read, t.at.check = next, 0, ""
		if len(events) < eventPage {
			return told, nil
		}
	}
}

// watch hands on changes of objects until the stream ends.
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

// phaseOf is the phase that an event of a run tells.
func phaseOf(kind workflow.EventKind) workflow.Phase {
	switch kind {
	case workflow.RunStarted, workflow.RunResumed:
		return workflow.Running
	case workflow.RunWaiting:
		return workflow.Waiting
	case workflow.RunPaused:
		return workflow.Paused
	case workflow.RunCancelling:
		return workflow.Cancelling
	case workflow.RunCancelled:
		return workflow.Cancelled
	case workflow.RunSucceeded:
		return workflow.Succeeded
	default:
		return ""
	}
}
