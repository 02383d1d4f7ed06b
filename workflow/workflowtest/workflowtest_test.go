package workflowtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"github.com/pawl-dev/pawl/workflow/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a test whose failures are looked at.
type recorder struct {
	found    []string
	cleanups []func()
}

type stopped struct{}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(text string, of ...any) {
	r.found = append(r.found, fmt.Sprintf(text, of...))
}

func (r *recorder) Fatalf(text string, of ...any) {
	r.Errorf(text, of...)
	panic(stopped{})
}

// record plays in a bubble and returns what the kit has reported.
func record(t *testing.T, play func(workflowtest.TB)) []string {
	t.Helper()
	r := &recorder{}
	synctest.Test(t, func(*testing.T) { r.play(play) })
	return r.found
}

func (r *recorder) play(play func(workflowtest.TB)) {
	defer func() {
		p := recover()
		for _, f := range slices.Backward(r.cleanups) {
			f()
		}
		if p != nil && p != (stopped{}) {
			panic(p)
		}
	}()
	play(r)
}

func wantFound(t *testing.T, found []string, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("found %q, want %d", found, len(want))
	}
	for i, w := range want {
		if !strings.Contains(found[i], w) {
			t.Errorf("found %q, want %q", found[i], w)
		}
	}
}

func done(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }

// Each assertion reports what is wanted and what came.
func TestAssertionsReport(t *testing.T) {
	wantFound(t, record(t, func(tb workflowtest.TB) {
		env := workflowtest.New(tb, workflowtest.Options{Flows: []workflow.Flow{newCloud().create()}})
		env.Fault("Server", cloudFull.Errorf("no room"))
		run := env.Run("Create", nil)
		run.WantPhase(runtype.Succeeded)
		run.WantFault("CLOUD_BUSY", "Server")
		run.WantWaiting("Approved")
		run.WantOrder("Volume")
		run.WantUndone("Volume")
		run.WantSkipped("Cool")
		run.WantOutput("Volume", map[string]any{"id": "v-2"})
		run.WantResult("ok")
	}),
		"the run is Paused by CLOUD_FULL in Server (no room), want Succeeded",
		"want Paused by CLOUD_BUSY in Server",
		"want Waiting at Approved",
		"the steps that were done are Volume, Cool, want Volume",
		"the steps that were undone are none, want Volume",
		"the steps that were skipped are none, want Cool",
		`the output of Volume is {"id":"v-1"}, want {"id":"v-2"}`,
		`the result is none, want "ok"`,
	)
}

// What cannot be carried out ends the test, with the reason.
func TestWrongUse(t *testing.T) {
	flows := []workflow.Flow{newCloud().create()}
	for want, play := range map[string]func(*workflowtest.Env){
		`no step "Sever" executes a function`:           func(e *workflowtest.Env) { e.Fault("Sever", cloudFull) },
		`no step "Approved" executes a function`:        func(e *workflowtest.Env) { e.Output("Approved", 1) },
		`no action is named "exec"`:                     func(e *workflowtest.Env) { e.ReplaceAction("exec", nil) },
		`the run of Creat does not start: FLOW_UNKNOWN`: func(e *workflowtest.Env) { e.Run("Creat", nil) },
	} {
		wantFound(t, record(t, func(tb workflowtest.TB) { play(workflowtest.New(tb, workflowtest.Options{Flows: flows})) }), want)
	}
	outside := &recorder{}
	outside.play(func(tb workflowtest.TB) { workflowtest.New(tb, workflowtest.Options{Flows: flows}) })
	wantFound(t, outside.found, "outside of a bubble")
	wantFound(t, record(t, func(tb workflowtest.TB) {
		workflowtest.New(tb, workflowtest.Options{Flows: []workflow.Flow{{Name: "Empty"}}})
	}), "the flows are not valid")
}

// A wait whose polls never end does not hang the test.
func TestAPollThatNeverEnds(t *testing.T) {
	polls := workflow.Flow{Name: "Poll", Steps: []workflow.Step{{Name: "Caught", Do: func(context.Context, *workflow.Task) outcome.Outcome {
		return outcome.Wait(5*time.Second, "CatchingUp", "behind")
	}}}}
	wantFound(t, record(t, func(tb workflowtest.TB) {
		workflowtest.New(tb, workflowtest.Options{Flows: []workflow.Flow{polls}, Polls: 100}).Run("Poll", nil)
	}), "Caught was called 100 times and nothing was saved")
}

