package runs_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestListAndCountsOfRunsByFilters(t *testing.T) {
	h := servertest.New(t, nil)
	start := func(flow, subject string) string {
		var r view.Run
		answer := h.Do("POST", "/v1/runs", `{"flow":"`+flow+`","subject":"`+subject+`","labels":{"team":"blue"}}`)
		if answer.Status != http.StatusAccepted {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		answer.Into(t, &r)
		return r.ID
	}
	quick := start("Quick", "demo/default/c1")
	h.Until(quick, runtype.Succeeded)
	for i := range 2 {
		h.Until(start("Blocked", fmt.Sprint("demo/default/b", i)), runtype.Paused)
	}
	now := time.Now().UTC()
	for _, c := range []struct {
		query url.Values
		want  view.RunCounts
	}{
		{nil, view.RunCounts{Runs: 3, Phases: []view.RunCount{{Name: "Paused", Runs: 2}, {Name: "Succeeded", Runs: 1}}, Flows: []view.RunCount{{Name: "Blocked", Runs: 2}, {Name: "Quick", Runs: 1}}, Faults: []view.RunCount{{Name: "TEST_NO_ROOM", Runs: 2}}}},
		{url.Values{"fault": {"TEST_NO_ROOM"}}, view.RunCounts{Runs: 2, Phases: []view.RunCount{{Name: "Paused", Runs: 2}}, Flows: []view.RunCount{{Name: "Blocked", Runs: 2}}, Faults: []view.RunCount{{Name: "TEST_NO_ROOM", Runs: 2}}}},
		{url.Values{"fault": {"OTHER"}}, view.RunCounts{Phases: []view.RunCount{}, Flows: []view.RunCount{}, Faults: []view.RunCount{}}},
		{url.Values{"text": {"C1"}}, view.RunCounts{Runs: 1, Phases: []view.RunCount{{Name: "Succeeded", Runs: 1}}, Flows: []view.RunCount{{Name: "Quick", Runs: 1}}, Faults: []view.RunCount{}}},
		{url.Values{"text": {"team=blue"}, "flow": {"Quick"}}, view.RunCounts{Runs: 1, Phases: []view.RunCount{{Name: "Succeeded", Runs: 1}}, Flows: []view.RunCount{{Name: "Quick", Runs: 1}}, Faults: []view.RunCount{}}},
		{url.Values{"active": {"true"}}, view.RunCounts{Runs: 2, Phases: []view.RunCount{{Name: "Paused", Runs: 2}}, Flows: []view.RunCount{{Name: "Blocked", Runs: 2}}, Faults: []view.RunCount{{Name: "TEST_NO_ROOM", Runs: 2}}}},
		{url.Values{"since": {now.Add(time.Hour).Format(time.RFC3339)}}, view.RunCounts{Phases: []view.RunCount{}, Flows: []view.RunCount{}, Faults: []view.RunCount{}}},
		{url.Values{"until": {now.Add(-time.Hour).Format(time.RFC3339)}}, view.RunCounts{Phases: []view.RunCount{}, Flows: []view.RunCount{}, Faults: []view.RunCount{}}},
		{url.Values{"since": {now.Add(-time.Hour).Format(time.RFC3339)}, "until": {now.Add(time.Hour).Format(time.RFC3339)}, "phase": {"Succeeded"}},
			view.RunCounts{Runs: 1, Phases: []view.RunCount{{Name: "Succeeded", Runs: 1}}, Flows: []view.RunCount{{Name: "Quick", Runs: 1}}, Faults: []view.RunCount{}}},
	} {
		var counts view.RunCounts
		var page view.Runs
		h.Do("GET", "/v1/run-counts?"+c.query.Encode(), nil).Into(t, &counts)
		h.Do("GET", "/v1/runs?"+c.query.Encode(), nil).Into(t, &page)
		if diff := cmp.Diff(c.want, counts); diff != "" || len(page.Items) != counts.Runs {
			t.Errorf("%v: %d runs listed, %s", c.query, len(page.Items), diff)
		}
	}
	for _, query := range []string{"since=yesterday", "phase=Sleeping", "selector=%3Dblue"} {
		for _, path := range []string{"/v1/runs", "/v1/run-counts"} {
			if bad := h.Do("GET", path+"?"+query, nil); bad.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s?%s: %d %s", path, query, bad.Status, bad.Body)
			}
		}
	}
}
