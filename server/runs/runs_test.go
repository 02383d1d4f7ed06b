package runs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestRunFromStartToEnd(t *testing.T) {
	h := servertest.New(t, nil)
	started := h.Do("POST", "/v1/runs", `{"flow":"Quick","subject":"demo/default/c1","input":{"n":9007199254740993},"reason":"a test","actor":"anna","labels":{"a":"b"}}`)
	if started.Status != http.StatusAccepted || started.Header.Get("ETag") == "" {
		t.Fatalf("%d %v %s", started.Status, started.Header, started.Body)
	}
	var r view.Run
	started.Into(t, &r)
	if started.Header.Get("Location") != "/v1/runs/"+r.ID || r.Actor != "anna" || r.Reason != "a test" || string(r.Input) != `{"n":9007199254740993}` {
		t.Errorf("got %v %s", started.Header, started.Body)
	}
	r = h.Until(r.ID, runtype.Succeeded)
	if len(r.Steps) != 2 || r.Steps[0].Name != "A" || r.Steps[0].Budget != 10 || r.Version != 3 {
		t.Errorf("got %+v", r)
	}
	var short view.Run
	h.Do("GET", "/v1/runs/"+r.ID[:6], nil).Into(t, &short)
	if short.ID != r.ID {
		t.Errorf("a beginning of the id found %q", short.ID)
	}

	var first, second, rest view.History
	h.Do("GET", "/v1/runs/"+r.ID+"/history?limit=2", nil).Into(t, &first)
	h.Do("GET", "/v1/runs/"+r.ID+"/history?limit=2&cursor="+first.Next, nil).Into(t, &second)
	h.Do("GET", "/v1/runs/"+r.ID+"/history?cursor="+second.Next, nil).Into(t, &rest)
	all := append(append(first.Items, second.Items...), rest.Items...)
	if len(first.Items) != 2 || rest.Next != "" || all[0].Kind != runtype.RunCreated || all[len(all)-1].Kind != runtype.RunSucceeded {
		t.Errorf("got %+v", all)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
}

func TestPausedRunIsResumed(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Blocked", "demo/default/c1").ID, runtype.Paused)
	if r.Fault == nil || r.Fault.Code != servertest.NoCapacity.Code || r.Fault.Remedy != servertest.NoCapacity.Remedy || r.Fault.Title != servertest.NoCapacity.Title || r.Step != "Room" {
		t.Fatalf("promise 7: the paused run tells %+v at %s", r.Fault, r.Step)
	}
	queued := h.Start("Quick", "demo/default/c1")
	if queued.Phase != runtype.Queued || queued.Behind != r.ID {
		t.Errorf("the second run is %s behind %q", queued.Phase, queued.Behind)
	}
	var page view.Runs
	h.Do("GET", "/v1/runs?phase=Queued", nil).Into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Behind != r.ID {
		t.Errorf("the list of queued runs tells %+v", page.Items)
	}
	h.Heal()
	answer := h.Do("POST", "/v1/runs/"+r.ID+"/resume", `{"reason":"made room"}`)
	if answer.Status != http.StatusAccepted {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	h.Until(r.ID, runtype.Succeeded)
	h.Until(queued.ID, runtype.Succeeded)
	again := h.Do("POST", "/v1/runs/"+r.ID+"/cancel", `{"mode":"drop"}`)
	if p := again.Problem(t); again.Status != http.StatusConflict || p.Code != workflow.RunFinished.Code || p.Run != r.ID {
		t.Errorf("a finished run was cancelled: %d %s", again.Status, again.Body)
	}
}

func TestSignalWakesARun(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	if r.Current() == nil || r.Current().Wait == nil || r.Current().Wait.Signal != "caught-up" {
		t.Fatalf("got %+v", r)
	}
	answer := h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up","id":"ev-91","data":{"lag":0}}`)
	if answer.Status != http.StatusAccepted {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	r = h.Until(r.ID, runtype.Succeeded)
	if string(r.Steps[0].Output) != `{"lag":0}` {
		t.Errorf("the payload became %s", r.Steps[0].Output)
	}
	for name, want := range map[string]int{"pawl/cancel": 422, "": 422, "ok": 409} {
		if got := h.Do("POST", "/v1/runs/"+r.ID+"/signal", map[string]any{"name": name}); got.Status != want {
			t.Errorf("signal %q: %d, want %d: %s", name, got.Status, want, got.Body)
		}
	}
}

func TestVerbs(t *testing.T) {
	h := servertest.New(t, nil)
	for _, c := range []struct {
		verb, body string
		ends       runtype.Phase
		code       string
	}{
		{"pause", ``, runtype.Paused, "PAUSED"},
		{"cancel", `{"mode":"hold","reason":"lunch"}`, runtype.Paused, "CANCELLED"},
		{"cancel", `{}`, runtype.Paused, "CANCELLED"},
		{"cancel", `{"mode":"undo"}`, runtype.Cancelled, ""},
		{"cancel", `{"mode":"drop"}`, runtype.Cancelled, ""},
		{"skip", `{"step":"Caught","force":true,"reason":"not needed"}`, runtype.Succeeded, ""},
	} {
		r := h.Until(h.Start("Waits", "demo/default/"+strings.ToLower(c.verb)+fmt.Sprint(len(c.body))).ID, runtype.Waiting)
		var body any
		if c.body != "" {
			body = c.body
		}
		answer := h.Do("POST", "/v1/runs/"+r.ID+"/"+c.verb, body)
		if answer.Status != http.StatusAccepted {
			t.Errorf("%s %s: %d %s", c.verb, c.body, answer.Status, answer.Body)
			continue
		}
		r = h.Until(r.ID, c.ends)
		if c.code != "" && (r.Fault == nil || string(r.Fault.Code) != c.code || r.Fault.Remedy == "") {
			t.Errorf("%s %s: fault %+v, want %s", c.verb, c.body, r.Fault, c.code)
		}
	}
	refused := h.Until(h.Start("Waits", "demo/default/refused").ID, runtype.Waiting)
	for _, c := range []struct {
		verb, body, code string
	}{
		{"skip", `{"step":"Caught"}`, "SKIP_REFUSED"},
		{"skip", `{"step":"None"}`, "SKIP_REFUSED"},
		{"resume", `{"from":"After"}`, "REQUEST_REFUSED"},
		{"progress", `{"step":"None","done":1}`, "REQUEST_REFUSED"},
	} {
		got := h.Do("POST", "/v1/runs/"+refused.ID+"/"+c.verb, c.body)
		if p := got.Problem(t); got.Status != http.StatusConflict || string(p.Code) != c.code || p.Run != refused.ID || p.Remedy == "" {
			t.Errorf("%s %s: %d %s", c.verb, c.body, got.Status, got.Body)
		}
	}
	r := h.Until(h.Start("Waits", "demo/default/progress").ID, runtype.Waiting)
	if got := h.Do("POST", "/v1/runs/"+r.ID+"/progress", `{"step":"Caught","done":3,"total":10,"text":"files"}`); got.Status != http.StatusAccepted {
		t.Errorf("progress: %d %s", got.Status, got.Body)
	}
}

func TestListOfRuns(t *testing.T) {
	h := servertest.New(t, nil)
	for i := range 5 {
		h.Until(h.Start("Quick", fmt.Sprintf("demo/default/c%d", i)).ID, runtype.Succeeded)
	}
	blocked := h.Until(h.Start("Blocked", "demo/default/c1").ID, runtype.Paused)
	var seen []string
	for cursor := ""; ; {
		var page view.Runs
		h.Do("GET", "/v1/runs?limit=2&cursor="+cursor, nil).Into(t, &page)
		for _, r := range page.Items {
			seen = append(seen, r.Subject)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got, want := strings.Join(seen, " "), "demo/default/c1 demo/default/c4 demo/default/c3 demo/default/c2 demo/default/c1 demo/default/c0"; got != want {
		t.Errorf("page by page:\n%s\nwant\n%s", got, want)
	}
	for query, want := range map[string]int{
		"phase=Paused": 1, "phase=Paused,Succeeded": 6, "active=true": 1, "flow=Quick": 5, "subject=demo/default/c1": 2,
		"prefix=" + blocked.ID[:8]: 1, "flow=None": 0, "oldest=true&limit=3": 3, "hash=" + blocked.Hash: 1,
	} {
		var page view.Runs
		answer := h.Do("GET", "/v1/runs?"+query, nil)
		answer.Into(t, &page)
		if len(page.Items) != want || page.Items == nil {
			t.Errorf("%s: %d runs, want %d: %s", query, len(page.Items), want, answer.Body)
		}
	}
	for _, r := range [...]string{"phase=Lost", "limit=0", "limit=501", "color=red"} {
		if got := h.Do("GET", "/v1/runs?"+r, nil); got.Status != http.StatusUnprocessableEntity || got.Problem(t).Code != route.Refused.Code {
			t.Errorf("%s: %d %s", r, got.Status, got.Body)
		}
	}
	if got := h.Do("GET", "/v1/runs?cursor=%20x", nil); got.Status != http.StatusBadRequest || got.Problem(t).Code != route.CursorInvalid.Code {
		t.Errorf("a cursor of nobody: %d %s", got.Status, got.Body)
	}
}

func TestRevisionsOfRuns(t *testing.T) {
	h := servertest.New(t, nil)
	r := h.Until(h.Start("Waits", "demo/default/c1").ID, runtype.Waiting)
	answer := h.Do("GET", "/v1/runs/"+r.ID, nil)
	tag := answer.Header.Get("ETag")
	if tag != fmt.Sprintf("%q", fmt.Sprint(r.Revision)) {
		t.Errorf("ETag %s of revision %d", tag, r.Revision)
	}
	if got := h.Do("GET", "/v1/runs/"+r.ID, nil, "If-None-Match", tag); got.Status != http.StatusNotModified || len(got.Body) != 0 || got.Header.Get("ETag") != tag {
		t.Errorf("If-None-Match: %d %v %s", got.Status, got.Header, got.Body)
	}
	if got := h.Do("GET", "/v1/runs/"+r.ID, nil, "If-None-Match", `"1"`); got.Status != http.StatusOK {
		t.Errorf("another ETag: %d", got.Status)
	}
	old := h.Do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", `"1"`)
	if p := old.Problem(t); old.Status != http.StatusPreconditionFailed || p.Code != "WRITE_CONFLICT" || p.Remedy == "" {
		t.Errorf("an old If-Match: %d %s", old.Status, old.Body)
	}
	for _, wrong := range []string{"soon", `"+1"`, `+1`, `"01"`, `"-1"`, `"0"`, `"1`, `""`, `"1","2"`} {
		if got := h.Do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", wrong); got.Status != http.StatusBadRequest {
			t.Errorf("If-Match: %s: %d %s", wrong, got.Status, got.Body)
		}
	}
	if got := h.Do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", tag); got.Status != http.StatusAccepted {
		t.Errorf("If-Match: %d %s", got.Status, got.Body)
	}
	h.Until(r.ID, runtype.Paused)
}
