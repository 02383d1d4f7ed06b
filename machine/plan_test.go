package machine

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func (w *world) plan() Plan {
	w.t.Helper()
	obj := w.objects.objects[ref]
	before := len(w.objects.moves)
	plan, err := w.m.Plan(w.t.Context(), &obj)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(w.objects.moves) != before {
		w.t.Fatal("a plan wrote something")
	}
	return plan
}

func TestPlan(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	plan := w.plan()
	same(t, "first", []any{plan.State, plan.Act, plan.To, plan.Event, plan.Flow.Flow, string(plan.Params)}, []any{"Neu", "move", "Anlegen", "create", "Create", `{"size":0}`})
	same(t, "runs", len(w.flows.started), 0)
	w.rest()
	same(t, "at rest", w.plan().Why, "no event holds")

	w.objects.edit(func(o *testObject) { o.Move = "b" })
	plan = w.plan()
	same(t, "chosen", []any{plan.To, plan.Event, plan.Flow.Steps[0].Why}, []any{"Ziehen", "move", `"b"`})
	same(t, "considered", plan.Considered, []Considered{
		{Event: "delete", To: "Weg", Why: "deletion was asked for", Verdict: Refused},
		{Event: "resize", To: "Sperren", Why: "the size differs", Verdict: Refused},
		{Event: "move", To: "Ziehen", Verdict: Chosen}})
	w.objects.edit(func(o *testObject) { o.Size = 2 })
	plan = w.plan()
	same(t, "why", plan.Why, "the size differs")
	same(t, "not reached", plan.Considered[2].Verdict, NotReached)
	w.objects.edit(func(o *testObject) { o.Bad = true })
	plan = w.plan()
	same(t, "a condition that fails", []any{plan.Act, plan.Code, plan.Considered[1].Verdict, plan.Considered[1].Message}, []any{"rest", "EVENT_FAILED", "failed", "size cannot be read"})
	w.objects.edit(func(o *testObject) { o.Bad = false })

	w.advance()
	same(t, "to be started", []any{w.plan().Act, w.plan().Flow.Flow}, []any{"start", "Lock"})
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: workflow.Timeout.Code, Message: "too slow"})
	same(t, "paused", []any{w.plan().Act, w.plan().To, w.plan().Cause}, []any{"move", "Interrupted", "else"})
	w.objects.edit(func(o *testObject) { o.Move = "" })
	w.settle()
	plan = w.plan()
	same(t, "held", []any{plan.Act, plan.Why, plan.Code, plan.Remedy}, []any{"rest", "too slow", "TIMEOUT", workflow.Timeout.Remedy})
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	same(t, "ends first", *w.plan().Cancel, Ending{Run: w.position().Run, Mode: Drop})
	w.advance()
	same(t, "to be ended", w.plan().Act, "end")
	if _, err := json.Marshal(w.plan()); err != nil {
		t.Fatal(err)
	}
}
