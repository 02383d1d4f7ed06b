package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// counted counts the loads of runs.
type counted struct {
	*runstore.Memory
	loads, lists atomic.Int64
}

func (c *counted) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	c.lists.Add(1)
	return c.Memory.List(ctx, q)
}

func (c *counted) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	c.loads.Add(1)
	return c.Memory.Load(ctx, id)
}

// TestFinding13Await: Await returns at once when a run ends, and makes no calls to the store in
// between. A pause that a healer works on does not end it.
func TestFinding13Await(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broke := false
		flows := []workflow.Flow{
			{Name: "Long", Steps: []workflow.Step{{Name: "S", Timeout: 2 * time.Hour, Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
				select {
				case <-time.After(time.Hour):
					return outcome.Done()
				case <-ctx.Done():
					return outcome.Fail(context.Cause(ctx))
				}
			}}}},
			{Name: "Healed", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome {
				if !broke {
					broke = true
					return outcome.Fail(broken.Errorf("no"))
				}
				return outcome.Done()
			}}}},
			{Name: "Broken", Steps: []workflow.Step{{Name: "S", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Fail(shaky.Errorf("no")) },
				Retry: workflow.Retry{Attempts: 1}}}},
		}
		healer := workflow.Healer{Do: func(context.Context, *workflow.Task) outcome.Outcome { time.Sleep(time.Minute); return outcome.Done() }}
		store := &counted{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, flows, workflow.Options{PollInterval: 24 * time.Hour, Healers: map[fault.Code]workflow.Healer{broken.Code: healer}})
		defer stop()
		for _, c := range []struct {
			flow  string
			phase runtype.Phase
			took  time.Duration
		}{{"Long", runtype.Succeeded, time.Hour}, {"Healed", runtype.Succeeded, time.Minute}, {"Broken", runtype.Paused, 0}} {
			run, err := e.Start(t.Context(), workflow.Request{Flow: c.flow, Subject: c.flow})
			want(t, err, error(nil))
			began, before := time.Now(), store.loads.Load()
			got, err := e.Await(t.Context(), run.ID)
			want(t, err, error(nil))
			want(t, got.Phase, c.phase)
			want(t, time.Since(began), c.took)
			if loads := store.loads.Load() - before; loads > 4 {
				t.Errorf("%s was loaded %d times", c.flow, loads)
			}
			again, err := e.Await(t.Context(), run.ID)
			want(t, err, error(nil))
			want(t, again.Phase, c.phase)
		}
		_, err := e.Await(t.Context(), "nobody")
		want(t, code(err), "RUN_NOT_FOUND")
		run, err := e.Start(t.Context(), workflow.Request{Flow: "Long", Subject: "other"})
		want(t, err, error(nil))
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(enough) })
		got, err := e.Await(ctx, run.ID)
		want(t, errors.Is(err, enough), true)
		want(t, got.Phase, runtype.Running)
	})
}

// TestFinding13AwaitElsewhere: if another process executes the run, Await returns after an eighth
// of the time that the run took, and after 2 s at most. It reads only the head of the run, with
// growing intervals.
func TestFinding13AwaitElsewhere(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			memory := runstore.NewMemory()
			flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "S", Timeout: 2 * time.Hour, Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
				time.Sleep(took)
				return outcome.Done()
			}}}}}
			e, stop := worker(t, memory, flows, workflow.Options{})
			defer stop()
			store := &counted{Memory: memory}
			other, err := workflow.New(store, flows, workflow.Options{Logger: quiet()})
			want(t, err, error(nil))
			run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
			want(t, err, error(nil))
			began := time.Now()
			got, err := other.Await(t.Context(), run.ID)
			want(t, err, error(nil))
			want(t, got.Phase, runtype.Succeeded)
			want(t, got.Step("S").Phase, runtype.StepDone)
			if late := time.Since(began) - took; late > max(min(took/8, 2*time.Second), 50*time.Millisecond) {
				t.Errorf("Await returned the end of a run of %s %s later", took, late)
			}
			if loads, lists := store.loads.Load(), store.lists.Load(); loads > 3 || lists > 40+int64(took/(2*time.Second)) {
				t.Errorf("a run of %s was loaded %d times, and its head read %d times", took, loads, lists)
			}
		})
	}
}

type size struct{ Bytes int }

// TestFinding13Result: a flow has a result. The result of a child run is the output of the step
// that started it, and a loop has the list of the outputs of its iterations. An error in the result
// pauses the run.
func TestFinding13Result(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := true
		flows := []workflow.Flow{
			{Name: "Child", Steps: []workflow.Step{
				{Name: "Each", ForEach: &workflow.Loop{Max: 2, List: func(workflow.View) ([]json.RawMessage, error) {
					return []json.RawMessage{json.RawMessage(`3`), json.RawMessage(`4`), json.RawMessage(`5`)}, nil
				}}, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
					item, _ := task.View().Item("item")
					if string(item) == "5" {
						return outcome.Done() // and sets no output
					}
					return outcome.Fail(task.Set(item))
				}},
				{Name: "Pairs", ForEach: &workflow.Loop{List: func(workflow.View) ([]json.RawMessage, error) { return []json.RawMessage{json.RawMessage(`1`)}, nil }}, Steps: []workflow.Step{
					{Name: "A", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome { return outcome.Fail(task.Set("a")) }},
					{Name: "B", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome { return outcome.Fail(task.Set("b")) }},
				}},
			}, Result: workflow.Result(func(v workflow.View) (size, error) {
				each, err := workflow.OutputOf[[]int](v, "Each")
				if err != nil {
					return size{}, err
				}
				pairs, _ := workflow.OutputOf[[]map[string]string](v, "Pairs")
				want(t, fmt.Sprint(each, pairs), "[3 4 0] [map[A:a B:b]]")
				if failing {
					return size{}, broken.Errorf("not yet")
				}
				return size{each[0] + each[1]}, nil
			})},
			{Name: "Top", Steps: []workflow.Step{{Name: "Sub", Flow: "Child"}}, Result: workflow.Result(func(v workflow.View) (int, error) {
				sub, err := workflow.OutputOf[struct{ Output size }](v, "Sub")
				return sub.Output.Bytes * 10, err
			})},
		}
		e, stop := worker(t, runstore.NewMemory(), flows, workflow.Options{})
		defer stop()
		run, err := e.Start(t.Context(), workflow.Request{Flow: "Child", Subject: subject})
		want(t, err, error(nil))
		paused, err := e.Await(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, paused.Phase, runtype.Paused)
		want(t, paused.Fault.Message, "result: not yet")
		_, err = workflow.ResultOf[size](paused)
		want(t, code(err), string(broken.Code))
		failing = false
		want(t, e.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		synctest.Wait()
		ended, err := e.Await(t.Context(), run.ID)
		want(t, err, error(nil))
		got, err := workflow.ResultOf[size](ended)
		want(t, err, error(nil))
		want(t, got, size{7})
		top, err := e.Start(t.Context(), workflow.Request{Flow: "Top", Subject: subject})
		want(t, err, error(nil))
		ended, err = e.Await(t.Context(), top.ID)
		want(t, err, error(nil))
		ten, err := workflow.ResultOf[int](ended)
		want(t, err, error(nil))
		want(t, ten, 70)
	})
}
