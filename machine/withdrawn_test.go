package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// asking is lifecycle for objects whose spec is counted. Size is their spec.
func asking() Table[*testObject] {
	t := lifecycle()
	t.Generation = func(o *testObject) int64 { return o.Generation }
	t.Purpose = func(o *testObject) (any, error) { return o.Size, nil }
	return t
}

func (w *world) want(size int) {
	w.objects.edit(func(o *testObject) { o.Size, o.Generation = size, o.Generation+1 })
}

// resizing brings an object to Ruhe and lets its growth stop at a fault.
func resizing(t *testing.T, table Table[*testObject]) *world {
	w := newWorld(t, table, false)
	w.objects.edit(func(o *testObject) { o.Generation = 1 })
	w.rest()
	w.want(5)
	w.settle()
	w.in("Sperren")
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: "DISK_FULL", Message: "no space"})
	w.settle()
	w.in("Interrupted")
	return w
}

// A wish that was withdrawn takes its run back, and the object is decided anew, with facts from behind the undo.
func TestFinding14AWithdrawnWishIsUndoneAndDecidedAnew(t *testing.T) {
	w := resizing(t, asking())
	run := w.flows.newest()
	w.want(2)
	object := w.objects.objects[ref]
	plan, err := w.m.Plan(t.Context(), &object)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "plan", []any{plan.Act, plan.To, plan.Cause, plan.Cancel.Mode, plan.Cancel.Run}, []any{Moves, "Ruhe", ByChange, Undo, run})
	if !strings.Contains(plan.Why, "the spec was changed") || !strings.Contains(plan.Why, "taken back") || len(plan.Considered) < 3 {
		t.Fatalf("the plan does not tell the rule: %+v", plan)
	}
	w.settle()
	w.in("Ruhe") // nothing is begun before the undo has ended
	same(t, "cancels", len(w.flows.cancels), 1)
	if !strings.HasPrefix(w.flows.cancels[0], run+" undo") {
		t.Fatalf("cancels %v", w.flows.cancels)
	}
	w.flows.set(run, runtype.Cancelled, nil)
	w.settle()
	p := w.in("Sperren")
	same(t, "params", string(p.Params), `{"size":2}`)
}

// A run that carries out a former spec says so, and when it stops in the second of
// two states, the message says what the undo does not take back.
func TestFinding14AnOutdatedRunSaysSo(t *testing.T) {
	w := newWorld(t, asking(), false)
	w.objects.edit(func(o *testObject) { o.Generation = 1 })
	w.rest()
	w.want(5)
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	out := w.settle()
	w.in("Wachsen")
	if strings.Contains(out.Message(), "last change") {
		t.Errorf("nothing was changed: %s", out.Message())
	}
	w.want(2)
	if out = w.settle(); !strings.Contains(out.Message(), "it carries out the spec as it was before the last change") {
		t.Errorf("the run is outdated: %s", out.Message())
	}
	w.in("Wachsen")
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: "DISK_FULL", Message: "no space"})
	w.settle()
	if p := w.in("Ruhe"); !strings.Contains(p.Message, "what was done from Sperren on before it stays") {
		t.Errorf("what stays is not told: %s", p.Message)
	}
}

// An event that ends runs with drop ends one as well whose undo has stopped: a
// deletion does not wait for what cannot be taken back.
func TestFinding14ADeletionDropsAnUndoThatFailed(t *testing.T) {
	w := resizing(t, asking())
	w.want(2)
	w.settle()
	w.in("Ruhe")
	run := w.flows.newest()
	w.flows.set(run, runtype.Paused, &runtype.Fault{Code: workflow.UndoFailed.Code, Message: "busy"})
	w.settle()
	w.in("Ruhe")
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	if last := w.flows.cancels[len(w.flows.cancels)-1]; !strings.HasPrefix(last, run+" drop") {
		t.Errorf("the run is not dropped: %v", w.flows.cancels)
	}
}

// What is wanted is what is there already: nothing is begun.
func TestFinding14AWithdrawnWishLeavesTheObjectAtRest(t *testing.T) {
	w := resizing(t, asking())
	w.want(0)
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Cancelled, nil)
	w.settle()
	p := w.in("Ruhe")
	same(t, "run", p.Run, "")
	same(t, "runs", len(w.flows.started), 2)
}

