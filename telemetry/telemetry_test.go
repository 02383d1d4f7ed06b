package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noSpace = fault.Declare(fault.Kind{Code: "TEST_NO_ROOM", Class: fault.Blocked, Title: "there is no room", Remedy: "Make room."})

// play runs flows on a real engine, waits until all runs are idle, and returns the events that a
// hook has received.
func play(t *testing.T, hooks ...workflow.Hook) []runtype.Event {
	t.Helper()
	done := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	flows := []workflow.Flow{
		{Name: "Quick", Version: 2, Steps: []workflow.Step{{Name: "A", Do: done}, {Name: "Flaky", Retry: workflow.Retry{First: time.Millisecond, Jitter: -1},
			Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
				if task.Attempt() < 3 {
					return outcome.Fail(fmt.Errorf("not yet"))
				}
				return outcome.Done()
			}}}},
		{Name: "Loop", Steps: []workflow.Step{{Name: "Each", ForEach: &workflow.Loop{ListText: "two", KeyText: "item", Max: 2,
			List: func(workflow.View) ([]json.RawMessage, error) {
				return []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"b"`)}, nil
			},
		}, Steps: []workflow.Step{{Name: "Create", Do: done}}}}},
		{Name: "Stuck", Steps: []workflow.Step{{Name: "Room", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Fail(noSpace.Errorf("full")) }}}},
	}
	rest := make(chan struct{}, 10)
	var mu sync.Mutex
	var received []runtype.Event
	all := append(hooks, workflow.Hook{Name: "test", OnEvent: func(_ workflow.RunInfo, e runtype.Event) {
		mu.Lock()
		received = append(received, e)
		mu.Unlock()
		if endsRun(e.Kind) || e.Kind == runtype.RunPaused {
			rest <- struct{}{}
		}
	}})
	// Every hook has its own queue: the last hook reports when each of the others has received all
	// events.
	left := make(chan string, 1000)
	for i := range all {
		inner := all[i].OnEvent
		all[i].OnEvent = func(info workflow.RunInfo, e runtype.Event) { inner(info, e); left <- all[i].Name }
	}
	engine, err := workflow.New(runstore.NewMemory(), flows, workflow.Options{Hooks: all, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Serve(ctx) }()
	for i, flow := range []string{"Quick", "Loop", "Stuck"} {
		if _, err := engine.Start(ctx, workflow.Request{Flow: flow, Subject: fmt.Sprintf("demo/default/c%d", i), RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		select {
		case <-rest:
		case <-time.After(20 * time.Second):
			t.Fatal("the runs do not rest")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for range len(received) * len(all) {
		<-left
	}
	return received
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	play(t, m.Hook())
	m.Request("GET", "/v1/runs/{id}", 404, 30*time.Millisecond, 120)
	m.Request("BREW", "", 405, time.Millisecond, 10)
	want := `
# HELP pawl_http_requests_total Answered requests.
# TYPE pawl_http_requests_total counter
pawl_http_requests_total{method="GET",route="/v1/runs/{id}",status="404"} 1
pawl_http_requests_total{method="other",route="none",status="405"} 1
# HELP pawl_http_sent_bytes_total Bytes of answers.
# TYPE pawl_http_sent_bytes_total counter
pawl_http_sent_bytes_total{route="/v1/runs/{id}"} 120
pawl_http_sent_bytes_total{route="none"} 10
# HELP pawl_workflow_faults_total Faults that paused a run.
# TYPE pawl_workflow_faults_total counter
pawl_workflow_faults_total{code="TEST_NO_ROOM",flow="Stuck"} 1
# HELP pawl_workflow_retries_total Failures of steps that are tried again.
# TYPE pawl_workflow_retries_total counter
pawl_workflow_retries_total{code="UNKNOWN",flow="Quick"} 2
# HELP pawl_workflow_runs_created_total Runs that were accepted.
# TYPE pawl_workflow_runs_created_total counter
pawl_workflow_runs_created_total{flow="Loop"} 1
pawl_workflow_runs_created_total{flow="Quick"} 1
pawl_workflow_runs_created_total{flow="Stuck"} 1
# HELP pawl_workflow_steps_total Attempts of steps by outcome.
# TYPE pawl_workflow_steps_total counter
pawl_workflow_steps_total{flow="Loop",outcome="done",step="Each/Create"} 2
pawl_workflow_steps_total{flow="Quick",outcome="done",step="A"} 1
pawl_workflow_steps_total{flow="Quick",outcome="done",step="Flaky"} 1
pawl_workflow_steps_total{flow="Quick",outcome="retrying",step="Flaky"} 2
pawl_workflow_steps_total{flow="Stuck",outcome="failed",step="Room"} 1
`
	names := strings.Fields("pawl_http_requests_total pawl_http_sent_bytes_total pawl_workflow_faults_total pawl_workflow_retries_total pawl_workflow_runs_created_total pawl_workflow_steps_total")
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	for phase, n := range map[string]float64{"Succeeded": 2, "Paused": 1} {
		total := 0.0
		for _, flow := range []string{"Quick", "Loop", "Stuck"} {
			total += testutil.ToFloat64(m.runs.WithLabelValues(flow, phase))
		}
		if total != n {
			t.Errorf("%v runs came to %s, want %v", total, phase, n)
		}
	}
	if n := testutil.CollectAndCount(m.runTime); n != 2 {
		t.Errorf("%d flows have a duration, want 2", n)
	}
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	m.watch.mu.Lock()
	defer m.watch.mu.Unlock()
	if len(m.watch.steps) != 0 || len(m.watch.runs) != 1 {
		t.Errorf("%d attempts and %d runs are remembered, want none and the paused one", len(m.watch.steps), len(m.watch.runs))
	}
}

// Ids are never labels: the events of a thousand runs create no more series than those of one run.
func TestNoIDsAsLabels(t *testing.T) {
	m := NewMetrics()
	series := func() int {
		all, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, family := range all {
			if strings.HasPrefix(family.GetName(), "pawl_") {
				n += len(family.GetMetric())
			}
		}
		return n
	}
	hear := func(i int) {
		run := fmt.Sprintf("run%d", i)
		info := workflow.RunInfo{ID: run, Flow: "F", Subject: "demo/default/" + run, Labels: map[string]string{"tenant": run}}
		for _, kind := range runtype.EventKinds {
			m.onEvent(info, runtype.Event{Run: run, Seq: int64(i), At: time.Now(), Kind: kind, Step: "Replace[" + run + "]/Create", Actor: run, Reason: run, Message: run, Code: fault.Code(strings.ToUpper(run))})
		}
	}
	hear(0)
	one := series()
	for i := range 1000 {
		hear(i)
	}
	if many := series(); many != one || one == 0 {
		t.Errorf("%d series after one run, %d after a thousand", one, many)
	}
}

type failingEngine struct{ err error }

func (e failingEngine) Health() error             { return e.err }
func (e failingEngine) Dropped() map[string]int64 { return map[string]int64{"metrics": 3} }

func TestSources(t *testing.T) {
	store := runstore.NewMemory()
	m := NewMetrics()
	lists := 0
	m.Watch(Sources{
		Engine: failingEngine{runstore.StoreFull.Errorf("no space")},
		Stats:  func() map[string]float64 { return map[string]float64{"commits": 7, "syncs": 2} },
		Runs:   CountActive(countingLister{store, &lists}, time.Hour),
		Queues: func() map[string]int { return map[string]int{"demo": 4} },
	})
	if _, err := store.Create(t.Context(), &runtype.Run{ID: "a", Flow: "F", Subject: "demo/default/c1", Phase: runtype.Running, CreatedAt: time.Now()}, nil); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP pawl_control_queue_depth Keys that wait for a worker.
# TYPE pawl_control_queue_depth gauge
pawl_control_queue_depth{queue="demo"} 4
# HELP pawl_store_commits_total What the store wrote since it was opened: commits.
# TYPE pawl_store_commits_total counter
pawl_store_commits_total 7
# HELP pawl_store_up 1 while the store accepts writes, else 0 with the code of its fault.
# TYPE pawl_store_up gauge
pawl_store_up{code="STORE_FULL"} 0
# HELP pawl_workflow_hook_dropped_total Events that a hook did not receive because its queue was full.
# TYPE pawl_workflow_hook_dropped_total counter
pawl_workflow_hook_dropped_total{hook="metrics"} 3
# HELP pawl_workflow_runs Runs in a phase that is not final.
# TYPE pawl_workflow_runs gauge
pawl_workflow_runs{phase="Cancelling"} 0
pawl_workflow_runs{phase="Paused"} 0
pawl_workflow_runs{phase="Queued"} 0
pawl_workflow_runs{phase="Running"} 1
pawl_workflow_runs{phase="Waiting"} 0
`
	for range 3 {
		if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), strings.Fields("pawl_control_queue_depth pawl_store_commits_total pawl_store_up pawl_workflow_hook_dropped_total pawl_workflow_runs")...); err != nil {
			t.Error(err)
		}
	}
	if lists != 1 {
		t.Errorf("three scrapes within the hour listed %d times", lists)
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 || !strings.Contains(answer.Body.String(), "go_goroutines") || !strings.Contains(answer.Body.String(), "pawl_store_syncs_total 2") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

type countingLister struct {
	runstore.Lister
	n *int
}

func (c countingLister) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	*c.n++
	return c.Lister.List(ctx, q)
}

func TestSpans(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	traces := NewTraces(exporter, "test")
	play(t, traces.Hook())
	if err := traces.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	byName := map[string][]tracetest.SpanStub{}
	for _, s := range exporter.GetSpans() {
		byName[s.Name] = append(byName[s.Name], s)
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ends before it starts", s.Name)
		}
	}
	for name, n := range map[string]int{"run Quick": 1, "run Loop": 1, "run Stuck": 0, "step A": 1, "step Flaky": 3, "step Each/Create": 2, "step Room": 1} {
		if len(byName[name]) != n {
			t.Errorf("%d spans %q, want %d", len(byName[name]), name, n)
		}
	}
	run := byName["run Quick"][0]
	for _, s := range append(byName["step A"], byName["step Flaky"]...) {
		if s.SpanContext.TraceID() != run.SpanContext.TraceID() || s.Parent.SpanID() != run.SpanContext.SpanID() {
			t.Errorf("%s is not a child of its run", s.Name)
		}
		if s.StartTime.Before(run.StartTime) || s.EndTime.After(run.EndTime) {
			t.Errorf("%s lies outside of its run", s.Name)
		}
	}
	if byName["step Flaky"][0].Status.Code != codes.Error || byName["step Flaky"][2].Status.Code != codes.Ok || run.Status.Code != codes.Ok {
		t.Error("the spans do not tell how they ended")
	}
	if err := traces.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A run that starts in one process and ends in another is one trace.
func TestSpansOverARestart(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	info := workflow.RunInfo{ID: "r", Flow: "F"}
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	before, after := NewTraces(exporter, ""), NewTraces(exporter, "")
	before.onEvent(info, runtype.Event{Run: "r", Seq: 1, At: at(0), Kind: runtype.RunCreated})
	before.onEvent(info, runtype.Event{Run: "r", Seq: 2, At: at(1), Kind: runtype.StepStarted, Step: "A"})
	before.onEvent(info, runtype.Event{Run: "r", Seq: 3, At: at(2), Kind: runtype.StepDoneEvent, Step: "A"})
	after.onEvent(info, runtype.Event{Run: "r", Seq: 4, At: at(3), Kind: runtype.StepLost, Step: "B"})
	after.onEvent(info, runtype.Event{Run: "r", Seq: 5, At: at(4), Kind: runtype.RunSucceeded})
	for _, traces := range []*Traces{before, after} {
		if err := traces.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	spans := exporter.GetSpans()
	ids := map[string]bool{}
	for _, s := range spans {
		if s.SpanContext.TraceID() != runSpan("r").TraceID() {
			t.Errorf("%s is of another trace", s.Name)
		}
		ids[s.SpanContext.SpanID().String()] = true
	}
	if len(spans) != 3 || len(ids) != 3 {
		t.Errorf("%d spans with %d ids, want 3", len(spans), len(ids))
	}
	for _, traces := range []*Traces{before, after} {
		if err := traces.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOTLP(t *testing.T) {
	got := make(chan *collector.ExportTraceServiceRequest, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got <- &request
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()
	exporter, err := OTLP(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	traces := NewTraces(exporter, "test")
	traces.onEvent(workflow.RunInfo{Flow: "F"}, runtype.Event{Run: "r", Kind: runtype.RunSucceeded, At: time.Now()})
	if err := traces.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	spans := (<-got).ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 1 || spans[0].Name != "run F" {
		t.Errorf("got %v", spans)
	}
}

func TestLog(t *testing.T) {
	var text bytes.Buffer
	var mu sync.Mutex
	events := play(t, Log(slog.New(slog.NewTextHandler(writer{&mu, &text}, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	mu.Lock()
	defer mu.Unlock()
	lines := map[string]int{}
	for line := range strings.Lines(text.String()) {
		if _, rest, ok := strings.Cut(line, " step="); ok {
			run, _, _ := strings.Cut(line[strings.Index(line, "run="):], " ")
			step, _, _ := strings.Cut(rest, " ")
			_, attempt, _ := strings.Cut(rest, "attempt=")
			attempt, _, _ = strings.Cut(attempt, " ")
			lines[run+" "+step+" "+strings.TrimSpace(attempt)]++
		}
	}
	if len(lines) < 7 {
		t.Errorf("only %d attempts are reported:\n%s", len(lines), &text)
	}
	for attempt, n := range lines {
		if n > 2 && !strings.Contains(attempt, "Room") { // this step pauses its run, which has its own line
			t.Errorf("%d lines of %s:\n%s", n, attempt, &text)
		}
	}
	if !strings.Contains(text.String(), "level=WARN msg=RunPaused") || !strings.Contains(text.String(), "code=TEST_NO_ROOM") || len(events) == 0 {
		t.Errorf("the fault is not reported:\n%s", &text)
	}
}

type writer struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func TestWithoutLoopKeys(t *testing.T) {
	for step, want := range map[string]string{"A": "A", "Replace[ro-2]/Create": "Replace/Create", "A[1]/B[x]/C": "A/B/C", "A[": "A[", "": ""} {
		if got := withoutLoopKeys(step); got != want {
			t.Errorf("%q: got %q, want %q", step, got, want)
		}
	}
}

func TestStopwatchIsBounded(t *testing.T) {
	s := newStopwatch()
	for i := range maxOpen + 100 {
		s.observe(runtype.Event{Run: fmt.Sprint(i), Kind: runtype.RunCreated, At: time.Now()})
		s.observe(runtype.Event{Run: fmt.Sprint(i), Step: "A", Kind: runtype.StepStarted, At: time.Now()})
	}
	if len(s.runs) != maxOpen || len(s.steps) != maxOpen {
		t.Errorf("%d runs and %d attempts are remembered", len(s.runs), len(s.steps))
	}
}

// TestLimitWaits: steps and starts of runs that wait for a limit are counted by flow and step. Keys of limits, which are as many as
// tenants, and those of loops are no labels; other waits are not counted.
func TestLimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		limit := func(v workflow.View) (string, error) { return "tenant/7", nil }
		rate := runtype.Rate{Starts: 1, Window: time.Minute}
		nothing := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
		slow := func(context.Context, *workflow.Task) outcome.Outcome { time.Sleep(time.Second); return outcome.Done() }
		pair := &workflow.Loop{Max: 2, List: func(workflow.View) ([]json.RawMessage, error) {
			return []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`2`)}, nil
		}}
		e, err := workflow.New(runstore.NewMemory(), []workflow.Flow{
			{Name: "Rated", Limits: []workflow.RunLimit{{Key: limit, Rate: rate}}, Steps: []workflow.Step{{Name: "A", Do: nothing}}},
			{Name: "Loop", Steps: []workflow.Step{{Name: "Each", ForEach: pair, Steps: []workflow.Step{{Name: "Call", Do: slow, Limits: []workflow.StepLimit{{Key: limit, AtOnce: 1}}}}}}},
			{Name: "Other", Steps: []workflow.Step{{Name: "Wait", Do: func(context.Context, *workflow.Task) outcome.Outcome {
				return outcome.Wait(time.Second, "Something", "")
			}, Timeout: 3 * time.Second}}},
		}, workflow.Options{Hooks: []workflow.Hook{m.Hook()}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { _ = e.Serve(ctx); close(done) }()
		for i, flow := range []string{"Rated", "Rated", "Loop", "Other"} {
			if _, err := e.Start(ctx, workflow.Request{Flow: flow, Subject: fmt.Sprint("kind/space/", i)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		cancel()
		<-done

		want := `
# HELP pawl_workflow_limit_waits_total Steps, and starts of runs, that had to wait for a limit.
# TYPE pawl_workflow_limit_waits_total counter
pawl_workflow_limit_waits_total{flow="Loop",step="Each/Call"} 1
pawl_workflow_limit_waits_total{flow="Rated",step=""} 1
`
		if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "pawl_workflow_limit_waits_total"); err != nil {
			t.Error(err)
		}
	})
}
