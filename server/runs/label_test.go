package runs_test

import (
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestListOfRunsByLabels(t *testing.T) {
	h := servertest.New(t, nil)
	for subject, labels := range map[string]string{"demo/default/c1": `{"team":"blue"}`, "demo/default/c2": `{"team":"red","tier":"gold"}`, "demo/default/c3": `{}`} {
		if answer := h.Do("POST", "/v1/runs", `{"flow":"Quick","subject":"`+subject+`","labels":`+labels+`}`); answer.Status != http.StatusAccepted {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	}
	for selector, want := range map[string]int{"": 3, "team%3Dblue": 1, "team": 2, "!team": 1, "team!%3Dblue": 2, "team,tier%3Dgold": 1, "team%3Dgreen": 0} {
		var page view.Runs
		h.Do("GET", "/v1/runs?selector="+selector, nil).Into(t, &page)
		if len(page.Items) != want {
			t.Errorf("selector %q finds %d runs, want %d", selector, len(page.Items), want)
		}
	}
	bad := h.Do("GET", "/v1/runs?selector=%3Dblue", nil)
	if p := bad.Problem(t); bad.Status != http.StatusUnprocessableEntity || p.Code != runtype.InputInvalid.Code {
		t.Errorf("%d %s", bad.Status, bad.Body)
	}
}