// A year of waiting costs no time, and a deadline ends when the test lets time pass.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{{Name: "Wait", Steps: []workflow.Step{
			{Name: "Year", Wait: &workflow.WaitFor{For: 365 * 24 * time.Hour}},
			{Name: "Mail", Wait: &workflow.WaitFor{Signal: "mail", Deadline: time.Hour}},
		}}}})
		began := time.Now()
		run := env.Run("Wait", nil)
		run.WantWaiting("Mail")
		if waited := time.Since(began); waited != 365*24*time.Hour {
			t.Errorf("waited %s", waited)
		}
		env.Pass(time.Hour)
		run.WantFault("WAIT_EXPIRED", "Mail")
		run.Skip("Mail", map[string]any{"by": "hand"})
		run.WantPhase(runtype.Succeeded)
		run.WantOutput("Mail", map[string]any{"by": "hand"})
	})
}

// Steps in loops are replaced for one item or for all; an action and an undo by their names.
func TestReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		loop := workflow.Flow{Name: "Loop", Steps: []workflow.Step{{
			Name: "Each",
			ForEach: &workflow.Loop{List: func(workflow.View) ([]json.RawMessage, error) {
				return []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"b"`)}, nil
			}},
			Steps: []workflow.Step{{Name: "Make", Uses: "make", With: json.RawMessage(`{"n":1}`), UndoCall: &workflow.Call{Uses: "make", With: json.RawMessage(`{"n":-1}`)}}},
		}, {Name: "End", Do: done}}}
		action := workflow.Action{Name: "make", Do: func(context.Context, *workflow.Task) outcome.Outcome { calls++; return outcome.Done() }}
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{loop}, Engine: workflow.Options{Actions: []workflow.Action{action}}})
		env.Output("Each/Make", "all")
		env.Output("Each[1]/Make", "one")
		env.Fault("End", cloudBusy.Errorf("once"), 1)
		run := env.Run("Loop", nil)
		run.WantPhase(runtype.Succeeded)
		run.WantOutput("Each[0]/Make", "all")
		run.WantOutput("Each[1]/Make", "one")
		var with struct{ N int }
		if !run.With("Each[1]/Make", &with) || with.N != 1 {
			t.Errorf("with %+v", with)
		}
		if tries := run.Tries("End"); tries != 2 || calls != 0 {
			t.Errorf("%d tries of End, %d calls of the action", tries, calls)
		}
	})
}

// What a crash changes is found, with the save at which the process died.
func TestExploreFindsWhatACrashChanges(t *testing.T) {
	var found []string
	crashes := workflowtest.Explore(func(c *workflowtest.Crash) bool {
		calls := 0 // the step is not idempotent: its output counts the calls
		flow := workflow.Flow{Name: "Count", Steps: []workflow.Step{{Name: "A", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			calls++
			return outcome.Fail(task.Set(calls))
		}}, {Name: "B", Do: done}}}
		got := record(t, func(tb workflowtest.TB) {
			workflowtest.New(tb, workflowtest.Options{Flows: []workflow.Flow{flow}, Crash: c}).Run("Count", nil)
		})
		found = append(found, got...)
		return got == nil
	})
	if crashes < 6 || len(found) == 0 || !strings.Contains(found[0], "StepDone A") || !strings.Contains(found[0], "output of step A is 2, without a crash 1") {
		t.Fatalf("%d crashes, found %q", crashes, found)
	}
}

// Requests meet a crash as well.
func TestEveryCrashOfRequests(t *testing.T) {
	workflowtest.EveryCrash(t, func(t *testing.T, crash *workflowtest.Crash) {
		c := newCloud()
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{c.create()}, Crash: crash})
		env.Fault("Server", cloudFull.Errorf("no room"), 1, 2)
		run := env.Run("Create", nil)
		run.WantFault("CLOUD_FULL", "Server")
		run.Resume(workflow.FromFailed)
		run.WantFault("CLOUD_FULL", "Server")
		run.Cancel(runtype.Undo)
		run.WantUndone("Volume")
	})
}
