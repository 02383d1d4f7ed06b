// Package servertest runs a server over a real engine on memory stores, for the tests of
// the server's packages: they ask it over HTTP.
package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Secret is a token.
const Secret = "0123456789abcdef0123456789abcdef"

// ObjectPath is the path of an object.
const ObjectPath = "/v1/objects/demo/default/c1"

// Tokens returns the operator's own tokens.
func Tokens(t *testing.T, all ...string) *auth.Tokens {
	t.Helper()
	created, err := auth.NewTokens(all...)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// TokenTable is a TokenReviewer in memory.
type TokenTable map[auth.TokenHash]route.Principal

// ByToken implements auth.TokenReviewer.
func (b TokenTable) ByToken(_ context.Context, hash auth.TokenHash) (route.Principal, bool, error) {
	who, found := b[hash]
	return who, found, nil
}

// Any implements auth.TokenReviewer.
func (b TokenTable) Any(context.Context) (bool, error) { return len(b) > 0, nil }

// NoCapacity is the fault of the flow Blocked.
var NoCapacity = fault.Declare(fault.Kind{Code: "TEST_NO_ROOM", Class: fault.Blocked, Title: "there is no room", Remedy: "Make room, then resume the run."})

// Fixture is a server over a real engine on the memory store.
type Fixture struct {
	T        *testing.T
	Server   *server.Server
	URL      string
	Engine   *workflow.Engine
	Store    *runstore.Memory
	Objects  *control.Memory
	Notifier *control.Notifier
	Log      *Log
	Heal     func() // lets the flow Blocked continue

	mu   sync.Mutex
	seen []server.Observation
}

// Seen returns what the server has observed.
func (h *Fixture) Seen() []server.Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// Log is the log of a server.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Flows are the flows of a fixture.
func Flows(blocked *sync.Map) []workflow.Flow {
	done := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	return []workflow.Flow{
		{Name: "Quick", Version: 3, Description: "does nothing", Steps: []workflow.Step{{Name: "A", Do: done}, {Name: "B", Do: done}}},
		{Name: "Blocked", Steps: []workflow.Step{{Name: "A", Do: done}, {Name: "Room", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if _, healed := blocked.Load("healed"); healed {
				return outcome.Done()
			}
			return outcome.Fail(NoCapacity.Errorf("0 of 3 nodes fit").With("nodes", 3))
		}}}},
		{Name: "Waits", Steps: []workflow.Step{{Name: "Caught", Wait: &workflow.WaitFor{Signal: "caught-up"}}, {Name: "After", Do: done}}},
	}
}

// New returns a fixture; change changes the options of its server.
func New(t *testing.T, change func(*server.Options)) *Fixture {
	t.Helper()
	var state sync.Map
	h := &Fixture{T: t, Store: runstore.NewMemory(), Objects: control.NewMemory(), Notifier: &control.Notifier{}, Log: &Log{}, Heal: func() { state.Store("healed", true) }}
	logger := slog.New(slog.NewTextHandler(h.Log, nil))
	var err error
	h.Engine, err = workflow.New(h.Store, Flows(&state), workflow.Options{Logger: logger, Hooks: []workflow.Hook{events.Hook(h.Notifier)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Engine.Serve(ctx) }()
	o := server.Options{Engine: h.Engine, Objects: h.Objects, Version: "test", Notifier: h.Notifier, Logger: logger,
		Observe: func(seen server.Observation) { h.mu.Lock(); h.seen = append(h.seen, seen); h.mu.Unlock() }}
	if change != nil {
		change(&o)
	}
	if h.Server, err = server.New(o); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(h.Server)
	h.URL = listener.URL
	t.Cleanup(func() {
		h.Server.EndStreams()
		listener.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the engine ended with %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return h
}

// Reply is an answer with its complete body.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Problem decodes the answer, which must be a problem.
func (r Reply) Problem(t *testing.T) view.Problem {
	t.Helper()
	var p view.Problem
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("status %d comes as %q, want a problem: %s", r.Status, got, r.Body)
	}
	if err := json.Unmarshal(r.Body, &p); err != nil {
		t.Errorf("%v: %s", err, r.Body)
	}
	return p
}

// Into decodes the answer.
func (r Reply) Into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("%v: status %d: %s", err, r.Status, r.Body)
	}
}

// Do sends a request. A body that is not a string is encoded as JSON; headers are pairs.
func (h *Fixture) Do(method, path string, body any, header ...string) Reply {
	h.T.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			h.T.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(h.T.Context(), method, h.URL+path, reader)
	if err != nil {
		h.T.Fatal(err)
	}
	if reader != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		h.T.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		h.T.Fatal(err)
	}
	return Reply{response.StatusCode, response.Header, data}
}

// Start starts a run.
func (h *Fixture) Start(flow, subject string) view.Run {
	h.T.Helper()
	var r view.Run
	answer := h.Do("POST", "/v1/runs", map[string]any{"flow": flow, "subject": subject})
	if answer.Status != http.StatusAccepted {
		h.T.Fatalf("start: %d %s", answer.Status, answer.Body)
	}
	answer.Into(h.T, &r)
	return r
}

// Until reads a run after each notification until it is in a phase.
func (h *Fixture) Until(id string, phase runtype.Phase) view.Run {
	h.T.Helper()
	limit := time.After(20 * time.Second)
	for {
		notified := h.Notifier.Next()
		var r view.Run
		h.Do("GET", "/v1/runs/"+id, nil).Into(h.T, &r)
		if r.Phase == phase {
			return r
		}
		select {
		case <-notified:
		case <-limit:
			h.T.Fatalf("run %s is %s, not %s: %+v", id, r.Phase, phase, r)
		}
	}
}
