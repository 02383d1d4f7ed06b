package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

type secretMap map[string]string

func (v secretMap) Secret(_ context.Context, ref workflow.SecretRef) (string, error) {
	if value, ok := v[ref.Name]; ok {
		return value, nil
	}
	return "", errors.New("no such secret")
}

func TestSecretsAreNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{Secrets: secretMap{"db": "hunter2 x"}})
		defer r.stop()
		var log strings.Builder
		step := workflow.Step{Name: "S", Secrets: map[string]workflow.SecretRef{"pw": {Name: "db"}, "gone": {Name: "nope"}}, Retry: workflow.Retry{Attempts: 2}}
		first := true
		step.Do = func(_ context.Context, task *workflow.Task) outcome.Outcome {
			pw, err := task.Secret("pw")
			if err != nil {
				return outcome.Fail(err)
			}
			if first {
				first = false
				slog.New(task.Logger().Handler()).Info("login with " + pw)
				return outcome.Fail(shaky.Errorf("refused: %s", pw).With("cmd", "login "+pw))
			}
			return outcome.Fail(task.Set("used " + pw))
		}
		missing := workflow.Step{Name: "M", Secrets: step.Secrets, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			_, err := task.Secret("gone")
			return outcome.Fail(err)
		}}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{step, missing}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.SecretMissing.Code)
		want(t, string(got.Step("S").Output), `"used ***"`)
		events, _ := r.store.History(t.Context(), run.ID, 0, 0)
		all := fmt.Sprintf("%+v %s", events, log.String())
		if strings.Contains(all, "hunter2") || !strings.Contains(all, "refused: ***") {
			t.Fatal(all)
		}
	})
}

func TestLimitsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F"}
		for i := range 6 {
			s := r.step("S"+string(rune('a'+i)), func(task *workflow.Task) outcome.Outcome { return outcome.Fail(task.Set(strings.Repeat("x", 200<<10))) })
			s.MaxOutput = runtype.MaxOutputRaised
			flow.Steps = append(flow.Steps, s)
		}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, runtype.OutputTooLarge.Code)
		want(t, got.Fault.Step, "Sf")
		_, err := r.engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject, Input: json.RawMessage(`"` + strings.Repeat("x", runtype.MaxInput) + `"`)})
		want(t, code(err), "INPUT_INVALID")
		want(t, code(r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "s", Payload: json.RawMessage(`"` + strings.Repeat("x", runtype.MaxSignal) + `"`)})), "OUTPUT_TOO_LARGE")
		want(t, code(r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "pawl/pause"})), "INPUT_INVALID")
	})
}

func TestParallelFailsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		fails := func(*workflow.Task) outcome.Outcome {
			if bad {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		}
		slow := func(*workflow.Task) outcome.Outcome { time.Sleep(time.Minute); return outcome.Done() }
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "P", Parallel: 5, Steps: []workflow.Step{
			{Name: "x", Steps: []workflow.Step{r.step("A", fails), r.step("B", nil)}},
			{Name: "y", Steps: []workflow.Step{r.step("A", slow), r.step("B", nil)}},
			{Name: "z", Steps: []workflow.Step{r.step("A", fails)}},
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(30 * time.Second)
		r.rests(run.ID, runtype.Running)
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Step("P/x/A").Fault.Code, "TEST_BROKEN")
		want(t, got.Step("P/z/A").Fault.Code, "TEST_BROKEN")
		want(t, got.Step("P/y/A").Phase, runtype.StepDone)
		want(t, got.Step("P/y/B") == nil, true) // no new step was opened
		bad = false
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		if n := strings.Count(strings.Join(r.done(), " "), "P/y/A"); n != 1 {
			t.Fatalf("the branch that did not fail was executed %d times", n)
		}
	})
}

func TestChildIsCancelledWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		child := workflow.Flow{Name: "Child", Steps: []workflow.Step{r.undoable("C"), {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}
		top := workflow.Flow{Name: "Top", Steps: []workflow.Step{r.undoable("A"), {Name: "Sub", Flow: "Child"}}}
		want(t, r.engine.Load([]workflow.Flow{child, top}), error(nil))
		run := r.start("Top", ``)
		r.rests(run.ID, runtype.Waiting)
		want(t, r.engine.Pause(t.Context(), run.ID, workflow.Actor{Name: "eve"}), error(nil))
		r.rests(run.ID, runtype.Paused)
		children, _, err := r.store.List(t.Context(), runstore.Query{Parent: run.ID})
		want(t, err, error(nil))
		want(t, len(children), 1)
		r.rests(children[0].ID, runtype.Paused) // a pause also pauses the child
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(children[0].ID, runtype.Waiting)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Cancelled)
		r.rests(children[0].ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "C", "undo C", "undo A"})
	})
}

// TestSkipGuardsReaders covers promise 6.
func TestSkipGuardsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		a := r.step("A", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) })
		a.Skippable = true
		b := r.step("B", func(task *workflow.Task) outcome.Outcome {
			var n int64
			if err := task.Output("A", &n); err != nil || n != 7 {
				return outcome.Fail(broken.Errorf("%d %v", n, err))
			}
			return outcome.Done()
		})
		b.Reads = []string{"A"}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a, b}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Paused)
		want(t, code(r.engine.Skip(t.Context(), run.ID, "A", nil, true, workflow.Actor{})), "SKIP_REFUSED")
		want(t, code(r.engine.Skip(t.Context(), run.ID, "B", nil, true, workflow.Actor{})), "SKIP_REFUSED")
		want(t, r.engine.Skip(t.Context(), run.ID, "A", 7, false, workflow.Actor{Name: "eve", Reason: "known"}), error(nil))
		got := r.rests(run.ID, runtype.Succeeded)
		want(t, got.Step("A").Actor, "eve") // the person who skipped is recorded
	})
}

// TestHealerLimits covers promise 7.
func TestHealerLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heals atomic.Int32
		r := newHarness(t, nil, workflow.Options{Healers: map[fault.Code]workflow.Healer{
			"TEST_BROKEN": {Do: func(context.Context, *workflow.Task) outcome.Outcome {
				heals.Add(1)
				return outcome.Fail(shaky.Errorf("not yet"))
			}},
		}})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) })}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		want(t, heals.Load(), int32(1))
		time.Sleep(time.Hour)
		got := r.rests(run.ID, runtype.Paused)
		want(t, heals.Load(), int32(3))
		want(t, got.Fault.Healer, "HEALER_EXHAUSTED")
		want(t, got.Fault.Code, "TEST_BROKEN") // the first fault stays
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Cancelled)
	})
}

func TestPlanWritesNothing(t *testing.T) {
	nop := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	readers := func(v workflow.View) (int, error) {
		var in struct{ Readers int }
		err := json.Unmarshal(v.Input(), &in)
		return in.Readers, err
	}
	flow := workflow.Flow{Name: "Create", Steps: []workflow.Step{
		{Name: "InitMeta", Do: nop},
		{Name: "CreateRo", Do: nop, WhenText: "input.readers > 0", When: func(v workflow.View) (bool, error) { n, err := readers(v); return n > 0, err }},
		{Name: "Each", ForEach: &workflow.Loop{List: func(v workflow.View) ([]json.RawMessage, error) {
			n, err := readers(v)
			return make([]json.RawMessage, n), err
		}}, Do: nop},
	}}
	e, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{})
	want(t, err, error(nil))
	p, err := e.Plan("Create", json.RawMessage(`{"readers":0}`))
	want(t, err, error(nil))
	want(t, p.Steps, []workflow.PlanStep{{"InitMeta", "run", ""}, {"CreateRo", "skip", "input.readers > 0"}, {"Each", "skip", "the list is empty: "}})
	p, err = e.Plan("Create", json.RawMessage(`{"readers":2}`))
	want(t, err, error(nil))
	want(t, p.Steps[2:], []workflow.PlanStep{{"Each[0]", "run", ""}, {"Each[1]", "run", ""}})
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var archived []string
		r := newHarness(t, nil, workflow.Options{Retention: runtype.Retention{Keep: 2}, Archive: func(run *runtype.Run, events []runtype.Event) error {
			archived = append(archived, run.ID)
			if len(events) == 0 {
				return errors.New("no history")
			}
			return nil
		}})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", nil)}}}), error(nil))
		first := r.start("F", ``)
		for range 4 {
			synctest.Wait()
			r.start("F", ``)
		}
		time.Sleep(31 * 24 * time.Hour)
		synctest.Wait()
		runs, _, err := r.store.List(t.Context(), runstore.Query{})
		want(t, err, error(nil))
		want(t, len(runs), 2)
		want(t, archived[0], first.ID)
		want(t, len(archived), 3)
	})
}

