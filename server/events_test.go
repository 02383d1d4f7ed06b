package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
)

// eventReader reads server-sent events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

type receivedEvent struct {
	id, kind, data string
}

func (h *fixture) listen(path, last string, header ...string) *eventReader {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r, err := http.NewRequestWithContext(ctx, "GET", h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r) //nolint:bodyclose // ear.close does
	if err != nil {
		h.t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	e := &eventReader{t: h.t, lines: bufio.NewScanner(response.Body), close: func() { cancel(); response.Body.Close() }}
	h.t.Cleanup(e.close)
	if !e.lines.Scan() || !strings.HasPrefix(e.lines.Text(), "retry:") && !strings.HasPrefix(e.lines.Text(), "id:") {
		h.t.Fatalf("the stream begins with %q", e.lines.Text())
	}
	return e
}

func (e *eventReader) next() receivedEvent {
	e.t.Helper()
	var h receivedEvent
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch name {
		case "id":
			h.id = value
		case "event":
			h.kind = value
		case "data":
			h.data = value
		case "":
			if h.kind != "" {
				return h
			}
		}
	}
	e.t.Fatalf("the stream ended: %v", e.lines.Err())
	return h
}

// until reads up to an event of a kind that contains a text.
func (e *eventReader) until(kind, text string) (all []receivedEvent) {
	e.t.Helper()
	for {
		h := e.next()
		all = append(all, h)
		if h.kind == kind && strings.Contains(h.data, text) {
			return all
		}
	}
}

func numbers(all []receivedEvent, run string) string {
	var b strings.Builder
	for _, h := range all {
		var e RunEvent
		if json.Unmarshal([]byte(h.data), &e) == nil && e.Run == run {
			fmt.Fprintf(&b, "%d ", e.Seq)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestEventsOfARun(t *testing.T) {
	h := newFixture(t, nil)
	before := h.until(h.start("Quick", "demo/default/c0").ID, workflow.Succeeded)
	all := h.listen("/v1/events", "")
	r := h.start("Waits", "demo/default/c1")
	one := h.listen("/v1/events?run="+r.ID[:10], "")
	other := h.start("Quick", "demo/default/c2")
	h.until(r.ID, workflow.Waiting)
	h.until(other.ID, workflow.Succeeded)
	h.do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)

	got := all.until("run", "RunSucceeded")
	for !strings.Contains(got[len(got)-1].data, r.ID) {
		got = append(got, all.until("run", "RunSucceeded")...)
	}
	if numbers(got, before.ID) != "" {
		t.Error("the stream began before now")
	}
	if n := numbers(got, r.ID); !strings.HasPrefix(n, "1 2 3 ") || strings.Count(n, "1 ") != 1 {
		t.Errorf("events of the run: %s", n)
	}
	var end RunEvent
	if err := json.Unmarshal([]byte(got[len(got)-1].data), &end); err != nil || end.State != workflow.Succeeded || end.ID != r.ID {
		t.Errorf("the end is reported as %+v, %v", end, err)
	}
	kinds := map[string]bool{}
	for _, e := range got {
		kinds[e.kind] = true
		if e.id == "" {
			t.Errorf("%+v has no id", e)
		}
	}
	if !kinds["run"] || !kinds["step"] {
		t.Errorf("kinds %v", kinds)
	}
	for _, e := range one.until("run", "RunSucceeded") {
		if !strings.Contains(e.data, r.ID) {
			t.Errorf("a filtered stream tells %s", e.data)
		}
	}
	if got := h.do("GET", "/v1/events?run=nosuchrun", nil); got.status != 404 {
		t.Errorf("events of an unknown run: %d %s", got.status, got.body)
	}
}

// A reader continues wherever it stopped, without gap and without repetition.
func TestEventsGoOnAnywhere(t *testing.T) {
	h := newFixture(t, nil)
	e := h.listen("/v1/events", "")
	for i := range 3 {
		h.until(h.start("Quick", fmt.Sprintf("demo/default/c%d", i)).ID, workflow.Succeeded)
		h.do("PUT", fmt.Sprintf("/v1/objects/demo/default/c%d", i), `{"spec":{}}`)
	}
	var whole []receivedEvent
	for objects, succeeded := 0, 0; objects < 3 || succeeded < 3; {
		next := e.next()
		whole = append(whole, next)
		if next.kind == "object" {
			objects++
		}
		if strings.Contains(next.data, "RunSucceeded") {
			succeeded++
		}
	}
	e.close()
	for i, at := range whole[:len(whole)-1] {
		again := h.listen("/v1/events", at.id)
		left := map[string]bool{}
		for _, want := range whole[i+1:] {
			left[want.data] = true
		}
		for len(left) > 0 {
			next := again.next()
			if !left[next.data] {
				t.Fatalf("after %s (event %d) comes %s again, or out of nothing", at.id, i, next.data)
			}
			delete(left, next.data)
		}
		again.close()
	}
}

func TestEventsReset(t *testing.T) {
	h := newFixture(t, nil)
	h.until(h.start("Quick", "demo/default/c1").ID, workflow.Succeeded)
	for _, last := range []string{"nonsense", "7:1:wrong", "1:9999:x", "x:y", "99999", "99999:1:a;1", "now", "1:0:a", ";;", "%", "1;;x", "1;;-1", "1;;01", "1;a;1;1"} {
		e := h.listen("/v1/events", last)
		got := receivedEvent{}
		for got.kind == "" {
			got = e.next()
		}
		if got.kind != "reset" {
			t.Errorf("%q got %+v", last, got)
		}
		e.close()
	}
}

func TestEventsOfObjects(t *testing.T) {
	h := newFixture(t, nil)
	e := h.listen("/v1/events?type=object", "")
	h.do("PUT", c1, `{"spec":{}}`)
	h.until(h.start("Quick", "demo/default/c1").ID, workflow.Succeeded)
	h.do("PATCH", c1, `{"status":{"state":"Running"}}`, "If-Match", "*")
	h.do("DELETE", c1, nil, "If-Match", "*")
	for _, want := range []string{
		`{"id":"demo/default/c1","revision":1}`, `{"id":"demo/default/c1","revision":2,"state":"Running"}`, `"deleted":true`,
	} {
		if got := e.next(); got.kind != "object" || !strings.Contains(got.data, want) {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.MaxEvents = 1 })
	e := h.listen("/v1/events", "")
	if got := h.do("GET", "/v1/events", nil); got.status != 503 || got.problem(t).Code != Busy.Code {
		t.Errorf("one stream too many: %d %s", got.status, got.body)
	}
	h.server.EndStreams()
	for e.lines.Scan() {
	}
	if err := e.lines.Err(); err != nil {
		t.Errorf("the stream did not end cleanly: %v", err)
	}
}

// wire is a ResponseWriter in virtual time. It accepts writes, or blocks until the write deadline.
type wire struct {
	mu       sync.Mutex
	header   http.Header
	text     strings.Builder
	deadline time.Time
	stuck    bool
}

func (w *wire) Header() http.Header { return w.header }
func (w *wire) WriteHeader(int)     {}
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	stuck, left := w.stuck, time.Until(w.deadline)
	w.text.Write(p)
	w.mu.Unlock()
	if stuck {
		time.Sleep(left)
		return 0, errors.New("write: i/o timeout")
	}
	return len(p), nil
}
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	w.deadline = t
	w.mu.Unlock()
	return nil
}
func (w *wire) Flush()         {}
func (w *wire) String() string { w.mu.Lock(); defer w.mu.Unlock(); return w.text.String() }

func TestStreamInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := workflow.New(workflow.NewMemory(), nil, workflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		objects := control.NewMemory()
		s, err := New(Options{Engine: engine, Objects: objects, Listen: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		w := &wire{header: http.Header{}}
		request := httptest.NewRequest("GET", "http://127.0.0.1/v1/events", nil)
		ended := make(chan struct{})
		go func() { s.ServeHTTP(w, request); close(ended) }()

		time.Sleep(46 * time.Second)
		synctest.Wait()
		if got := strings.Count(w.String(), ": here\n\n"); got != 3 {
			t.Errorf("%d comments in 46 s, want one each 15 s: %q", got, w.String())
		}
		// Polling finds what another process has saved, within a second.
		if _, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(w.String(), "event: object") {
			t.Errorf("the object is not reported: %q", w.String())
		}
		// A reader that reads nothing is disconnected.
		w.mu.Lock()
		w.stuck = true
		w.mu.Unlock()
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 15*time.Second+s.options.SlowReader {
			t.Errorf("a stuck reader was cut after %s", took)
		}
	})
}

func TestCursorAhead(t *testing.T) {
	for _, c := range []struct {
		cursor, end string
		want        bool
	}{{"9", "9", false}, {"10", "9", true}, {"9.3", "9.1073741824", false}, {"17.3", "9.1", true}, {"748/12", "749", false}, {"x", "9", false}, {"9", "", false}} {
		if got := cursorAhead(c.cursor, c.end); got != c.want {
			t.Errorf("%s of %s: %v", c.cursor, c.end, got)
		}
	}
}

func TestPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := position{cursor: rapid.StringN(1, 20, -1).Draw(t, "cursor"), objects: rapid.String().Draw(t, "objects")}
		if rapid.Bool().Draw(t, "of clusters too") {
			p.clusters = strconv.FormatInt(rapid.Int64Range(0, math.MaxInt64).Draw(t, "clusters"), 10)
		}
		if p.cursor == "now" {
			t.Skip("no store gives that")
		}
		if rapid.Bool().Draw(t, "within a page") {
			p.read, p.checksum = rapid.IntRange(1, eventPage).Draw(t, "read"), rapid.StringMatching("[0-9a-z]{1,7}").Draw(t, "check")
		}
		id := p.String()
		if strings.ContainsAny(id, "\r\n\x00") {
			t.Fatalf("%q cannot be an event's id", id)
		}
		if got, err := parsePosition(id); err != nil || got != p {
			t.Fatalf("%+v became %+v, %v", p, got, err)
		}
	})
}

// No Last-Event-ID breaks a stream.
func FuzzPosition(f *testing.F) {
	for _, id := range []string{"", "17.3:2:1ab;45", "17;;9", "17;a;9", "17;;+9", "748-1-0", ":::", ";"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, err := parsePosition(id)
		if err != nil {
			return
		}
		if again, err := parsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, then %+v, %v", id, p, again, err)
		}
	})
}
