package runs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestLimitsAreToldAndSet: a waiting run says for what it waits, and a number that is set lets it start.
func TestLimitsAreToldAndSet(t *testing.T) {
	h := servertest.New(t, nil)
	flow := workflow.Flow{Name: "Limited", Limits: []workflow.RunLimit{{Key: workflow.FixedKey("a/b"), AtOnce: 1}},
		Steps: []workflow.Step{{Name: "Caught", Wait: &workflow.WaitFor{Signal: "go"}}}}
	if err := h.Engine.Load(append(h.Engine.Flows(), flow)); err != nil {
		t.Fatal(err)
	}
	first := h.Until(h.Start("Limited", "demo/default/c1").ID, runtype.Waiting)
	var second view.Run
	h.Do("POST", "/v1/runs", `{"flow":"Limited","subject":"demo/default/c2","priority":3}`).Into(t, &second)
	h.Do("GET", "/v1/runs/"+second.ID, nil).Into(t, &second)
	if second.Phase != runtype.Queued || second.Priority != 3 || second.Behind != "" || len(second.Limits) != 1 ||
		second.Limits[0].Running != 1 || second.Limits[0].Waiting != 1 || len(second.Limits[0].Holders) != 1 || second.Limits[0].Holders[0] != first.ID {
		t.Errorf("got %+v", second)
	}
	var list view.Runs
	h.Do("GET", "/v1/runs?phase=Queued", nil).Into(t, &list)
	if len(list.Items) != 1 || !list.Items[0].WaitsForLimits() || list.Items[0].Behind != "" {
		t.Errorf("listed %+v", list.Items)
	}
	if got := h.Do("PUT", "/v1/limits", `{"key":"a/b","atOnce":2}`); got.Status != http.StatusNoContent {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	h.Until(second.ID, runtype.Waiting)
	var limits view.LimitPage
	h.Do("GET", "/v1/limits", nil).Into(t, &limits)
	if len(limits.Items) != 1 || limits.Items[0].Key != "a/b" || limits.Items[0].AtOnce != 2 || !limits.Items[0].Set || limits.Items[0].Running != 2 {
		t.Errorf("got %+v", limits)
	}
	if got := h.Do("DELETE", "/v1/limits?key=a%2Fb", nil); got.Status != http.StatusNoContent {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var after view.LimitPage
	h.Do("GET", "/v1/limits", nil).Into(t, &after)
	if len(after.Items) != 1 || after.Items[0].AtOnce != 1 || after.Items[0].Set {
		t.Errorf("after the reset: %+v", after)
	}
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/limits", `{"key":"a","atOnce":-1}`}, {"PUT", "/v1/limits", `{"key":"","atOnce":1}`}, {"DELETE", "/v1/limits", ""},
		{"POST", "/v1/runs", `{"flow":"Limited","subject":"demo/default/c3","priority":1001}`},
	} {
		if got := h.Do(c.method, c.path, c.body); got.Status != http.StatusUnprocessableEntity && got.Status != http.StatusBadRequest {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, strings.TrimSpace(c.body), got.Status, got.Body)
		}
	}
}
