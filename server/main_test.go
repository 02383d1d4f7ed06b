package server

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noCapacity = fault.Declare(fault.Kind{Code: "TEST_NO_ROOM", Class: fault.Blocked, Title: "there is no room", Remedy: "Make room, then resume the run."})

// fixture is a server over a real engine on the memory store.
type fixture struct {
	t       *testing.T
	server  *Server
	url     string
	engine  *workflow.Engine
	store   *workflow.Memory
	objects *control.Memory
	log     *lockedBuffer
	heal    func() // lets the flow Blocked continue
	seen    []Observation
	mu      sync.Mutex
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func testFlows(blocked *sync.Map) []workflow.Flow {
	done := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	return []workflow.Flow{
		{Name: "Quick", Version: 3, Description: "does nothing", Steps: []workflow.Step{{Name: "A", Do: done}, {Name: "B", Do: done}}},
		{Name: "Blocked", Steps: []workflow.Step{{Name: "A", Do: done}, {Name: "Room", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if _, healed := blocked.Load("healed"); healed {
				return outcome.Done()
			}
			return outcome.Fail(noCapacity.Errorf("0 of 3 nodes fit").With("nodes", 3))
		}}}},
		{Name: "Waits", Steps: []workflow.Step{{Name: "Caught", Wait: &workflow.WaitFor{Signal: "caught-up"}}, {Name: "After", Do: done}}},
	}
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	var state sync.Map
	h := &fixture{t: t, store: workflow.NewMemory(), objects: control.NewMemory(), log: &lockedBuffer{}, heal: func() { state.Store("healed", true) }}
	logger := slog.New(slog.NewTextHandler(h.log, nil))
	notifier := NewNotifier()
	var err error
	h.engine, err = workflow.New(h.store, testFlows(&state), workflow.Options{Logger: logger, Hooks: []workflow.Hook{notifier.Hook()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.engine.Serve(ctx) }()
	o := Options{Engine: h.engine, Objects: h.objects, Version: "test", Notifier: notifier, Logger: logger,
		Observe: func(seen Observation) { h.mu.Lock(); h.seen = append(h.seen, seen); h.mu.Unlock() }}
	if change != nil {
		change(&o)
	}
	if h.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(h.server)
	h.url = listener.URL
	t.Cleanup(func() {
		h.server.EndStreams()
		listener.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the engine ended with %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return h
}

// reply is an answer with its complete body.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) problem(t *testing.T) view.Problem {
	t.Helper()
	var p view.Problem
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("status %d comes as %q, want a problem: %s", r.status, got, r.body)
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Errorf("%v: %s", err, r.body)
	}
	return p
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%v: status %d: %s", err, r.status, r.body)
	}
}

// do sends a request. A body that is not a string is encoded as JSON; headers are pairs.
func (h *fixture) do(method, path string, body any, header ...string) reply {
	h.t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		data, err := json.Marshal(body)
		if err != nil {
			h.t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, reader)
	if err != nil {
		h.t.Fatal(err)
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
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, data}
}

func (h *fixture) start(flow, subject string) view.Run {
	h.t.Helper()
	var r view.Run
	answer := h.do("POST", "/v1/runs", map[string]any{"flow": flow, "subject": subject})
	if answer.status != http.StatusAccepted {
		h.t.Fatalf("start: %d %s", answer.status, answer.body)
	}
	answer.into(h.t, &r)
	return r
}

// until reads a run after each notification until it is in a phase.
func (h *fixture) until(id string, phase workflow.Phase) view.Run {
	h.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		notified := h.server.options.Notifier.wait()
		var r view.Run
		h.do("GET", "/v1/runs/"+id, nil).into(h.t, &r)
		if r.Phase == phase {
			return r
		}
		select {
		case <-notified:
		case <-limit:
			h.t.Fatalf("run %s is %s, not %s: %+v", id, r.Phase, phase, r)
		}
	}
}
