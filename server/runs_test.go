package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

func TestRunFromStartToEnd(t *testing.T) {
	h := newFixture(t, nil)
	started := h.do("POST", "/v1/runs", `{"flow":"Quick","subject":"demo/default/c1","input":{"n":9007199254740993},"reason":"a test","actor":"anna","labels":{"a":"b"}}`)
	if started.status != http.StatusAccepted || started.header.Get("ETag") == "" {
		t.Fatalf("%d %v %s", started.status, started.header, started.body)
	}
	var r view.Run
	started.into(t, &r)
	if started.header.Get("Location") != "/v1/runs/"+r.ID || r.Actor != "anna" || r.Reason != "a test" || string(r.Input) != `{"n":9007199254740993}` {
		t.Errorf("got %v %s", started.header, started.body)
	}
	r = h.until(r.ID, workflow.Succeeded)
	if len(r.Steps) != 2 || r.Steps[0].Name != "A" || r.Steps[0].Budget != 10 || r.Version != 3 {
		t.Errorf("got %+v", r)
	}
	var short view.Run
	h.do("GET", "/v1/runs/"+r.ID[:6], nil).into(t, &short)
	if short.ID != r.ID {
		t.Errorf("a beginning of the id found %q", short.ID)
	}

	var first, second, rest view.History
	h.do("GET", "/v1/runs/"+r.ID+"/history?limit=2", nil).into(t, &first)
	h.do("GET", "/v1/runs/"+r.ID+"/history?limit=2&cursor="+first.Next, nil).into(t, &second)
	h.do("GET", "/v1/runs/"+r.ID+"/history?cursor="+second.Next, nil).into(t, &rest)
	all := append(append(first.Items, second.Items...), rest.Items...)
	if len(first.Items) != 2 || rest.Next != "" || all[0].Kind != workflow.RunCreated || all[len(all)-1].Kind != workflow.RunSucceeded {
		t.Errorf("got %+v", all)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
}

func TestPausedRunIsResumed(t *testing.T) {
	h := newFixture(t, nil)
	r := h.until(h.start("Blocked", "demo/default/c1").ID, workflow.Paused)
	if r.Fault == nil || r.Fault.Code != noCapacity.Code || r.Fault.Remedy != noCapacity.Remedy || r.Fault.Title != noCapacity.Title || r.Step != "Room" {
		t.Fatalf("promise 7: the paused run tells %+v at %s", r.Fault, r.Step)
	}
	queued := h.start("Quick", "demo/default/c1")
	if queued.Phase != workflow.Queued || queued.Behind != r.ID {
		t.Errorf("the second run is %s behind %q", queued.Phase, queued.Behind)
	}
	var page view.Runs
	h.do("GET", "/v1/runs?phase=Queued", nil).into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Behind != r.ID {
		t.Errorf("the list of queued runs tells %+v", page.Items)
	}
	h.heal()
	answer := h.do("POST", "/v1/runs/"+r.ID+"/resume", `{"reason":"made room"}`)
	if answer.status != http.StatusAccepted {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	h.until(r.ID, workflow.Succeeded)
	h.until(queued.ID, workflow.Succeeded)
	again := h.do("POST", "/v1/runs/"+r.ID+"/cancel", `{"mode":"drop"}`)
	if p := again.problem(t); again.status != http.StatusConflict || p.Code != workflow.RunFinished.Code || p.Run != r.ID {
		t.Errorf("a finished run was cancelled: %d %s", again.status, again.body)
	}
}

func TestSignalWakesARun(t *testing.T) {
	h := newFixture(t, nil)
	r := h.until(h.start("Waits", "demo/default/c1").ID, workflow.Waiting)
	if r.Current() == nil || r.Current().Wait == nil || r.Current().Wait.Signal != "caught-up" {
		t.Fatalf("got %+v", r)
	}
	answer := h.do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"caught-up","id":"ev-91","data":{"lag":0}}`)
	if answer.status != http.StatusAccepted {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	r = h.until(r.ID, workflow.Succeeded)
	if string(r.Steps[0].Output) != `{"lag":0}` {
		t.Errorf("the payload became %s", r.Steps[0].Output)
	}
	for name, want := range map[string]int{"pawl/cancel": 422, "": 422, "ok": 409} {
		if got := h.do("POST", "/v1/runs/"+r.ID+"/signal", map[string]any{"name": name}); got.status != want {
			t.Errorf("signal %q: %d, want %d: %s", name, got.status, want, got.body)
		}
	}
}

func TestVerbs(t *testing.T) {
	h := newFixture(t, nil)
	for _, c := range []struct {
		verb, body string
		ends       workflow.Phase
		code       string
	}{
		{"pause", ``, workflow.Paused, "PAUSED"},
		{"cancel", `{"mode":"hold","reason":"lunch"}`, workflow.Paused, "CANCELLED"},
		{"cancel", `{}`, workflow.Paused, "CANCELLED"},
		{"cancel", `{"mode":"undo"}`, workflow.Cancelled, ""},
		{"cancel", `{"mode":"drop"}`, workflow.Cancelled, ""},
		{"skip", `{"step":"Caught","force":true,"reason":"not needed"}`, workflow.Succeeded, ""},
	} {
		r := h.until(h.start("Waits", "demo/default/"+strings.ToLower(c.verb)+fmt.Sprint(len(c.body))).ID, workflow.Waiting)
		var body any
		if c.body != "" {
			body = c.body
		}
		answer := h.do("POST", "/v1/runs/"+r.ID+"/"+c.verb, body)
		if answer.status != http.StatusAccepted {
			t.Errorf("%s %s: %d %s", c.verb, c.body, answer.status, answer.body)
			continue
		}
		r = h.until(r.ID, c.ends)
		if c.code != "" && (r.Fault == nil || string(r.Fault.Code) != c.code || r.Fault.Remedy == "") {
			t.Errorf("%s %s: fault %+v, want %s", c.verb, c.body, r.Fault, c.code)
		}
	}
	refused := h.until(h.start("Waits", "demo/default/refused").ID, workflow.Waiting)
	for _, c := range []struct {
		verb, body, code string
	}{
		{"skip", `{"step":"Caught"}`, "SKIP_REFUSED"},
		{"skip", `{"step":"None"}`, "SKIP_REFUSED"},
		{"resume", `{"from":"After"}`, "REQUEST_REFUSED"},
		{"progress", `{"step":"None","done":1}`, "REQUEST_REFUSED"},
	} {
		got := h.do("POST", "/v1/runs/"+refused.ID+"/"+c.verb, c.body)
		if p := got.problem(t); got.status != http.StatusConflict || string(p.Code) != c.code || p.Run != refused.ID || p.Remedy == "" {
			t.Errorf("%s %s: %d %s", c.verb, c.body, got.status, got.body)
		}
	}
	r := h.until(h.start("Waits", "demo/default/progress").ID, workflow.Waiting)
	if got := h.do("POST", "/v1/runs/"+r.ID+"/progress", `{"step":"Caught","done":3,"total":10,"text":"files"}`); got.status != http.StatusAccepted {
		t.Errorf("progress: %d %s", got.status, got.body)
	}
}

func TestListOfRuns(t *testing.T) {
	h := newFixture(t, nil)
	for i := range 5 {
		h.until(h.start("Quick", fmt.Sprintf("demo/default/c%d", i)).ID, workflow.Succeeded)
	}
	blocked := h.until(h.start("Blocked", "demo/default/c1").ID, workflow.Paused)
	var seen []string
	for cursor := ""; ; {
		var page view.Runs
		h.do("GET", "/v1/runs?limit=2&cursor="+cursor, nil).into(t, &page)
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
		answer := h.do("GET", "/v1/runs?"+query, nil)
		answer.into(t, &page)
		if len(page.Items) != want || page.Items == nil {
			t.Errorf("%s: %d runs, want %d: %s", query, len(page.Items), want, answer.body)
		}
	}
	for _, r := range [...]string{"phase=Lost", "limit=0", "limit=501", "color=red"} {
		if got := h.do("GET", "/v1/runs?"+r, nil); got.status != http.StatusUnprocessableEntity || got.problem(t).Code != Refused.Code {
			t.Errorf("%s: %d %s", r, got.status, got.body)
		}
	}
	if got := h.do("GET", "/v1/runs?cursor=%20x", nil); got.status != http.StatusBadRequest || got.problem(t).Code != CursorInvalid.Code {
		t.Errorf("a cursor of nobody: %d %s", got.status, got.body)
	}
}

func TestRevisionsOfRuns(t *testing.T) {
	h := newFixture(t, nil)
	r := h.until(h.start("Waits", "demo/default/c1").ID, workflow.Waiting)
	answer := h.do("GET", "/v1/runs/"+r.ID, nil)
	tag := answer.header.Get("ETag")
	if tag != fmt.Sprintf("%q", fmt.Sprint(r.Revision)) {
		t.Errorf("ETag %s of revision %d", tag, r.Revision)
	}
	if got := h.do("GET", "/v1/runs/"+r.ID, nil, "If-None-Match", tag); got.status != http.StatusNotModified || len(got.body) != 0 || got.header.Get("ETag") != tag {
		t.Errorf("If-None-Match: %d %v %s", got.status, got.header, got.body)
	}
	if got := h.do("GET", "/v1/runs/"+r.ID, nil, "If-None-Match", `"1"`); got.status != http.StatusOK {
		t.Errorf("another ETag: %d", got.status)
	}
	old := h.do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", `"1"`)
	if p := old.problem(t); old.status != http.StatusPreconditionFailed || p.Code != "WRITE_CONFLICT" || p.Remedy == "" {
		t.Errorf("an old If-Match: %d %s", old.status, old.body)
	}
	for _, wrong := range []string{"soon", `"+1"`, `+1`, `"01"`, `"-1"`, `"0"`, `"1`, `""`, `"1","2"`} {
		if got := h.do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", wrong); got.status != http.StatusBadRequest {
			t.Errorf("If-Match: %s: %d %s", wrong, got.status, got.body)
		}
	}
	if got := h.do("POST", "/v1/runs/"+r.ID+"/pause", nil, "If-Match", tag); got.status != http.StatusAccepted {
		t.Errorf("If-Match: %d %s", got.status, got.body)
	}
	h.until(r.ID, workflow.Paused)
}