func TestFinding14TheRuleOfAState(t *testing.T) {
	for _, c := range []struct {
		rule  CancelMode
		fault *runtype.Fault
		want  string // of the cancel; empty: the run stays
	}{
		{"", &runtype.Fault{Code: "DISK_FULL"}, "undo"},
		{Undo, &runtype.Fault{Code: "DISK_FULL"}, "undo"},
		{Drop, &runtype.Fault{Code: "DISK_FULL"}, "drop"},
		{Keep, &runtype.Fault{Code: "DISK_FULL"}, ""},
		{Undo, &runtype.Fault{Code: workflow.PausedByPerson.Code}, ""},
		{Undo, &runtype.Fault{Code: workflow.CancelledByPerson.Code}, ""},
		{Undo, nil, ""},
	} {
		table := asking()
		place := table.States["Sperren"]
		place.Withdrawn = c.rule
		table.States["Sperren"] = place
		w := newWorld(t, table, false)
		w.objects.edit(func(o *testObject) { o.Generation = 1 })
		w.rest()
		w.want(5)
		w.settle()
		w.flows.set(w.flows.newest(), runtype.Paused, c.fault)
		w.settle()
		w.want(2)
		out := w.settle()
		what := fmt.Sprintf("%s %+v", c.rule, c.fault)
		if c.want == "" {
			w.in("Interrupted")
			same(t, what, len(w.flows.cancels), 0)
			if !strings.Contains(out.Message(), "the spec was changed since") {
				t.Fatalf("%s: it does not say what is to be done: %s", what, out.Message())
			}
			continue
		}
		w.in("Ruhe")
		if len(w.flows.cancels) != 1 || !strings.Contains(w.flows.cancels[0], c.want) {
			t.Fatalf("%s: %v", what, w.flows.cancels)
		}
	}
}

// A run that carries out what is wanted still stays, whatever else of the spec was changed.
func TestFinding14AnotherChangeLeavesTheRun(t *testing.T) {
	w := resizing(t, asking())
	w.objects.edit(func(o *testObject) { o.Generation++ })
	w.settle()
	w.in("Interrupted")
	same(t, "cancels", len(w.flows.cancels), 0)
	w.flows.set(w.flows.newest(), runtype.Running, nil) // resumed
	w.settle()
	w.in("Sperren")
}

// Past a step of no return the run is dropped, not undone.
func TestFinding14ARunOfNoReturnIsCarriedOver(t *testing.T) {
	w := resizing(t, asking())
	w.flows.noReturn = true
	w.want(2)
	w.settle()
	same(t, "cancels", len(w.flows.cancels), 2)
	if !strings.Contains(w.flows.cancels[1], " drop ") {
		t.Fatalf("cancels %v", w.flows.cancels)
	}
	w.flows.set(w.flows.newest(), runtype.Cancelled, nil)
	w.settle()
	w.in("Sperren")
}

// A run that was refused after all leaves no object behind: the next spec is decided anew.
func TestFinding14ARefusedRunIsForgottenWithItsSpec(t *testing.T) {
	w := newWorld(t, asking(), false)
	w.objects.edit(func(o *testObject) { o.Generation = 1 })
	w.rest()
	w.flows.refuse = runtype.InputInvalid.Errorf("size: maximum: got 99, want 7")
	w.want(99)
	w.settle()
	w.in("Interrupted")
	w.flows.refuse = nil
	w.want(0)
	w.settle()
	w.in("Ruhe")
	w.want(3)
	w.settle()
	w.in("Sperren")
}

// What cannot be done is refused before the object leaves its state, and events behind it are tried.
func TestFinding14WhatCannotBeDoneIsNotBegun(t *testing.T) {
	w := newWorld(t, asking(), false)
	w.objects.edit(func(o *testObject) { o.Generation = 1 })
	w.rest()
	w.flows.check = func(flow string, input json.RawMessage) error {
		if flow == "Grow" && strings.Contains(string(input), "99") { // of the second of two states
			return runtype.InputInvalid.Errorf("size: maximum: got 99, want 7")
		}
		return nil
	}
	w.want(99)
	out := w.settle()
	w.in("Ruhe")
	same(t, "outcome", []any{out.IsLater(), out.Reason()}, []any{true, "InputInvalid"})
	object := w.objects.objects[ref]
	plan, err := w.m.Plan(t.Context(), &object)
	if err != nil || plan.Code != runtype.InputInvalid.Code || plan.Remedy == "" || plan.Considered[1].Verdict != Impossible {
		t.Fatalf("%v %+v", err, plan)
	}
	w.objects.edit(func(o *testObject) { o.Move = "here" }) // healing goes on meanwhile
	w.settle()
	w.in("Ziehen")
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.objects.edit(func(o *testObject) { o.Move = "" })
	w.settle()
	w.in("Ruhe")
	w.want(4)
	w.settle()
	w.in("Sperren")
}

