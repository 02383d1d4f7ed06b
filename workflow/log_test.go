package workflow_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/internal/steplog"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// printed returns the lines of a run: step, attempt, what for, stream, text.
func (r *harness) printed(id string) (lines []string) {
	r.t.Helper()
	page, err := r.store.ReadLogs(context.Background(), id, runstore.LogQuery{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range page.Chunks {
		for _, l := range c.Lines {
			if c.Undo != (l.Text == "removed") {
				r.t.Errorf("%q is of an undo: %t", l.Text, c.Undo)
			}
			lines = append(lines, fmt.Sprintf("%s %d %s: %s", c.Step, c.Attempt, l.Stream, l.Text))
		}
	}
	return lines
}

type oneSecret string

func (s oneSecret) Secret(context.Context, workflow.SecretRef) (string, error) { return string(s), nil }

// Lines are there while the attempt runs, and all of them when its outcome is.
func TestLogsOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, []workflow.Flow{{Name: "F", Steps: []workflow.Step{
			{Name: "Build", Secrets: map[string]workflow.SecretRef{"token": {Name: "t"}}, Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
				token, err := task.Secret("token")
				if err != nil {
					return outcome.Fail(err)
				}
				fmt.Fprintf(task.Stdout(), "compiling with %s\n", token)
				task.Logger().InfoContext(ctx, "half "+token, "done", 1)
				task.Logger().DebugContext(ctx, "not kept")
				time.Sleep(time.Minute)
				_, _ = io.WriteString(task.Stderr(), "no end")
				if task.Attempt() == 1 {
					return outcome.Fail(shaky.Errorf("again"))
				}
				return outcome.Done()
			}},
			{Name: "Silent", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }},
		}}}, workflow.Options{Secrets: oneSecret("hunter2")})
		defer func() { r.stop() }()
		run := r.start("F", "{}")
		time.Sleep(steplog.Gather)
		synctest.Wait()
		live := []string{"Build 1 stdout: compiling with ***", `Build 1 log: level=INFO msg="half ***" done=1`}
		want(t, r.printed(run.ID), live)
		begun := time.Now()
		time.Sleep(time.Minute - steplog.Gather)
		synctest.Wait()
		want(t, r.load(run.ID).Step("Build").Phase, runtype.StepRetrying)
		want(t, r.printed(run.ID), append(live, "Build 1 stderr: no end"))
		want(t, time.Since(begun), time.Minute-steplog.Gather) // nobody waited
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Succeeded)
		lines := r.printed(run.ID)
		want(t, len(lines), 6)
		want(t, lines[5], "Build 2 stderr: no end")
	})
}

// Undo and healers say what they are.
func TestLogsOfUndoAndHealers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := func(text string, o outcome.Outcome) workflow.Func {
			return func(_ context.Context, task *workflow.Task) outcome.Outcome {
				fmt.Fprintln(task.Stdout(), text)
				return o
			}
		}
		r := newHarness(t, []workflow.Flow{{Name: "F", Steps: []workflow.Step{
			{Name: "A", Do: says("made", outcome.Done()), Undo: says("removed", outcome.Done())},
			{Name: "B", Do: says("tried", outcome.Fail(broken.Errorf("broken")))},
		}}}, workflow.Options{Healers: map[fault.Code]workflow.Healer{broken.Code: {Do: says("mended", outcome.Fail(broken.Errorf("not yet"))), Limits: workflow.Limits{Attempts: 1}}}})
		defer func() { r.stop() }()
		run := r.start("F", "{}")
		r.rests(run.ID, runtype.Paused)
		if err := r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{Name: "ann"}); err != nil {
			t.Fatal(err)
		}
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.printed(run.ID), []string{"A 1 stdout: made", "B 1 stdout: tried", "heal:TEST_BROKEN 1 stdout: mended", "A 1 stdout: removed"})
	})
}

// slowLogs is a store that takes a second for lines.
type slowLogs struct{ *runstore.Memory }

func (s slowLogs) WriteLogs(ctx context.Context, writes []*runstore.LogWrite) error {
	time.Sleep(time.Second)
	return s.Memory.WriteLogs(ctx, writes)
}

// A step that follows one that printed does not wait until the lines are stored; the end of the run does.
func TestARunWaitsForItsLinesWhenItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowLogs{runstore.NewMemory()}
		var starts []time.Duration
		begun := time.Now()
		flow := workflow.Flow{Name: "F"}
		for i := range 5 {
			flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("S", i), Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
				starts = append(starts, time.Since(begun))
				fmt.Fprintln(task.Stdout(), "line", i)
				return outcome.Done()
			}})
		}
		engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- engine.Serve(ctx) }()
		run, err := engine.Start(ctx, workflow.Request{Flow: "F", Subject: "demo/default/c1"})
		if err != nil {
			t.Fatal(err)
		}
		printed, end := engine.Printed(run.ID)
		if run, err = engine.Await(ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		want(t, run.Phase, runtype.Succeeded)
		want(t, time.Since(begun), time.Second)
		page, err := store.ReadLogs(ctx, run.ID, runstore.LogQuery{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, len(page.Chunks), 5)
		want(t, starts[4], time.Duration(0))
		select {
		case <-printed:
		default:
			t.Error("the engine does not tell of the lines")
		}
		end()
		stop()
		<-served
	})
}

// Without an engine, a test takes what a step prints; without a place, it is dropped.
func TestTaskPrints(t *testing.T) {
	var out, messages strings.Builder
	task := workflow.NewTask(t.Context(), workflow.TaskFacts{Stdout: &out, Stderr: &messages, Logger: slog.New(slog.DiscardHandler)})
	fmt.Fprintln(task.Stdout(), "x")
	fmt.Fprintln(task.Stderr(), "y")
	task.Logger().Info("z")
	want(t, out.String()+messages.String(), "x\ny\n")
	fmt.Fprintln(workflow.NewTask(t.Context(), workflow.TaskFacts{}).Stdout(), "dropped")
}