func TestFlowsFaultsAndPlans(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		healers := map[fault.Code]workflow.Healer{noCapacity.Code: {Flow: "Quick", Limits: workflow.Limits{Attempts: 7}}}
		if err := o.Engine.LoadAll(o.Engine.Flows(), healers); err != nil {
			t.Fatal(err)
		}
	})
	var flows view.Flows
	h.do("GET", "/v1/flows", nil).into(t, &flows)
	if len(flows.Items) != 3 || flows.Items[1].Name != "Quick" || flows.Items[1].Count != 2 || flows.Items[1].Steps != nil {
		t.Errorf("got %+v", flows)
	}
	var flow view.Flow
	answer := h.do("GET", "/v1/flows/Waits", nil)
	answer.into(t, &flow)
	if len(flow.Steps) != 2 || flow.Steps[0].Wait != "signal caught-up" || flow.Steps[0].Kind != "wait" || flow.Hash == "" {
		t.Errorf("got %s", answer.body)
	}
	if got := h.do("GET", "/v1/flows/Waits", nil, "If-None-Match", answer.header.Get("ETag")); got.status != http.StatusNotModified {
		t.Errorf("If-None-Match of a flow: %d", got.status)
	}
	if got := h.do("GET", "/v1/flows/None", nil); got.status != http.StatusNotFound || got.problem(t).Code != workflow.FlowUnknown.Code {
		t.Errorf("unknown flow: %d %s", got.status, got.body)
	}

	var kinds view.Kinds
	h.do("GET", "/v1/faults", nil).into(t, &kinds)
	if len(kinds.Items) < 40 {
		t.Errorf("only %d faults are listed", len(kinds.Items))
	}
	for _, name := range []string{"TEST_NO_ROOM", "TestNoRoom"} {
		var kind view.Kind
		h.do("GET", "/v1/faults/"+name, nil).into(t, &kind)
		if kind.Code != noCapacity.Code || kind.Remedy != noCapacity.Remedy || kind.Healer == nil || kind.Healer.Attempts != 7 || kind.Healer.Within != "24h" {
			t.Errorf("%s: got %+v", name, kind)
		}
	}
	if got := h.do("GET", "/v1/faults/TIMEUOT", nil); got.status != http.StatusNotFound || !strings.Contains(got.problem(t).Detail, "did you mean TIMEOUT") {
		t.Errorf("unknown fault: %d %s", got.status, got.body)
	}

	var plan struct{ Plan view.Plan }
	h.do("POST", "/v1/plans", `{"flow":"Quick","input":{}}`).into(t, &plan)
	if len(plan.Plan.Steps) != 2 || plan.Plan.Steps[0].Decision != "run" {
		t.Errorf("got %+v", plan)
	}
	for body, want := range map[string]int{`{}`: 422, `{"flow":"Quick","object":{"kind":"a","namespace":"b","name":"c"}}`: 422, `{"flow":"None"}`: 404,
		`{"object":{"kind":"demo","namespace":"default","name":"c1"}}`: 501} {
		if got := h.do("POST", "/v1/plans", body); got.status != want {
			t.Errorf("plan %s: %d, want %d: %s", body, got.status, want, got.body)
		}
	}
	var me Me
	h.do("GET", "/v1/me", nil).into(t, &me)
	if me.Role != Operator || me.Version != "test" {
		t.Errorf("got %+v", me)
	}
	if data, _ := json.Marshal(me); !strings.Contains(string(data), `"role":"operator"`) {
		t.Errorf("got %s", data)
	}
}
