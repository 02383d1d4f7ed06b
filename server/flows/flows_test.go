package flows_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

func TestFlowsFaultsAndPlans(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		healers := map[fault.Code]workflow.Healer{servertest.NoCapacity.Code: {Flow: "Quick", Limits: workflow.Limits{Attempts: 7}}}
		if err := o.Engine.LoadAll(o.Engine.Flows(), healers); err != nil {
			t.Fatal(err)
		}
	})
	var flows view.Flows
	h.Do("GET", "/v1/flows", nil).Into(t, &flows)
	if len(flows.Items) != 3 || flows.Items[1].Name != "Quick" || flows.Items[1].Count != 2 || flows.Items[1].Steps != nil {
		t.Errorf("got %+v", flows)
	}
	var flow view.Flow
	answer := h.Do("GET", "/v1/flows/Waits", nil)
	answer.Into(t, &flow)
	if len(flow.Steps) != 2 || flow.Steps[0].Wait != "signal caught-up" || flow.Steps[0].Kind != "wait" || flow.Hash == "" {
		t.Errorf("got %s", answer.Body)
	}
	if got := h.Do("GET", "/v1/flows/Waits", nil, "If-None-Match", answer.Header.Get("ETag")); got.Status != http.StatusNotModified {
		t.Errorf("If-None-Match of a flow: %d", got.Status)
	}
	if got := h.Do("GET", "/v1/flows/None", nil); got.Status != http.StatusNotFound || got.Problem(t).Code != workflow.FlowUnknown.Code {
		t.Errorf("unknown flow: %d %s", got.Status, got.Body)
	}

	var kinds view.Kinds
	h.Do("GET", "/v1/faults", nil).Into(t, &kinds)
	if len(kinds.Items) < 40 {
		t.Errorf("only %d faults are listed", len(kinds.Items))
	}
	for _, name := range []string{"TEST_NO_ROOM", "TestNoRoom"} {
		var kind view.Kind
		h.Do("GET", "/v1/faults/"+name, nil).Into(t, &kind)
		if kind.Code != servertest.NoCapacity.Code || kind.Remedy != servertest.NoCapacity.Remedy || kind.Healer == nil || kind.Healer.Attempts != 7 || kind.Healer.Within != "24h" {
			t.Errorf("%s: got %+v", name, kind)
		}
	}
	if got := h.Do("GET", "/v1/faults/TIMEUOT", nil); got.Status != http.StatusNotFound || !strings.Contains(got.Problem(t).Detail, "did you mean TIMEOUT") {
		t.Errorf("unknown fault: %d %s", got.Status, got.Body)
	}

	var plan struct{ Plan view.Plan }
	h.Do("POST", "/v1/plans", `{"flow":"Quick","input":{}}`).Into(t, &plan)
	if len(plan.Plan.Steps) != 2 || plan.Plan.Steps[0].Decision != "run" {
		t.Errorf("got %+v", plan)
	}
	for body, want := range map[string]int{`{}`: 422, `{"flow":"Quick","object":{"kind":"a","namespace":"b","name":"c"}}`: 422, `{"flow":"None"}`: 404,
		`{"object":{"kind":"demo","namespace":"default","name":"c1"}}`: 501} {
		if got := h.Do("POST", "/v1/plans", body); got.Status != want {
			t.Errorf("plan %s: %d, want %d: %s", body, got.Status, want, got.Body)
		}
	}
	var me auth.Me
	h.Do("GET", "/v1/me", nil).Into(t, &me)
	if me.Role != route.Operator || me.Version != "test" {
		t.Errorf("got %+v", me)
	}
	if data, _ := json.Marshal(me); !strings.Contains(string(data), `"role":"operator"`) {
		t.Errorf("got %s", data)
	}
}
