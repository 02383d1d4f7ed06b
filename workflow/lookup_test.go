package workflow_test

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Of two flows with the same name, the one for a kind of subject serves that kind, and the other
// one serves the rest. Each run stays with its flow.
func TestFlowsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := func(kind, step string) workflow.Flow {
			return workflow.Flow{Name: "DeleteCluster", Kind: kind, Steps: []workflow.Step{
				{Name: "Gate", Wait: &workflow.WaitFor{Signal: "go"}},
				r.step(step, func(*workflow.Task) outcome.Outcome { return outcome.Done() }),
			}}
		}
		ours, theirs := flow("Database", "Ours"), flow("", "Theirs")
		want(t, r.engine.Load([]workflow.Flow{ours, theirs}), error(nil))
		start := func(subject string) string {
			run, err := r.engine.Start(t.Context(), workflow.Request{Flow: "DeleteCluster", Subject: subject})
			want(t, err, error(nil))
			return run.ID
		}
		a, b := start("Database/default/one"), start("Other/default/one")
		want(t, r.engine.Load([]workflow.Flow{theirs, ours}), error(nil)) // the order does not matter
		for id, step := range map[string]string{a: "Ours", b: "Theirs"} {
			want(t, r.engine.Send(t.Context(), id, runtype.Signal{ID: "x", Name: "go"}), error(nil))
			if run := r.rests(id, runtype.Succeeded); run.Step(step) == nil {
				t.Errorf("run %s has no step %s", run.Subject, step)
			}
		}
		for name, step := range map[string]string{"DeleteCluster": "Theirs", "Database/DeleteCluster": "Ours", "Other/DeleteCluster": "Theirs"} {
			if p, err := r.engine.Plan(name, nil); err != nil || p.Flow != "DeleteCluster" || p.Steps[1].Name != step {
				t.Errorf("%s: %+v %v", name, p, err)
			}
		}
		if all := r.engine.Flows(); len(all) != 2 || all[0].Kind != "" || all[1].Kind != "Database" {
			t.Errorf("%+v", all)
		}
		if err := r.engine.Load([]workflow.Flow{ours, ours}); err == nil {
			t.Error("two flows of one name and kind were taken")
		}
		want(t, r.engine.Load([]workflow.Flow{ours}), error(nil))
		if _, err := r.engine.Start(t.Context(), workflow.Request{Flow: "DeleteCluster", Subject: "Other/default/two"}); err == nil {
			t.Error("a flow was started for a subject that it does not serve")
		}
	})
}

func TestFlowFor(t *testing.T) {
	flows := []workflow.Flow{{Name: "A"}, {Name: "A", Kind: "K"}, {Name: "B", Kind: "K"}, {Name: "B", Kind: "L"}}
	for _, q := range []struct{ name, subject, kind string }{{"A", "K/ns/n", "K"}, {"A", "M/ns/n", ""}, {"A", "", ""}, {"B", "L/ns/n", "L"}, {"B", "", "K"}, {"A", "K", "K"}} {
		if f := workflow.FlowFor(flows, q.name, q.subject); f == nil || f.Kind != q.kind {
			t.Errorf("%s for %q is %+v, want that for %q", q.name, q.subject, f, q.kind)
		}
	}
	if f := workflow.FlowFor(flows, "B", "M/ns/n"); f != nil {
		t.Errorf("B serves M: %+v", f)
	}
}
