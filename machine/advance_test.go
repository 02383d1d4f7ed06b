package machine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestALifeFromEndToEnd(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.objects.edit(func(o *testObject) { o.Size = 1; o.Has = 1 })
	if out := w.settle(); !out.IsWait() || out.After() != 0 {
		t.Fatalf("while the run is under way: %v", out)
	}
	p := w.in("Anlegen")
	same(t, "visit, event, run", []any{p.Visit, p.Event, p.Run, string(p.Params)}, []any{1, "create", "Create:create#1", `{"size":1}`})
	w.rest()
	if out := w.advance(); !out.IsDone() {
		t.Fatalf("at rest: %v", out)
	}
	w.objects.edit(func(o *testObject) { o.Size = 3 })
	w.settle()
	w.in("Sperren")
	w.flows.set("Lock:resize#3", runtype.Succeeded, nil)
	w.settle()
	w.in("Wachsen")
	same(t, "input of the second run", string(w.flows.runs["Grow:resize#4"].Input), `{"size":3}`)
	w.objects.edit(func(o *testObject) { o.Has = 3 })
	w.flows.set("Grow:resize#4", runtype.Succeeded, nil)
	w.settle()
	w.in("Ruhe")
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	w.flows.set("Delete:delete#6", runtype.Succeeded, nil)
	if out := w.settle(); !out.IsDone() {
		t.Fatalf("in the final state: %v", out)
	}
	same(t, "states", w.states(), "Anlegen Ruhe Sperren Wachsen Ruhe Weg Fort")
	same(t, "runs", w.flows.started, "[Create:create#1 Lock:resize#3 Grow:resize#4 Delete:delete#6]")
}

func TestOneTransitionPerAdvance(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	for range 10 {
		before := len(w.objects.moves)
		w.advance()
		if made := len(w.objects.moves) - before; made > 1 {
			t.Fatalf("%d writes in one Advance", made)
		}
	}
}

func TestAPausedRunHoldsAndIsRecovered(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	run := w.flows.newest()
	w.flows.set(run, runtype.Paused, &runtype.Fault{Code: "DISK_FULL", Message: "no space", Step: "Prepare"})
	out := w.settle()
	p := w.in("Interrupted")
	same(t, "held", []any{p.Previous, p.Visit, p.Run, p.Code, p.Reason, p.Message}, []any{"Anlegen", 1, run, "DISK_FULL", "DiskFull", "step Prepare: no space"})
	same(t, "outcome", out.String(), "wait 0s DiskFull: step Prepare: no space")

	t.Run("another fault is noted", func(t *testing.T) {
		w.flows.set(run, runtype.Paused, &runtype.Fault{Code: "NET_DOWN", Message: "no link"})
		w.settle()
		same(t, "code", w.in("Interrupted").Code, "NET_DOWN")
	})
	t.Run("resumed, it goes back", func(t *testing.T) {
		w.flows.set(run, runtype.Running, nil)
		w.settle()
		p := w.in("Anlegen")
		same(t, "same visit and run", []any{p.Visit, p.Run, p.Code, p.Rest}, []any{1, run, "", "Neu"})
	})
	t.Run("cancelled while held, it goes back and on to Abort", func(t *testing.T) {
		w.flows.set(run, runtype.Paused, nil)
		w.settle()
		same(t, "code without a fault", w.in("Interrupted").Code, "PAUSED")
		w.flows.set(run, runtype.Cancelled, nil)
		before := len(w.objects.moves)
		w.advance()
		w.advance()
		same(t, "moves", []any{w.objects.moves[before].Cause, w.objects.moves[before+1].Cause, w.objects.moves[before+1].To.State}, []any{ByRecover, ByAbort, "Neu"})
	})
	same(t, "runs", len(w.flows.started), 1)
}

