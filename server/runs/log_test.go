package runs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// printed stores a chunk of lines; the first one is of a second after noon.
func printed(t *testing.T, h *servertest.Fixture, run, step string, leftOut int64, second int, texts ...string) {
	t.Helper()
	c := &runstore.LogChunk{Step: step, Attempt: 1, LeftOut: leftOut}
	for i, text := range texts {
		c.Lines = append(c.Lines, runstore.LogLine{At: noon.Add(time.Duration(second+i) * time.Second), Stream: runstore.LogOut, Text: text})
		c.Bytes += int64(len(text)) + 1
	}
	if err := h.Store.WriteLogs(t.Context(), []*runstore.LogWrite{{Run: run, Chunks: []*runstore.LogChunk{c}}}); err != nil {
		t.Fatal(err)
	}
}

func texts(lines []view.LogLine) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return strings.Join(all, " ")
}

// A healer is no step of the run, but its lines can be asked for.
func TestLogsOfAHealer(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	printed(t, h, r.ID, "heal:DISK_FULL", 0, 0, "freed")
	var page view.Logs
	h.Do("GET", "/v1/runs/"+r.ID+"/logs?step=heal:DISK_FULL", nil).Into(t, &page)
	if texts(page.Items) != "freed" {
		t.Errorf("%+v", page)
	}
}

func TestLogs(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	read := func(query string) view.Logs {
		t.Helper()
		var page view.Logs
		h.Do("GET", "/v1/runs/"+r.ID[:12]+"/logs"+query, nil).Into(t, &page)
		return page
	}
	if page := read(""); page.Items == nil || len(page.Items) != 0 || page.Next != "" {
		t.Errorf("a run without lines: %+v", page)
	}
	printed(t, h, r.ID, "Caught", 0, 0, "a", "c")
	printed(t, h, r.ID, "After[x]/Deep", 0, 1, "b", "d", "e")
	printed(t, h, r.ID, "Caught", 77, 10, "f", "g")
	for query, want := range map[string]string{
		"":                                   "a c b d e [77 bytes left out] f g", // of one second: in the order of writing
		"?step=Caught":                       "a c [77 bytes left out] f g",
		"?step=After[x]":                     "b d e",
		"?step=After":                        "b d e",
		"?tail=2":                            "f g",
		"?tail=1&step=After":                 "e",
		"?tail=100":                          "a c b d e [77 bytes left out] f g",
		"?since=2026-11-27T12:00:03Z":        "e [77 bytes left out] f g",
		"?since=2026-11-27T12:00:03Z&tail=3": "[77 bytes left out] f g",
	} {
		if got := texts(read(query).Items); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	if first := read("?limit=1").Items[0]; first != (view.LogLine{At: noon, Step: "Caught", Attempt: 1, Stream: runstore.LogOut, Text: "a"}) {
		t.Errorf("a line is %+v", first)
	}

	// Pages of any size, also when lines are added between them.
	for limit := 1; limit < 9; limit++ {
		var all []string
		for cursor := ""; ; {
			page := read(fmt.Sprintf("?limit=%d&cursor=%s", limit, cursor))
			all = append(all, strings.Fields(texts(page.Items))...)
			if len(page.Items) > limit {
				t.Errorf("limit %d: %d lines", limit, len(page.Items))
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if got := strings.Join(all, " "); !strings.HasPrefix(got, "a c b d e [77 bytes left out] f g") {
			t.Errorf("pages of %d: %s", limit, got)
		}
		printed(t, h, r.ID, "Caught", 0, 20+limit, "x")
	}

	for path, want := range map[string]string{
		"/v1/runs/" + r.ID + "/logs?step=Nobody":          string(workflow.RequestInvalid.Code),
		"/v1/runs/" + r.ID + "/logs?cursor=x":             "CURSOR_INVALID",
		"/v1/runs/" + r.ID + "/logs?tail=100000":          "REQUEST_INVALID",
		"/v1/runs/" + strings.Repeat("a", 26) + "/logs":   "RUN_NOT_FOUND",
		"/v1/runs/" + r.ID + "/logs/stream?step=Nobody":   string(workflow.RequestInvalid.Code),
		"/v1/runs/" + r.ID + "/logs/stream?after=nowhere": "CURSOR_INVALID",
	} {
		if p := h.Do("GET", path, nil).Problem(t); string(p.Code) != want || p.Remedy == "" {
			t.Errorf("%s: %s %s", path, p.Code, p.Detail)
		}
	}
}

// What a run does not keep is told at its beginning.
func TestLogsOfALargeRun(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	line := strings.Repeat("x", 16<<10-1)
	for range runstore.MaxRunLog>>14 + 1 {
		printed(t, h, r.ID, "Caught", 0, 0, line)
	}
	var page view.Logs
	h.Do("GET", "/v1/runs/"+r.ID+"/logs?limit=2", nil).Into(t, &page)
	want := view.LogsLeftOut(runstore.MaxRunLog/8 + 16<<10)
	if len(page.Items) != 2 || page.Items[0] != want || page.Items[1].Text != line {
		t.Errorf("it begins with %d lines, %+v", len(page.Items), page.Items[0])
	}
}

// Only operators read logs.
func TestLogsNeedAnOperator(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.Tokens = servertest.Tokens(t, servertest.Secret) })
	if status := h.Do("GET", "/v1/runs/x/logs", nil).Status; status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}

// A store without logs says so.
func TestLogsNotKept(t *testing.T) {
	type noLogs struct {
		runstore.Store
		runstore.Lister
	}
	store := runstore.NewMemory()
	engine, err := workflow.New(noLogs{store, store}, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Wait: &workflow.WaitFor{Signal: "go"}}}}}, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1"})
	if err != nil {
		t.Fatal(err)
	}
	h := servertest.New(t, func(o *server.Options) { o.Engine = engine })
	if p := h.Do("GET", "/v1/runs/"+r.ID+"/logs", nil).Problem(t); p.Code != runstore.LogsNotKept.Code || p.Status != http.StatusConflict {
		t.Errorf("%d %s", p.Status, p.Code)
	}
}
