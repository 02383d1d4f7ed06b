package workflow_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// clockJump sets the clock after a delay.
type clockJump struct {
	after, by time.Duration
}

// playWithClockJumps executes a scenario while the clock is set. It returns the steps that ran
// twice, at the same time or after they were done.
func playWithClockJumps(t *testing.T, s scenario, jumps []clockJump) (ending, []string) {
	w := &effectLog{effects: map[string]int{}, fails: maps.Clone(s.fails), broken: map[string]bool{s.broken: s.broken != ""}}
	var mu sync.Mutex
	var wrong []string
	open := map[string]bool{}
	guarded := func(ctx context.Context, task *workflow.Task) outcome.Outcome {
		mu.Lock()
		if open[task.Key()] {
			wrong = append(wrong, task.Key()+" is executed beside itself")
		}
		open[task.Key()] = true
		mu.Unlock()
		defer func() { mu.Lock(); delete(open, task.Key()); mu.Unlock() }()
		select { // long enough for the clock to be set meanwhile
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return outcome.Fail(context.Cause(ctx))
		}
		return w.do(ctx, task)
	}
	flows := []workflow.Flow{{Name: "Story", Steps: bindFunc(s.steps, guarded), Finally: bindFunc([]workflow.Step{{Name: "Finally", Do: drawn}}, guarded)}}
	memory := runstore.NewMemory()
	engine, stop := worker(t, memory, flows, workflow.Options{})
	defer stop()
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "Story", Subject: subject, RequestID: "one"})
	want(t, err, error(nil))
	rest := time.Duration(0)
	for _, l := range jumps {
		time.Sleep(l.after)
		synctest.Wait()
		workflow.Jump(engine, memory, l.by)
		rest += l.by.Abs()
	}
	by := workflow.Actor{Name: "eve", RequestID: "two"}
	for range 5 {
		time.Sleep(rest + 40*time.Minute)
		synctest.Wait()
		if run, _, err = memory.Load(t.Context(), run.ID); err != nil || run.Phase.Final() {
			break
		}
		if run.Phase == runtype.Paused {
			w.mu.Lock()
			w.broken = map[string]bool{}
			w.mu.Unlock()
			want(t, engine.Resume(t.Context(), run.ID, workflow.FromFailed, "", by), error(nil))
		}
	}
	want(t, err, error(nil))
	for key, n := range w.effects {
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s was done %d times", key, n))
		}
	}
	return ending{phase: run.Phase, effects: w, run: run}, wrong
}

func bindFunc(steps []workflow.Step, do workflow.Func) []workflow.Step {
	out := bind(steps, &effectLog{})
	var set func([]workflow.Step)
	set = func(steps []workflow.Step) {
		for i := range steps {
			s := &steps[i]
			if s.Do != nil {
				s.Do = do
			}
			if s.Undo != nil {
				s.Undo = do
			}
			for _, end := range []*workflow.Step{s.Open, s.Close} {
				if end != nil {
					end.Do = do
				}
			}
			set(s.Steps)
		}
	}
	set(out)
	return out
}

// TestClockJumps: the clock is set forward or back by up to a day while attempts are open, runs
// wait and the lease is held. This changes neither the end of a random flow nor its effects by key,
// and nothing is executed twice.
func TestClockJumps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := scenario{steps: drawSteps(rt, 0, "/"), fails: map[string]int{}}
		names := leaves(s.steps, "")
		for _, name := range names {
			if rapid.IntRange(0, 3).Draw(rt, "fails "+name) == 0 {
				s.fails[name] = 2
			}
		}
		if len(names) > 0 && rapid.Bool().Draw(rt, "breaks") {
			s.broken = rapid.SampledFrom(names).Draw(rt, "broken")
		}
		var jumps []clockJump
		for range rapid.IntRange(1, 5).Draw(rt, "leaps") {
			jumps = append(jumps, clockJump{
				time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "after")) * time.Millisecond,
				time.Duration(rapid.IntRange(-24*3600, 24*3600).Draw(rt, "by")) * time.Second,
			})
		}
		var calm, leaping ending
		var wrong []string
		synctest.Test(t, func(t *testing.T) { calm, wrong = playWithClockJumps(t, s, nil) })
		check(rt, s, calm, calm, "undisturbed")
		if len(wrong) > 0 {
			rt.Fatalf("undisturbed: %v", wrong)
		}
		synctest.Test(t, func(t *testing.T) { leaping, wrong = playWithClockJumps(t, s, jumps) })
		check(rt, s, calm, leaping, fmt.Sprintf("clock set %v", jumps))
		if len(wrong) > 0 {
			rt.Fatalf("clock set %v: %s", jumps, strings.Join(wrong, "; "))
		}
	})
}

// TestWaitsWhenTheClockIsSet: if the clock is set back, a wait ends later by the same time. If it
// is set past the end of a wait, the wait ends at once. A signal ends the wait at any time. The
// deadline is reported once.
func TestWaitsWhenTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			flows := []workflow.Flow{
				{Name: "Timer", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{For: 30 * time.Minute}}}},
				{Name: "Mail", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go", Deadline: 10 * time.Hour}}}},
				{Name: "Late", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go", Deadline: 30 * time.Minute}}}},
			}
			memory := runstore.NewMemory()
			engine, stop := worker(t, memory, flows, workflow.Options{})
			defer stop()
			ids := map[string]string{}
			for _, flow := range flows {
				run, err := engine.Start(t.Context(), workflow.Request{Flow: flow.Name, Subject: flow.Name})
				want(t, err, error(nil))
				ids[flow.Name] = run.ID
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			workflow.Jump(engine, memory, by)
			late := time.Duration(0)
			if by < 0 {
				late = -by + 28*time.Minute
			}
			time.Sleep(late) // not before its time by the clock
			if by < 0 {
				want(t, phase(t, memory, ids["Timer"]), runtype.Waiting)
				want(t, phase(t, memory, ids["Late"]), runtype.Waiting)
			}
			time.Sleep(2 * time.Minute)
			want(t, phase(t, memory, ids["Timer"]), runtype.Succeeded)
			want(t, phase(t, memory, ids["Late"]), runtype.Paused)
			want(t, engine.Send(t.Context(), ids["Mail"], runtype.Signal{ID: "a", Name: "go"}), error(nil))
			want(t, phase(t, memory, ids["Mail"]), runtype.Succeeded)
			events, err := memory.History(t.Context(), ids["Late"], 0, 0)
			want(t, err, error(nil))
			expired := 0
			for _, e := range events {
				if e.Kind == runtype.StepFailedEvent {
					expired++
				}
			}
			want(t, expired, 1)
		})
	}
}