func TestEndsBeforeTheNewRunBegins(t *testing.T) {
	for name, paused := range map[string]bool{"active": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, lifecycle(), false)
			w.settle()
			first := w.flows.newest()
			if paused {
				w.flows.set(first, runtype.Paused, nil)
				w.settle()
				w.in("Interrupted")
				w.objects.edit(func(o *testObject) { o.Move = "b" })
			} else {
				w.objects.edit(func(o *testObject) { o.Deleted = true })
			}
			mode, next := "drop", "Delete:delete#2"
			if paused {
				mode, next = "undo", "Move:move#2"
			}
			out := w.settle()
			same(t, "outcome", out.Reason(), "EndingRun")
			same(t, "cancels", len(w.flows.cancels), 1)
			if !strings.HasPrefix(w.flows.cancels[0], first+" "+mode+" ") {
				t.Fatalf("cancelled %s, want %s with %s", w.flows.cancels[0], first, mode)
			}
			for range 3 {
				w.settle()
			}
			same(t, "runs while the first is ending", w.flows.started, []string{first})
			w.flows.set(first, runtype.Cancelled, nil)
			w.settle()
			same(t, "runs", w.flows.started, []string{first, next})
			same(t, "phase", w.flows.runs[next].Phase, runtype.Running)
			if p := w.position(); p.Ending != nil || p.Run != next {
				t.Fatalf("after the end: %+v", p)
			}
		})
	}
}

func TestAnUndoThatFailsIsAwaited(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	first := w.flows.newest()
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	w.flows.set(first, runtype.Paused, &runtype.Fault{Code: "UNDO_FAILED", Message: "the volume is busy"})
	out := w.settle()
	same(t, "outcome", out.Reason(), "UndoFailed")
	same(t, "cancels", len(w.flows.cancels), 1)
}

func TestAStateThatStaysWhilePaused(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: "DISK_BUSY", Message: "busy"})
	out := w.settle()
	w.in("Weg")
	same(t, "outcome", out.String(), "wait 0s DiskBusy: busy")
}

func TestARefusedRunGoesToElse(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.flows.refuse = runtype.InputInvalid.Errorf("size is missing")
	w.settle()
	p := w.in("Interrupted")
	same(t, "held", []any{p.Held, p.Code, p.Run}, []any{true, "INPUT_INVALID", ""})
	if err := w.m.Resume(t.Context(), control.Ref{Kind: "demo", Namespace: "default", Name: "other"}); !errors.Is(err, control.NotFound) {
		t.Fatalf("resume of nothing: %v", err)
	}
	w.flows.refuse = nil
	if err := w.m.Resume(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	w.settle()
	same(t, "run", w.in("Anlegen").Run, "Create:create#1")
	if err := w.m.Resume(t.Context(), ref); !errors.Is(err, NotHeld) {
		t.Fatalf("resume of what is not held: %v", err)
	}

	t.Run("trouble of the store is no refusal", func(t *testing.T) {
		w := newWorld(t, lifecycle(), false)
		w.flows.refuse = runstore.StoreUnavailable.Errorf("gone")
		if out := w.settle(); !errors.Is(out.Err(), runstore.StoreUnavailable) {
			t.Fatalf("outcome %v", out)
		}
		w.in("Anlegen")
	})
}

func TestALostRunBeginsAnewUnderItsOldKey(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	id := w.flows.newest()
	delete(w.flows.runs, id)
	w.settle()
	same(t, "runs", w.flows.started, []string{id, id})
	same(t, "run", w.in("Anlegen").Run, id)
}

func TestARunWhoseStartWasNotNotedIsNotLeftBehind(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.advance()
	w.flows.lost = true
	if out := w.advance(); !out.IsFail() {
		t.Fatalf("outcome %v", out)
	}
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	w.flows.set("Create:create#1", runtype.Cancelled, nil)
	w.settle()
	same(t, "runs", w.flows.started, "[Create:create#1 Delete:delete#2]")
	same(t, "cancels", len(w.flows.cancels), 1)
}

func TestPredicatesThatFailBlockLowerOnes(t *testing.T) {
	for name, when := range map[string]func(*testObject) (bool, error){
		"error": func(*testObject) (bool, error) { return false, errors.New("cannot tell") },
		"panic": func(*testObject) (bool, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			table := lifecycle()
			p := table.States["Ruhe"]
			p.On[0].When = when
			w := newWorld(t, table, false)
			w.rest()
			w.objects.edit(func(o *testObject) { o.Move = "b" })
			out := w.settle()
			w.in("Ruhe")
			if !errors.Is(out.Err(), EventFailed) || !strings.Contains(out.Message(), "resize") {
				t.Fatalf("outcome %v", out)
			}
			if name == "panic" && !errors.Is(out.Err(), fault.Panic) {
				t.Fatalf("the panic is not named: %v", out)
			}
			t.Run("but neither Any nor the end of a run waits for it", func(t *testing.T) {
				w.objects.edit(func(o *testObject) { o.Deleted = true })
				w.settle()
				w.in("Weg")
			})
		})
	}
	t.Run("reported while a run is under way, and the run goes on", func(t *testing.T) {
		table := lifecycle()
		table.Any[0].When = func(*testObject) (bool, error) { return false, errors.New("cannot tell") }
		w := newWorld(t, table, false)
		w.settle()
		if out := w.settle(); !out.IsFail() { // at rest in Neu
			t.Fatalf("outcome %v", out)
		}
		w.objects.edit(func(o *testObject) {
			o.Position = json.RawMessage(`{"state": "Anlegen", "visit": 1, "event": "create", "rest": "Neu"}`)
		})
		if out := w.settle(); !out.IsWait() || out.Reason() != "EventFailed" || !strings.Contains(out.Message(), "cannot tell") {
			t.Fatalf("outcome %v", out)
		}
		w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
		w.settle()
		w.in("Ruhe")
	})
	t.Run("parameters too", func(t *testing.T) {
		table := lifecycle()
		table.States["Ruhe"].On[0].Params = func(*testObject) (any, error) { return nil, errors.New("no parameters") }
		w := newWorld(t, table, false)
		w.rest()
		w.objects.edit(func(o *testObject) { o.Size, o.Move = 7, "b" })
		if out := w.settle(); !errors.Is(out.Err(), EventFailed) {
			t.Fatalf("outcome %v", out)
		}
		w.in("Ruhe")
	})
}

