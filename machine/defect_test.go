package machine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The defects of the engine that Pawl learned from.

func TestDefect11AStepThatUpdatedTheObjectDoesNotLoseTheInterruption(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Paused, &runtype.Fault{Code: "DISK_FULL", Message: "no space"})
	once := true
	w.objects.before = func(Move) error {
		if once {
			once = false
			w.objects.edit(func(o *testObject) { o.Has++ }) // someone else writes between load and write
		}
		return nil
	}
	w.settle()
	p := w.in("Interrupted")
	same(t, "held", []any{p.Code, p.Message, p.Previous}, []any{"DISK_FULL", "no space", "Anlegen"})
	same(t, "what the step wrote", w.objects.objects[ref].Has, 1)
}

func TestDefect12AFailedStateWriteIsRepairedByTheNextPass(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	run := w.flows.newest()
	w.flows.set(run, runtype.Paused, nil)
	w.settle()
	w.objects.before = func(Move) error { return fault.APIUnavailable.Errorf("down") }
	w.flows.set(run, runtype.Running, nil) // resumed; the state cannot be written
	w.advance()
	w.in("Interrupted")
	w.objects.before = nil
	w.settle()
	w.in("Anlegen")
}

func TestDefect18NoStateNameIsBuiltIn(t *testing.T) {
	table := Table[*testObject]{Name: "x", Initial: "Aap", States: map[State]StateSpec[*testObject]{
		"Aap":  {On: []Transition[*testObject]{{Event: "go", To: "Noot"}}},
		"Noot": {Flow: "F", Then: "Mies", Else: "Mies"}, "Mies": {},
	}}
	w := newWorld(t, table, false)
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.settle()
	same(t, "states", w.states(), "Noot Mies")
}

func TestDefect20ObjectsAreSerialisedByFullNameAndKeysAreFreed(t *testing.T) {
	var k keys
	a := control.Ref{Kind: "demo", Namespace: "one", Name: "c1"}
	b := control.Ref{Kind: "demo", Namespace: "two", Name: "c1"}
	unlockA, err := k.lock(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	unlockB, err := k.lock(t.Context(), b) // the same name elsewhere is another object
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.lock(ctx, a); err == nil {
		t.Fatal("two hold one object")
	}
	same(t, "keys", len(k.held), 2)
	unlockA()
	unlockB()
	same(t, "keys afterwards", len(k.held), 0)

	var wg sync.WaitGroup
	inside, count := 0, 0
	for range 50 {
		wg.Go(func() {
			unlock, _ := k.lock(t.Context(), a)
			defer unlock()
			if inside++; inside != 1 {
				t.Error("two inside")
			}
			inside--
			count++
		})
	}
	wg.Wait()
	same(t, "turns", count, 50)
	same(t, "keys in the end", len(k.held), 0)

	w := newWorld(t, lifecycle(), false)
	w.settle()
	same(t, "keys while a run waits", len(w.m.keys.held), 0)
}

func TestDefect22AnOldRunDoesNotFlipTheStateDuringTheNextOne(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	old := w.flows.newest()
	w.objects.edit(func(o *testObject) { o.Deleted = true })
	w.settle()
	w.flows.set(old, runtype.Succeeded, nil) // it ended by itself before the cancel reached it
	w.settle()
	p := w.in("Weg")
	same(t, "run", p.Run, "Delete:delete#2")
	w.settle()
	w.in("Weg")
}

func TestDefect26ErrorsOfTheStateWriteAreReported(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.objects.before = func(Move) error { return errors.New("disk on fire") }
	out := w.advance()
	if !out.IsFail() || !strings.Contains(out.Message(), "disk on fire") {
		t.Fatalf("outcome %v", out)
	}
}

func TestDefect30AnEventIsEvaluatedOnce(t *testing.T) {
	table := lifecycle()
	evaluated, taken := 0, 0
	table.States["Ruhe"].On[1].When = func(o *testObject) (bool, error) {
		evaluated++
		return o.Move != "" && evaluated == 1, nil // a second look would differ
	}
	table.States["Ruhe"].On[1].Params = func(o *testObject) (any, error) { taken++; return o.Move, nil }
	w := newWorld(t, table, false)
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.advance()
	w.in("Ruhe")
	w.objects.edit(func(o *testObject) { o.Move = "b" })
	w.advance()
	w.objects.edit(func(o *testObject) { o.Move = "c" }) // what comes later is not this visit's
	w.settle()
	p := w.in("Ziehen")
	same(t, "looks", []int{evaluated, taken}, []int{1, 1})
	same(t, "input", string(w.flows.runs[p.Run].Input), `"b"`)
}

func TestDefect31TheEndOfAFlowErasesNoRequest(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.rest()
	w.objects.edit(func(o *testObject) { o.Size = 2 })
	w.settle()
	w.in("Sperren")
	w.objects.edit(func(o *testObject) { o.Move = "b" }) // asked for while another flow is under way
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.settle()
	w.objects.edit(func(o *testObject) { o.Has = 2 })
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.settle()
	w.in("Ziehen")
}

func TestDefect32ADeletedObjectIsNotRetried(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	delete(w.objects.objects, ref)
	if r := w.m.Pass(t.Context(), ref); !r.Outcome.IsDone() || r.Found {
		t.Fatalf("outcome %v", r.Outcome)
	}
	w = newWorld(t, lifecycle(), false)
	w.settle()
	w.objects.before = func(Move) error { delete(w.objects.objects, ref); return nil }
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	if out := w.advance(); !out.IsDone() {
		t.Fatalf("gone while it was written: %v", out)
	}
}

func TestBadPositions(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.objects.edit(func(o *testObject) { o.Position = json.RawMessage(`{"state": 7}`) })
	if out := w.advance(); !errors.Is(out.Err(), PositionInvalid) {
		t.Fatal(out)
	}
	w.objects.edit(func(o *testObject) { o.Position = json.RawMessage(`{"state": "Nirgends"}`) })
	if out := w.advance(); !errors.Is(out.Err(), StateUnknown) {
		t.Fatal(out)
	}
}

func TestAnUndoPastItsPointOfNoReturnBecomesADrop(t *testing.T) {
	w := newWorld(t, lifecycle(), false)
	w.settle()
	first := w.flows.newest()
	w.flows.set(first, runtype.Paused, nil)
	w.settle()
	w.objects.edit(func(o *testObject) { o.Move = "b" })
	w.flows.noReturn = true
	w.settle()
	same(t, "ending", w.position().Ending.Mode, Drop)
	if last := w.flows.cancels[len(w.flows.cancels)-1]; !strings.HasPrefix(last, first+" drop ") {
		t.Fatalf("cancelled %s", last)
	}
	w.flows.set(first, runtype.Cancelled, nil)
	w.settle()
	same(t, "run", w.in("Ziehen").Run, "Move:move#2")
}