// TestLoopOfSingleSteps: a forEach around one step, with item and undo.
func TestLoopOfSingleSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		s := r.undoable("Each")
		s.ForEach = &workflow.Loop{As: "ro", Max: 1, List: func(workflow.View) ([]json.RawMessage, error) {
			return []json.RawMessage{json.RawMessage(`{"id":"a"}`), json.RawMessage(`{"id":"b"}`)}, nil
		}, Key: func(v workflow.View) (string, error) {
			item, _ := v.Item("ro")
			var ro struct{ ID string }
			err := json.Unmarshal(item, &ro)
			return ro.ID, err
		}}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{s, {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Waiting)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"Each[a]", "Each[b]", "undo Each[b]", "undo Each[a]"})
	})
}

func TestWaitThatExpiresIntoUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		acts := r.step("Act", func(*workflow.Task) outcome.Outcome {
			return outcome.Fail(workflow.WaitExpired.Errorf("too long").With("onTimeout", "undo"))
		})
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Block", Steps: []workflow.Step{r.undoable("A"), {Name: "W", Wait: &workflow.WaitFor{Signal: "go", Deadline: time.Minute, OnTimeout: workflow.TimeoutUndo}}}},
			{Name: "Action", Steps: []workflow.Step{r.undoable("B"), acts}},
		}), error(nil))
		run := r.start("Block", ``)
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Cancelled)
		run = r.start("Action", ``)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "undo A", "B", "Act", "undo B"})
	})
}

// TestSecretsAreHiddenAsTheyAreMeant: a secret is redacted also in escaped form, and the JSON stays
// valid.
func TestSecretsAreHiddenAsTheyAreMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{Secrets: secretMap{"a": "a\"b\nc<d", "n": "12345", "ab": "ab", "abc": "abc"}})
		defer r.stop()
		refs := map[string]workflow.SecretRef{}
		for _, name := range []string{"a", "n", "ab", "abc"} {
			refs[name] = workflow.SecretRef{Name: name}
		}
		step := workflow.Step{Name: "S", Secrets: refs, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			for name := range refs {
				if _, err := task.Secret(name); err != nil {
					return outcome.Fail(err)
				}
			}
			return outcome.Fail(task.Set(map[string]any{"text": "x a\"b\nc<d abc", "n": 9123456, "pin": 12345, "k abc": []any{"ab"}}))
		}}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{step}}}), error(nil))
		run := r.start("F", ``)
		got := r.rests(run.ID, runtype.Succeeded)
		want(t, string(got.Step("S").Output), `{"k ***":["***"],"n":9123456,"pin":"***","text":"x *** ***"}`)
	})
}

func TestNamesAreLegible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}}), error(nil))
		for _, req := range []workflow.Request{
			{Flow: "F"}, {Flow: "F", Subject: "a\x00b"}, {Flow: "F", Subject: "a\nb"}, {Flow: "F", Subject: strings.Repeat("x", 2000)},
			{Flow: "F", Subject: subject, Labels: map[string]string{"": "x"}}, {Flow: "F", Subject: subject, Labels: map[string]string{"a": "\xff"}},
		} {
			_, err := r.engine.Start(t.Context(), req)
			want(t, code(err), "INPUT_INVALID")
		}
		run := r.start("F", ``)
		want(t, code(r.engine.Send(t.Context(), run.ID, runtype.Signal{ID: "\x00\n", Name: "go"})), "INPUT_INVALID")
	})
}