func TestIgnoredEventsAreReported(t *testing.T) {
	table := lifecycle()
	table.Ignore = []string{"resize"}
	w := newWorld(t, table, false)
	w.rest()
	w.objects.edit(func(o *testObject) { o.Size = 5 })
	out := w.settle()
	w.in("Ruhe")
	if !out.IsLater() || out.Reason() != "Ignored" || !strings.Contains(out.Message(), "resize") {
		t.Fatalf("outcome %v", out)
	}
	w.objects.edit(func(o *testObject) { o.Move = "b" })
	w.settle()
	w.in("Ziehen")
}

func TestDo(t *testing.T) {
	answers := map[string]outcome.Outcome{}
	table := Table[*testObject]{Name: "do", Initial: "Work", Input: func(t *testObject) (any, error) { return t.Size, nil }, States: map[State]StateSpec[*testObject]{
		"Work":   {Do: func(context.Context, *testObject) outcome.Outcome { return answers["Work"] }, Then: "Rest", Else: "Clean"},
		"Clean":  {Do: func(context.Context, *testObject) outcome.Outcome { panic("broom") }, Then: "Rest", Else: "Broken"},
		"Rest":   {},
		"Broken": {Rests: true},
	}}
	t.Run("done", func(t *testing.T) {
		w := newWorld(t, table, false)
		if out := w.settle(); !out.IsDone() {
			t.Fatal(out)
		}
		same(t, "states", w.states(), "Work Rest")
		same(t, "input", string(w.objects.moves[0].To.Params), "0")
	})
	t.Run("waits as it says", func(t *testing.T) {
		answers["Work"] = outcome.Wait(3*time.Second, "Slow", "not yet")
		w := newWorld(t, table, false)
		same(t, "outcome", w.settle(), answers["Work"])
		w.in("Work")
	})
	t.Run("fails, then panics", func(t *testing.T) {
		answers["Work"] = outcome.Fail(errors.New("no luck"))
		w := newWorld(t, table, false)
		out := w.settle()
		p := w.in("Broken")
		same(t, "states", w.states(), "Work Clean Broken")
		same(t, "held", []any{p.Held, p.Code, p.Previous, out.Reason()}, []any{true, "PANIC", "Clean", "Panic"})
		if err := w.m.Resume(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		w.in("Clean")
	})
	t.Run("trouble of the control plane is not charged", func(t *testing.T) {
		answers["Work"] = outcome.Fail(fault.APIUnavailable.Errorf("down"))
		w := newWorld(t, table, false)
		if out := w.settle(); !errors.Is(out.Err(), fault.APIUnavailable) {
			t.Fatal(out)
		}
		w.in("Work")
	})
	t.Run("may change the object", func(t *testing.T) {
		w := newWorld(t, table, false)
		calls := 0
		changed := table
		changed.States = map[State]StateSpec[*testObject]{"Work": {Do: func(context.Context, *testObject) outcome.Outcome {
			calls++
			w.objects.edit(func(o *testObject) { o.Has++ })
			return outcome.Done()
		}, Then: "Rest", Else: "Rest"}, "Rest": {}}
		w.m, _ = New(changed, Options[*testObject]{Objects: w.objects, Logger: quiet})
		w.settle()
		w.in("Rest")
		same(t, "calls", calls, 1)
	})
}

func TestAnInitialStateThatWorksIsEnteredWithItsInput(t *testing.T) {
	broken := true
	table := Table[*testObject]{Name: "w", Initial: "Work", Input: func(*testObject) (any, error) {
		if broken {
			return nil, errors.New("no input yet")
		}
		return 7, nil
	}, States: map[State]StateSpec[*testObject]{"Work": {Flow: "F", Then: "Rest", Else: "Rest", Abort: "Rest"}, "Rest": {}}}
	w := newWorld(t, table, false)
	w.objects.edit(func(o *testObject) { o.Position = json.RawMessage(`{"state": "Work", "visit": 0}`) }) // shown, not entered
	if out := w.advance(); !errors.Is(out.Err(), EventFailed) {
		t.Fatal(out)
	}
	broken = false
	w.settle()
	same(t, "run", []any{w.flows.started, string(w.flows.runs["F:initial#1"].Input)}, "[[F:initial#1] 7]")
}

func TestInlineWorksOnTheRun(t *testing.T) {
	w := newWorld(t, lifecycle(), true)
	w.flows.advance = func(id string) outcome.Outcome {
		if len(w.m.keys.held) != 0 {
			t.Error("the object is locked while its run works")
		}
		w.flows.set(id, runtype.Succeeded, nil)
		return outcome.Done()
	}
	if out := w.settle(); !out.IsDone() {
		t.Fatal(out)
	}
	w.in("Ruhe")
	w.flows.advance = func(id string) outcome.Outcome { return outcome.Wait(time.Minute, "Later", "") }
	w.objects.edit(func(o *testObject) { o.Move = "b" })
	same(t, "outcome", w.settle().After(), time.Minute)
}

func TestLook(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.m.options.PollInterval = time.Minute
	same(t, "while the run is under way", w.settle().After(), time.Minute)
	w.flows.set(w.flows.newest(), runtype.Paused, nil)
	same(t, "while it is paused", w.settle().After(), time.Minute)
}

func TestAnEventMayChooseTheFlow(t *testing.T) {
	table := lifecycle()
	place := table.States["Ruhe"]
	place.On[1].Flow = "MoveFast"
	table.States["Ruhe"] = place
	w := newWorld(t, table, false)
	w.rest()
	w.objects.edit(func(o *testObject) { o.Move = "b" })
	same(t, "plan", w.plan().Flow.Flow, "MoveFast")
	w.settle()
	same(t, "started", strings.SplitN(w.flows.newest(), ":", 2)[0], "MoveFast")
	w.objects.edit(func(o *testObject) { o.Move = "" })
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: workflow.Timeout.Code})
	w.settle()
	same(t, "kept while it is held", w.in("Interrupted").Flow, "MoveFast")
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.settle()
	same(t, "of one visit only", w.in("Ruhe").Flow, "")
	if !strings.Contains(table.Mermaid(), "Ziehen : Move, MoveFast") {
		t.Error(table.Mermaid())
	}
	place.On[1].Flow, place.On[1].To = "Nope", "Fort"
	problems := table.Check(func(flow string) bool { return flow != "Nope" })
	if len(problems) == 0 || !strings.Contains(problems.Error(), "states.Ruhe.on.1.flow: Fort has no flow") {
		t.Error(problems)
	}
	place.On[1].To = "Ziehen"
	if problems := table.Check(func(flow string) bool { return flow != "Nope" }); !strings.Contains(problems.Error(), `unknown flow "Nope"`) {
		t.Error(problems)
	}
}
