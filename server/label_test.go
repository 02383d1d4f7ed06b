package server

import (
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

func TestListOfRunsByLabels(t *testing.T) {
	h := newFixture(t, nil)
	for subject, labels := range map[string]string{"demo/default/c1": `{"team":"blue"}`, "demo/default/c2": `{"team":"red","tier":"gold"}`, "demo/default/c3": `{}`} {
		if answer := h.do("POST", "/v1/runs", `{"flow":"Quick","subject":"`+subject+`","labels":`+labels+`}`); answer.status != http.StatusAccepted {
			t.Fatalf("%d %s", answer.status, answer.body)
		}
	}
	for selector, want := range map[string]int{"": 3, "team%3Dblue": 1, "team": 2, "!team": 1, "team!%3Dblue": 2, "team,tier%3Dgold": 1, "team%3Dgreen": 0} {
		var page view.Runs
		h.do("GET", "/v1/runs?selector="+selector, nil).into(t, &page)
		if len(page.Items) != want {
			t.Errorf("selector %q finds %d runs, want %d", selector, len(page.Items), want)
		}
	}
	bad := h.do("GET", "/v1/runs?selector=%3Dblue", nil)
	if p := bad.problem(t); bad.status != http.StatusUnprocessableEntity || p.Code != workflow.InputInvalid.Code {
		t.Errorf("%d %s", bad.status, bad.body)
	}
}
