package events_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func writeLines(t *testing.T, h *servertest.Fixture, run, step string, texts ...string) {
	t.Helper()
	c := &runstore.LogChunk{Step: step, Attempt: 1}
	for _, text := range texts {
		c.Lines = append(c.Lines, runstore.LogLine{At: time.Now().UTC(), Text: text})
	}
	if err := h.Store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: run, Chunks: []*runstore.LogChunk{c}}}); err != nil {
		t.Fatal(err)
	}
}

// lines reads events until so many lines were read, and returns them with the id of the last event.
func lines(t *testing.T, e *servertest.EventReader, n int) (texts, id string) {
	t.Helper()
	var all []string
	for len(all) < n {
		h := e.Next()
		var data events.LogEvent
		if err := json.Unmarshal([]byte(h.Data), &data); err != nil || h.Kind != "log" {
			t.Fatalf("%s %s, %v", h.Kind, h.Data, err)
		}
		for _, l := range data.Lines {
			all = append(all, l.Text)
		}
		id = h.ID
	}
	return strings.Join(all, " "), id
}

// A reader gets what there is, then each line as it comes, and the end; it goes on where it was.
func TestLogStream(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	writeLines(t, h, r.ID, "Caught", "a", "b")
	all, tail, step := h.Listen("/v1/runs/"+r.ID+"/logs/stream", ""), h.Listen("/v1/runs/"+r.ID+"/logs/stream?tail=1", ""), h.Listen("/v1/runs/"+r.ID+"/logs/stream?step=Caught", "")
	first, id := lines(t, all, 2)
	newest, _ := lines(t, tail, 1)
	if first != "a b" || newest != "b" {
		t.Errorf("they begin with %q and %q", first, newest)
	}
	writeLines(t, h, r.ID, "Caught", "c")
	writeLines(t, h, r.ID, "After", "d")
	for what, e := range map[string]*servertest.EventReader{"all": all, "tail": tail, "again": h.Listen("/v1/runs/"+r.ID+"/logs/stream?tail=1", id)} {
		if got, _ := lines(t, e, 2); got != "c d" {
			t.Errorf("%s: then %q", what, got)
		}
	}
	if got, _ := lines(t, step, 3); got != "a b c" {
		t.Errorf("of the step: %q", got)
	}
	h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up"}`)
	for what, e := range map[string]*servertest.EventReader{"all": all, "of the step": step} {
		end := e.Next()
		if end.Kind != "end" || what == "all" && end.Data != `{"phase":"Succeeded"}` {
			t.Errorf("%s: the end is %s %s", what, end.Kind, end.Data)
		}
		if e.Lines.Scan() {
			t.Errorf("%s: behind the end comes %q", what, e.Lines.Text())
		}
	}
}
