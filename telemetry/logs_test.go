package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func textOf(list []*common.KeyValue, key string) string {
	for _, a := range list {
		if a.Key == key {
			if n, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
				return fmt.Sprint(n.IntValue)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func TestSignalURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318":              "http://127.0.0.1:4318/v1/logs",
		"http://127.0.0.1:4318/":             "http://127.0.0.1:4318/v1/logs",
		"http://127.0.0.1:4318/v1/traces":    "http://127.0.0.1:4318/v1/logs",
		"https://otel.example/collect":       "https://otel.example/collect/v1/logs",
		"https://otel.example/a/v1/traces?k": "https://otel.example/a/v1/logs?k",
	} {
		if got, err := signalURL(endpoint, "logs"); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", endpoint, got, err, want)
		}
	}
}

// What steps of a real engine print reaches a collector as log records in the trace of their run.
func TestOTLPLogs(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var traces []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportLogsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/logs" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.ResourceLogs {
			if name := textOf(resource.Resource.Attributes, "service.name"); name != "pawl" {
				t.Errorf("the service is %q", name)
			}
			for _, scope := range resource.ScopeLogs {
				for _, l := range scope.LogRecords {
					got = append(got, fmt.Sprintf("%s %s %s %s %s", l.SeverityText, textOf(l.Attributes, "pawl.step"), textOf(l.Attributes, "pawl.attempt"),
						textOf(l.Attributes, "log.iostream"), l.Body.GetStringValue()))
					traces = append(traces, hex.EncodeToString(l.TraceId))
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()
	exporter, err := OTLPLogs(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	logs := NewLogs(exporter, "test")
	flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "Build", Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
		fmt.Fprintln(task.Stdout(), "compiling")
		fmt.Fprintln(task.Stderr(), "deprecated")
		task.Logger().WarnContext(ctx, "slow", "seconds", 3)
		return outcome.Done()
	}}}}
	hook, printed := logs.Hook(), make(chan int, 10)
	inner := hook.OnPrinted
	hook.OnPrinted = func(p workflow.PrintedLines) { inner(p); printed <- len(p.Lines) }
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{Hooks: []workflow.Hook{hook}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Serve(ctx) }()
	r, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/a"})
	if err == nil {
		_, err = engine.Await(t.Context(), r.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 3; {
		n += <-printed
	}
	cancel()
	<-ended
	if err := logs.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(got)
	want := []string{"INFO Build 1 stderr deprecated", "INFO Build 1 stdout compiling", "WARN Build 1  level=WARN msg=slow seconds=3"}
	if !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
	for _, id := range traces {
		if id != runSpan(r.ID).TraceID().String() {
			t.Errorf("a record is in the trace %s, not in that of its run", id)
		}
	}
}
