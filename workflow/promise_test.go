package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// allocsPerStep executes flows with the given number of steps one after another, and returns the
// bytes allocated per step.
func allocsPerStep(t *testing.T, store *runstore.Memory, steps, runs int, label string) float64 {
	t.Helper()
	var ended sync.WaitGroup
	flow := workflow.Flow{Name: "Long"}
	for i := range steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprintf("s%d", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	flow.Steps[steps-1].Do = func(context.Context, *workflow.Task) outcome.Outcome { ended.Done(); return outcome.Done() }
	e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
	want(t, err, error(nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range runs {
		ended.Add(1)
		_, err := e.Start(ctx, workflow.Request{Flow: "Long", Subject: fmt.Sprintf("long/%s/%d", label, i), RequestID: "1"})
		want(t, err, error(nil))
		ended.Wait()
	}
	runtime.ReadMemStats(&after)
	cancel()
	want(t, <-done, error(nil))
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(steps*runs)
}

// TestPromise9CostIsFlat: the cost of a step depends neither on the length of the flow nor on the
// number of earlier runs. The test measures allocated bytes; bench/ measures the bytes of the store
// and the time.
//
// It covers defect 10.
func TestPromise9CostIsFlat(t *testing.T) {
	short := allocsPerStep(t, runstore.NewMemory(), 20, 50, "short")
	long := allocsPerStep(t, runstore.NewMemory(), 1000, 2, "long")
	if long > 2*short {
		t.Errorf("a step of 1,000 allocates %.0f bytes, one of 20 %.0f", long, short)
	}
	store := runstore.NewMemory()
	allocsPerStep(t, store, 20, 2000, "former")
	if later := allocsPerStep(t, store, 20, 50, "later"); later > 2*short {
		t.Errorf("a step after 2,000 runs allocates %.0f bytes, before them %.0f", later, short)
	}
}

// TestPromise10NoRequestIsLost: a hundred requests for one subject are executed one after another,
// in order. The next one is refused. No request overwrites another.
//
// It covers defect 31.
func TestPromise10NoRequestIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		var order []string
		active := 0
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			active++
			defer func() { active-- }()
			if active > 1 {
				return outcome.Fail(broken.Errorf("two runs of a subject at once"))
			}
			time.Sleep(time.Second)
			var in struct{ N string }
			err := task.Input(&in)
			order = append(order, in.N)
			return outcome.Fail(err)
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		var asked []string
		for i := range 101 {
			asked = append(asked, fmt.Sprint(i))
			r.start("F", fmt.Sprintf(`{"N":"%d"}`, i))
		}
		_, err := r.engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, code(err), "QUEUE_FULL")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want(t, order, asked)
	})
}

// TestPromise11TheCoreStandsAlone: the engine depends neither on Kubernetes nor on SQL nor on an
// HTTP server. deps_test.go contains the whole table.
//
// It covers defect 18.
func TestPromise11TheCoreStandsAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	want(t, err, error(nil))
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		if path == "net/http" || path == "database/sql" || strings.HasPrefix(path, "k8s.io/") || strings.HasPrefix(path, "github.com/") && !strings.HasPrefix(path, "github.com/pawl-dev/pawl/") {
			t.Errorf("the engine reaches %s", path)
		}
	}
}

// TestDefect24EnginesShareNothing: two engines in one process have their own options and flows.
func TestDefect24EnginesShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts [2]int
		for i := range 2 {
			flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Retry: workflow.Retry{Attempts: i + 1, First: time.Minute, Jitter: -1}, Do: func(context.Context, *workflow.Task) outcome.Outcome {
				attempts[i]++
				return outcome.Fail(shaky.Errorf("no"))
			}}}}
			r := newHarness(t, []workflow.Flow{flow}, workflow.Options{Attempts: i + 1})
			defer r.stop()
			r.start("F", ``)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want(t, attempts, [2]int{1, 2})
	})
}

// TestDefect25HistoryIsQueryable: the history of a run is read by number, that of all runs by
// cursor.
func TestDefect25HistoryIsQueryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", nil)}}}), error(nil))
		a, b := r.start("F", ``), r.start("F", ``)
		r.rests(b.ID, runtype.Succeeded)
		tail, err := r.store.History(t.Context(), a.ID, 3, 0)
		want(t, err, error(nil))
		want(t, len(tail), 2)
		var seen []string
		for cursor := ""; ; {
			events, next, err := r.store.Events(t.Context(), cursor, 3)
			want(t, err, error(nil))
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				seen = append(seen, e.Run+string(e.Kind))
			}
			cursor = next
		}
		want(t, len(seen), 10)
		want(t, len(slices.Compact(slices.Sorted(slices.Values(seen)))), 10)
	})
}

// TestDefect28ResumeTakesNoNonsense: a resume from an unknown step is refused, and the run does not
// change.
func TestDefect28ResumeTakesNoNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) })}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Paused)
		want(t, code(r.engine.Resume(t.Context(), run.ID, "false", "", workflow.Actor{})), "REQUEST_REFUSED")
		want(t, code(r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{Revision: 1})), "WRITE_CONFLICT")
		r.rests(run.ID, runtype.Paused)
		want(t, r.done(), []string{"A"})
	})
}

// defaults is a schema that fills in one value.
type defaults struct{}

func (defaults) Check(json.RawMessage) error  { return nil }
func (defaults) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }
func (defaults) Default(json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"n": 1}`), nil
}

func TestInputDefaultsReachEveryStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Child", Input: defaults{}, Steps: []workflow.Step{r.step("C", func(task *workflow.Task) outcome.Outcome {
				var in struct{ N int }
				if err := task.Input(&in); err != nil || in.N != 1 {
					return outcome.Fail(broken.Errorf("%d %v", in.N, err))
				}
				return outcome.Done()
			})}},
			{Name: "Top", Steps: []workflow.Step{{Name: "check#2", Flow: "Child"}}},
		}), error(nil))
		run := r.start("Top", ``)
		r.rests(run.ID, runtype.Succeeded)
	})
}
