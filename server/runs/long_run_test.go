package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// loads counts the complete runs that are read from a store.
type loads struct {
	*runstore.Memory
	of atomic.Int64
}

func (l *loads) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	l.of.Add(1)
	return l.Memory.Load(ctx, id)
}

// newIdleFixture returns a fixture whose engine does not execute runs, and the count of loaded runs.
func newIdleFixture(t *testing.T, flows []workflow.Flow) (*servertest.Fixture, *loads, *workflow.Engine) {
	t.Helper()
	store := &loads{Memory: runstore.NewMemory()}
	engine, err := workflow.New(store, flows, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return servertest.New(t, func(o *server.Options) { o.Engine = engine }), store, engine
}

func TestARequestLoadsItsRunOnce(t *testing.T) {
	h, store, engine := newIdleFixture(t, servertest.Flows(nil))
	r, err := engine.Start(t.Context(), workflow.Request{Flow: "Waits", Subject: "demo/default/c1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		want               int64
	}{
		{"GET", "", "", 1},
		{"GET", "/steps", "", 1},
		{"GET", "/history", "", 0},
		{"POST", "/pause", `{}`, 1},
		{"POST", "/signal", `{"name":"caught-up"}`, 1},
		{"POST", "/cancel", `{"mode":"drop"}`, 1},
	} {
		before := store.of.Load()
		var body any
		if c.body != "" {
			body = c.body
		}
		if answer := h.Do(c.method, "/v1/runs/"+r.ID+c.path, body); answer.Status >= 300 {
			t.Errorf("%s %s: %d %s", c.method, c.path, answer.Status, answer.Body)
		}
		if got := store.of.Load() - before; got != c.want {
			t.Errorf("%s %s loads its run %d times, want %d", c.method, c.path, got, c.want)
		}
	}
}

func TestStepsOfALongRunComeInPages(t *testing.T) {
	const n = 2300
	flow := workflow.Flow{Name: "Long"}
	for i := range n {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprintf("s%04d", i), Wait: &workflow.WaitFor{Signal: "go"}})
	}
	h, store, engine := newIdleFixture(t, []workflow.Flow{flow})
	r, err := engine.Start(t.Context(), workflow.Request{Flow: "Long", Subject: "demo/default/long"})
	if err != nil {
		t.Fatal(err)
	}
	if r, _, err = store.Memory.Load(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r.Put(&runtype.StepRecord{Name: flow.Steps[i].Name, Phase: runtype.StepDone, Ord: int64(i + 1), Attempt: 1, Output: json.RawMessage(`1`)})
	}
	if err := store.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
		t.Fatal(err)
	}
	var whole view.Run
	h.Do("GET", "/v1/runs/"+r.ID, nil).Into(t, &whole)
	if len(whole.Steps) != view.StepPage || whole.EarlierSteps != n-view.StepPage || whole.Steps[view.StepPage-1].Name != flow.Steps[n-1].Name {
		t.Errorf("the run holds %d steps and tells of %d earlier ones", len(whole.Steps), whole.EarlierSteps)
	}
	var names []string
	for cursor := ""; ; {
		var page view.Steps
		h.Do("GET", "/v1/runs/"+r.ID+"/steps?limit=1000&cursor="+cursor, nil).Into(t, &page)
		for _, s := range page.Items {
			names = append(names, s.Name)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(names) != n || names[0] != "s0000" || names[n-1] != flow.Steps[n-1].Name {
		t.Errorf("the pages hold %d steps", len(names))
	}
	var states view.StepStates
	h.Do("GET", "/v1/runs/"+r.ID+"/step-states", nil).Into(t, &states)
	if len(states.Items) != n || states.Items[0] != (view.StepState{Path: "s0000", Phase: runtype.StepDone, Count: 1}) {
		t.Errorf("%d states, the first %+v", len(states.Items), states.Items[0])
	}
	if bad := h.Do("GET", "/v1/runs/"+r.ID+"/steps?cursor=x", nil); bad.Status != http.StatusBadRequest || bad.Problem(t).Code != route.CursorInvalid.Code {
		t.Errorf("%d %s", bad.Status, bad.Body)
	}
}