// An event that still holds when its work is done is delayed more and more behind the third turn.
func TestFinding11AnEventThatStillHoldsIsDelayed(t *testing.T) {
	now := epoch
	w := newWorld(t, asking(), false)
	w.m.options.Now = func() time.Time { return now }
	w.objects.edit(func(o *testObject) { o.Generation, o.Size = 1, 5 })
	var repeats []time.Duration
	for now.Sub(epoch) < time.Hour {
		out := w.advance()
		if run := w.flows.runs[w.position().Run]; run != nil && run.Phase == runtype.Running {
			if run.Flow == "Lock" {
				repeats = append(repeats, now.Sub(epoch))
			}
			w.flows.set(run.ID, runtype.Succeeded, nil) // and nothing has changed
		}
		switch {
		case out.IsLater() && out.Reason() == LoopReason:
			if !strings.Contains(out.Message(), "event resize") || !strings.Contains(out.Message(), "state Ruhe") {
				t.Fatalf("it does not name the event: %s", out.Message())
			}
			now = now.Add(out.After())
		case out.After() > soon:
			t.Fatalf("unexpected %v", out)
		}
	}
	for i, want := range []time.Duration{0, 0, 0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second} {
		if repeats[i] != want {
			t.Fatalf("turns at %v", repeats)
		}
	}
	if len(repeats) > 16 {
		t.Fatalf("%d turns in an hour: %v", len(repeats), repeats)
	}
	w.objects.edit(func(o *testObject) { o.Has = 5 }) // what it looks at changes: it settles, and is forgotten
	w.settle()
	w.in("Ruhe")
	for _, turn := range w.position().Repeats {
		if turn.Event == "resize" {
			t.Fatalf("it is not forgotten: %+v", turn)
		}
	}
}

// An event that is seen not to hold in between may win as often as it likes.
func TestFinding11ARepairThatWorksIsNotDelayed(t *testing.T) {
	w := newWorld(t, asking(), false)
	w.objects.edit(func(o *testObject) { o.Generation, o.Size = 1, 5 })
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	for range 20 {
		w.settle()
		w.in("Sperren")
		w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
		w.settle()
		w.in("Wachsen")
		w.objects.edit(func(o *testObject) { o.Has = 5 })
		w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
		w.settle()
		w.in("Ruhe")
		w.objects.edit(func(o *testObject) { o.Has = 4 }) // damaged again
	}
}

func TestFinding11ObviousLoopsAreFound(t *testing.T) {
	spec := func(*testObject) (bool, error) { return true, nil }
	table := Table[*testObject]{Name: "x", Initial: "A", States: map[State]StateSpec[*testObject]{
		"A": {On: []Transition[*testObject]{{Event: "fixed", To: "B", Fixed: true, When: spec}, {Event: "always", To: "D"}}},
		"B": {Flow: "F", Then: "C", Else: "B", Abort: "A"}, "C": {Flow: "F", Then: "A", Else: "C", Abort: "A"},
		"D": {Flow: "F", Then: "E", Else: "D", Abort: "A"},
		"E": {On: []Transition[*testObject]{{Event: "back", To: "A"}}},
		"R": {On: []Transition[*testObject]{{Event: "stop", To: "S", Fixed: true, When: spec}}}, // not while it is to be started
		"S": {On: []Transition[*testObject]{{Event: "start", To: "R", Fixed: true, When: spec}, {Event: "observed", To: "R", When: spec}}},
	}}
	found := table.Loops()
	want := []string{
		"states.A.on.0: event fixed runs in a loop: its condition reads the spec alone",
		"states.A.on.1: events run in a loop: always in A, back in E, and then the first again",
	}
	if len(found) != len(want) {
		t.Fatalf("%v", found)
	}
	for i, text := range want {
		if !strings.Contains(found[i].String(), text) {
			t.Errorf("%s\nwant %s", found[i], text)
		}
	}
}

// Events that hold in turn, however many they are, are delayed like a single one.
func TestFinding11ALoopOfEventsIsDelayed(t *testing.T) {
	const cycle = 12
	table := Table[*testObject]{Name: "ring", Initial: "S0", States: map[State]StateSpec[*testObject]{}}
	for i := range cycle {
		s, w, next := State(fmt.Sprintf("S%d", i)), State(fmt.Sprintf("W%d", i)), State(fmt.Sprintf("S%d", (i+1)%cycle))
		table.States[s] = StateSpec[*testObject]{On: []Transition[*testObject]{{Event: fmt.Sprintf("e%d", i), To: w,
			When: func(o *testObject) (bool, error) { return o.Size > 0, nil }, Reads: func(o *testObject) (any, error) { return o.Size, nil }}}}
		table.States[w] = StateSpec[*testObject]{Flow: "Nothing", Then: next, Else: s, Abort: s}
	}
	w := newWorld(t, table, false)
	w.objects.edit(func(o *testObject) { o.Size = 1 })
	for repeats := 0; ; repeats++ {
		out := w.settle()
		if out.IsLater() && out.Reason() == LoopReason {
			if repeats != cycle*FreeRepeats {
				t.Errorf("it is delayed after %d turns, want %d", repeats, cycle*FreeRepeats)
			}
			return
		}
		if repeats > 2*cycle*FreeRepeats {
			t.Fatal("the ring is not delayed")
		}
		w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	}
}
