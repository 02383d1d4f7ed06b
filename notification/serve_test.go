package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts the reads of objects and of secrets.
type counted struct {
	*control.Memory
	reads, secrets atomic.Int64
}

func (c *counted) Get(ctx context.Context, ref control.Ref) (control.Object, error) {
	c.reads.Add(1)
	return c.Memory.Get(ctx, ref)
}

func (c *counted) List(ctx context.Context, q control.Query) (control.Page, error) {
	c.reads.Add(1)
	return c.Memory.List(ctx, q)
}

func (c *counted) Secret(context.Context, workflow.SecretRef) (string, error) {
	c.secrets.Add(1)
	return secret, nil
}

// growing is a history that grows while it is read.
type growing struct {
	mu sync.Mutex
	history
	changed control.Notifier
	reads   atomic.Int64 // of events and of runs
}

func (g *growing) Events(ctx context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
	g.reads.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.history.Events(ctx, cursor, limit)
}

func (g *growing) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	g.reads.Add(1)
	return g.history.List(ctx, q)
}

func (g *growing) append(kind runtype.EventKind) {
	g.mu.Lock()
	g.events = append(g.events, runtype.Event{Run: "r", Seq: int64(len(g.events) + 1), At: time.Now(), Kind: kind})
	g.mu.Unlock()
	g.changed.Notify()
}

// Serve reads neither objects nor secrets while runs work and nothing is due. It tells of an event within
// 200 ms of virtual time, tries again what was refused, and follows a change of the spec.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store, h := &counted{Memory: control.NewMemory()}, &growing{}
		var posts atomic.Int64
		var code atomic.Int64
		code.Store(204)
		client := &http.Client{Transport: trip(func(*http.Request) (*http.Response, error) {
			posts.Add(1)
			return answer(int(code.Load())), nil
		})}
		s := New(Options{Objects: store, History: h, Secrets: store, Client: func() *http.Client { return client }, Changed: h.changed.Next})
		done := make(chan error)
		go func() { done <- s.Serve(ctx) }()
		expect := func(what string, got *atomic.Int64, want int64) {
			t.Helper()
			synctest.Wait()
			if got.Load() != want {
				t.Errorf("%s: %d, not %d", what, got.Load(), want)
			}
		}
		apply(t, store.Memory, spec)
		time.Sleep(200 * time.Millisecond)
		expect("secrets of a new notification", &store.secrets, 1)
		for range 1000 {
			h.append(runtype.StepDoneEvent)
			time.Sleep(10 * time.Millisecond)
		}
		expect("secrets while runs work", &store.secrets, 1)
		expect("reads while runs work", &store.reads, 0)

		h.append(runtype.RunPaused)
		time.Sleep(200 * time.Millisecond)
		expect("webhooks", &posts, 1)
		code.Store(503)
		h.append(runtype.RunPaused)
		time.Sleep(200 * time.Millisecond)
		expect("refused", &posts, 2)
		code.Store(204)
		time.Sleep(7 * time.Second)
		expect("again", &posts, 3)
		if st := statusNow(t, store.Memory); st.Sent != 2 || st.Failed != 1 || len(st.Waiting) > 0 {
			t.Errorf("%+v", st)
		}

		apply(t, store.Memory, strings.Replace(spec, `"attempts"`, `"events": ["fault.raised"], "attempts"`, 1))
		time.Sleep(200 * time.Millisecond)
		h.append(runtype.RunPaused)
		time.Sleep(2 * time.Second)
		expect("what the spec does not want any more", &posts, 3)
		if _, err := store.Delete(ctx, ref, 0); err != nil {
			t.Fatal(err)
		}
		h.append(runtype.StepFailedEvent)
		time.Sleep(2 * time.Second)
		expect("after the deletion", &posts, 3)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// However many notifications there are, an event and its run are read once.
func TestReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m, h := control.NewMemory(), &growing{}
		var posts atomic.Int64
		client := &http.Client{Transport: trip(func(*http.Request) (*http.Response, error) {
			posts.Add(1)
			return answer(204), nil
		})}
		const notifications = 20
		for i := range notifications {
			o := control.Object{Ref: control.Ref{Kind: Kind, Namespace: "default", Name: fmt.Sprint("n", i)}, Spec: json.RawMessage(spec)}
			if _, err := m.Apply(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		s := New(Options{Objects: m, History: h, Secrets: secrets{}, Client: func() *http.Client { return client }, Changed: h.changed.Next})
		done := make(chan error)
		go func() { done <- s.Serve(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		h.reads.Store(0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := h.reads.Load(); got > 11 {
			t.Errorf("%d reads in 10 s without an event, want one a second", got)
		}
		for i := range 5 {
			h.reads.Store(0)
			h.append(runtype.RunPaused)
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			if got := posts.Load(); got != notifications*int64(i+1) {
				t.Errorf("%d webhooks after %d events", got, i+1)
			}
			if got := h.reads.Load(); got > 4 { // the event, its run, and the new end; a poll may come between
				t.Errorf("%d reads of one event for %d notifications", got, notifications)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Connections to a receiver are kept while there is something to send, and closed with the sender.
func TestKeepAlive(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	policy, err := egress.NewPolicy([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	h, m := &history{}, control.NewMemory()
	s := New(Options{Objects: m, History: h, Secrets: secrets{}, Client: func() *http.Client { return policy.Client(egress.ClientOptions{Idle: Idle}) }})
	apply(t, m, strings.Replace(spec, "https://hooks.example.com/x", server.URL, 1))
	for range 20 {
		if err := s.Pass(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		h.add(time.Now())
	}
	if got := statusNow(t, m).Sent; got != 19 || opened.Load() != 1 {
		t.Errorf("%d sent by %d connections", got, opened.Load())
	}
	s.closeIdle(nil)
}

// A page of the history with more than a batch of events is sent batch by batch, each event once.
func TestManyEvents(t *testing.T) {
	h, m := &history{}, control.NewMemory()
	seen := map[string]int{}
	var mu sync.Mutex
	client := &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get(HeaderID)]++
		return answer(204), nil
	})}
	s := New(Options{Objects: m, History: h, Secrets: secrets{}, Client: func() *http.Client { return client }})
	apply(t, m, spec)
	if err := s.Pass(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	for i := range 3500 {
		h.add(time.Now())
		if i%3 == 0 {
			h.events[i].Kind = runtype.StepDoneEvent
		}
	}
	if err := s.Pass(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	want := 3500 - (3500+2)/3
	if got := statusNow(t, m).Sent; int(got) != want || len(seen) != want {
		t.Errorf("%d sent, %d seen, not %d", got, len(seen), want)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}
