package events_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func numbers(all []servertest.ReceivedEvent, run string) string {
	var b strings.Builder
	for _, h := range all {
		var e events.RunEvent
		if json.Unmarshal([]byte(h.Data), &e) == nil && e.Run == run {
			fmt.Fprintf(&b, "%d ", e.Seq)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestEventsOfARun(t *testing.T) {
	h := servertest.New(t, nil)
	before := h.Until(h.Start("Quick", "demo/default/c0").ID, runtype.Succeeded)
	all := h.Listen("/v1/events", "")
	r := h.Start("Waits", "demo/default/c1")
	one := h.Listen("/v1/events?run="+r.ID[:10], "")
	other := h.Start("Quick", "demo/default/c2")
	h.Until(r.ID, runtype.Waiting)
	h.Until(other.ID, runtype.Succeeded)
	h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)

	got := all.Until("run", "RunSucceeded")
	for !strings.Contains(got[len(got)-1].Data, r.ID) {
		got = append(got, all.Until("run", "RunSucceeded")...)
	}
	if numbers(got, before.ID) != "" {
		t.Error("the stream began before now")
	}
	if n := numbers(got, r.ID); !strings.HasPrefix(n, "1 2 3 ") || strings.Count(n, "1 ") != 1 {
		t.Errorf("events of the run: %s", n)
	}
	var end events.RunEvent
	if err := json.Unmarshal([]byte(got[len(got)-1].Data), &end); err != nil || end.State != runtype.Succeeded || end.ID != r.ID {
		t.Errorf("the end is reported as %+v, %v", end, err)
	}
	kinds := map[string]bool{}
	for _, e := range got {
		kinds[e.Kind] = true
		if e.ID == "" {
			t.Errorf("%+v has no id", e)
		}
	}
	if !kinds["run"] || !kinds["step"] {
		t.Errorf("kinds %v", kinds)
	}
	for _, e := range one.Until("run", "RunSucceeded") {
		if !strings.Contains(e.Data, r.ID) {
			t.Errorf("a filtered stream tells %s", e.Data)
		}
	}
	if got := h.Do("GET", "/v1/events?run=nosuchrun", nil); got.Status != 404 {
		t.Errorf("events of an unknown run: %d %s", got.Status, got.Body)
	}
}

// A reader continues wherever it stopped, without gap and without repetition.
func TestEventsGoOnAnywhere(t *testing.T) {
	h := servertest.New(t, nil)
	e := h.Listen("/v1/events", "")
	for i := range 3 {
		h.Until(h.Start("Quick", fmt.Sprintf("demo/default/c%d", i)).ID, runtype.Succeeded)
		h.Do("PUT", fmt.Sprintf("/v1/objects/demo/default/c%d", i), `{"spec":{}}`)
	}
	var whole []servertest.ReceivedEvent
	for objects, succeeded := 0, 0; objects < 3 || succeeded < 3; {
		next := e.Next()
		whole = append(whole, next)
		if next.Kind == "object" {
			objects++
		}
		if strings.Contains(next.Data, "RunSucceeded") {
			succeeded++
		}
	}
	e.Close()
	for i, at := range whole[:len(whole)-1] {
		again := h.Listen("/v1/events", at.ID)
		left := map[string]bool{}
		for _, want := range whole[i+1:] {
			left[want.Data] = true
		}
		for len(left) > 0 {
			next := again.Next()
			if !left[next.Data] {
				t.Fatalf("after %s (event %d) comes %s again, or out of nothing", at.ID, i, next.Data)
			}
			delete(left, next.Data)
		}
		again.Close()
	}
}

func TestEventsReset(t *testing.T) {
	h := servertest.New(t, nil)
	h.Until(h.Start("Quick", "demo/default/c1").ID, runtype.Succeeded)
	for _, last := range []string{"nonsense", "7:1:wrong", "1:9999:x", "x:y", "99999", "99999:1:a;1", "now", "1:0:a", ";;", "%", "1;;x", "1;;-1", "1;;01", "1;a;1;1"} {
		e := h.Listen("/v1/events", last)
		got := servertest.ReceivedEvent{}
		for got.Kind == "" {
			got = e.Next()
		}
		if got.Kind != "reset" {
			t.Errorf("%q got %+v", last, got)
		}
		e.Close()
	}
}

func TestEventsOfObjects(t *testing.T) {
	h := servertest.New(t, nil)
	e := h.Listen("/v1/events?type=object", "")
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	h.Until(h.Start("Quick", "demo/default/c1").ID, runtype.Succeeded)
	h.Do("PATCH", servertest.ObjectPath, `{"status":{"state":"Running"}}`, "If-Match", "*")
	h.Do("DELETE", servertest.ObjectPath, nil, "If-Match", "*")
	for _, want := range []string{
		`{"id":"demo/default/c1","revision":1}`, `{"id":"demo/default/c1","revision":2,"state":"Running"}`, `"deleted":true`,
	} {
		if got := e.Next(); got.Kind != "object" || !strings.Contains(got.Data, want) {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.MaxEvents = 1 })
	e := h.Listen("/v1/events", "")
	if got := h.Do("GET", "/v1/events", nil); got.Status != 503 || got.Problem(t).Code != route.Busy.Code {
		t.Errorf("one stream too many: %d %s", got.Status, got.Body)
	}
	h.Server.EndStreams()
	for e.Lines.Scan() {
	}
	if err := e.Lines.Err(); err != nil {
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

func (w *wire) WriteHeader(int) {}

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

func (w *wire) Flush() {}

func (w *wire) String() string { w.mu.Lock(); defer w.mu.Unlock(); return w.text.String() }

func TestStreamInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		objects := control.NewMemory()
		s, err := server.New(server.Options{Engine: engine, Objects: objects, Listen: "127.0.0.1:1"})
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
		if took := time.Since(began); took > 15*time.Second+10*time.Second {
			t.Errorf("a stuck reader was cut after %s", took)
		}
	})
}
