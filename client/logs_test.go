package client_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A stream of lines ends with its end; one that breaks off says where to go on.
func TestRunLogStream(t *testing.T) {
	since := time.Date(2026, 11, 27, 12, 0, 0, 5, time.UTC)
	end := "id: 3-0\nevent: end\ndata: {\"phase\":\"Succeeded\"}\n\n"
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); r.URL.Path != "/v1/runs/r1/logs/stream" || q.Get("since") != "2026-11-27T12:00:00.000000005Z" || q.Get("tail") != "5" || q.Get("step") != "a[b]/c" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write([]byte("retry: 1000\n\nid: 2-1\nevent: log\ndata: {\"lines\":[{\"text\":\"x\"},{\"text\":\"y\"}]}\n\n: here\n\n"))
		if r.Header.Get("Last-Event-ID") == "" {
			_, _ = w.Write([]byte(end))
		}
	})
	read := func(after string) (seen []string) {
		for e, err := range c.RunLogStream(t.Context(), "r1", client.RunLogStreamParams{Step: "a[b]/c", Since: since, Tail: 5, After: after}) {
			if err != nil {
				return append(seen, string(fault.Of(err).Code)+" at "+e.Position)
			}
			for _, l := range e.Lines {
				seen = append(seen, l.Text)
			}
			if e.End {
				seen = append(seen, "end "+string(e.Phase))
			}
		}
		return seen
	}
	if got := read(""); !slices.Equal(got, []string{"x", "y", "end Succeeded"}) {
		t.Errorf("%q", got)
	}
	if got := read("1-0"); !slices.Equal(got, []string{"x", "y", "SERVER_UNREACHABLE at 2-1"}) {
		t.Errorf("broken off: %q", got)
	}
}

// Lines of the greatest size, whose JSON is six times as long, reach a reader.
func TestLongLines(t *testing.T) {
	store := runstore.NewMemory()
	engine, err := workflow.New(store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Wait: &workflow.WaitFor{Signal: "go"}}}}}, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1"})
	if err != nil {
		t.Fatal(err)
	}
	long := runstore.LogLine{Text: strings.Repeat("\x01", runstore.MaxLogLine)}
	for range 20 {
		if err := store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: run.ID, Chunks: []*runstore.LogChunk{{Step: "A", Lines: []runstore.LogLine{long, long}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}); err != nil {
		t.Fatal(err)
	}
	engine.Advance(t.Context(), run.ID)
	pawl, err := server.New(server.Options{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: "http://127.0.0.1", HTTP: &http.Client{Transport: client.HandlerTransport(pawl)}})
	if err != nil {
		t.Fatal(err)
	}
	n, ended := 0, false
	for e, err := range c.RunLogStream(t.Context(), run.ID, client.RunLogStreamParams{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range e.Lines {
			if l.Text == long.Text {
				n++
			}
		}
		ended = e.End && e.Phase == runtype.Cancelled
	}
	if n != 40 || !ended {
		t.Errorf("%d of 40 lines, ended: %t", n, ended)
	}
}
