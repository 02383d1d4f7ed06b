package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/limit"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// callLog counts the calls of a provider.
type callLog struct {
	mu        sync.Mutex
	open, top int
	starts    []time.Time
	names     []string
}

func (c *callLog) step(name string, lasts time.Duration) workflow.Func {
	return func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		c.mu.Lock()
		c.open++
		c.top = max(c.top, c.open)
		c.starts, c.names = append(c.starts, time.Now()), append(c.names, name+t.Step())
		c.mu.Unlock()
		defer func() { c.mu.Lock(); c.open--; c.mu.Unlock() }()
		select {
		case <-time.After(lasts):
			return outcome.Done()
		case <-ctx.Done():
			return outcome.Fail(context.Cause(ctx))
		}
	}
}

// seen returns what was counted so far.
func (c *callLog) seen() callLog {
	c.mu.Lock()
	defer c.mu.Unlock()
	return callLog{top: c.top, starts: slices.Clone(c.starts), names: slices.Clone(c.names)}
}

// most returns the largest number of starts in a window.
func (c *callLog) most(window time.Duration) (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, from := range c.starts {
		n := 0
		for _, at := range c.starts[i:] {
			if at.Sub(from) < window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func fixed(key string, atOnce int, rate string) []workflow.StepLimit {
	l := workflow.StepLimit{Key: workflow.FixedKey(key), KeyText: key, AtOnce: atOnce}
	if rate != "" {
		l.Rate, _ = runtype.ParseRate(rate)
	}
	return []workflow.StepLimit{l}
}

func startRuns(t *testing.T, e *workflow.Engine, flow string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		run, err := e.Start(t.Context(), workflow.Request{Flow: flow, Subject: fmt.Sprintf("kind/space/%s%d", flow, i)})
		want(t, err, error(nil))
		ids = append(ids, run.ID)
		time.Sleep(time.Millisecond) // the order is that of the time
	}
	return ids
}

func nothingHeld(t *testing.T, e *workflow.Engine) {
	t.Helper()
	synctest.Wait()
	list, err := e.StepLimits(t.Context(), "", 0)
	want(t, err, error(nil))
	for _, k := range list {
		if len(k.Holders)+len(k.Waiters) > 0 {
			t.Errorf("left of %s: %v hold, %v wait", k.Key, k.Holders, k.Waiters)
		}
	}
}

// TestStepsOfAKeyTakeTurns: two workers on one store call a provider twice at once at most, from two flows. Who waits is
// Waiting, says for what, and uses no slot of its worker.
func TestStepsOfAKeyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		limited := func(name string) workflow.Flow {
			return workflow.Flow{Name: name, Steps: []workflow.Step{{Name: "Call", Do: calls.step(name, time.Second), Limits: fixed("api", 2, "")}}}
		}
		free := 0
		flows := []workflow.Flow{limited("One"), limited("Two"), {Name: "Free", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome { free++; return outcome.Done() }}}}}
		store := &flaky{Memory: runstore.NewMemory()}
		one, stopOne := worker(t, store, flows, workflow.Options{Worker: "one", Attempts: 3})
		defer stopOne()
		_, stopTwo := worker(t, store, flows, workflow.Options{Worker: "two", Attempts: 3})
		defer stopTwo()
		ids := append(startRuns(t, one, "One", 6), startRuns(t, one, "Two", 6)...)
		startRuns(t, one, "Free", 1)
		synctest.Wait()
		want(t, free, 1)
		waiting := 0
		for _, id := range ids {
			r, err := one.Get(t.Context(), id)
			want(t, err, error(nil))
			if r.Phase != runtype.Waiting {
				continue
			}
			waiting++
			cur := r.Current()
			want(t, cur.Name+": "+cur.Wait.Reason+", "+cur.Wait.Message, "Call: Limit, api: 2 at once")
			want(t, cur.Attempt, 0)
			views, err := one.StepLimitsOf(t.Context(), r)
			want(t, err, error(nil))
			if len(views) != 1 || views[0].Running != 2 || views[0].Waiting != 10 || len(views[0].Holders) != 2 {
				t.Errorf("%s waits for %+v", id, views)
			}
		}
		want(t, waiting, 10)
		time.Sleep(7 * time.Second)
		for _, id := range ids {
			want(t, phase(t, store.Memory, id), runtype.Succeeded)
		}
		want(t, calls.seen().top, 2)
		nothingHeld(t, one)
	})
}

// TestRateOfSteps: a window is not exceeded, also when the workers are replaced in the middle, and no time is lost.
func TestRateOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		begin := time.Now()
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: fixed("api", 0, "3/1m")}}}}
		store := &flaky{Memory: runstore.NewMemory()}
		one, stop := worker(t, store, flows, workflow.Options{Worker: "one"})
		startRuns(t, one, "F", 10)
		time.Sleep(90 * time.Second)
		stop()
		time.Sleep(10 * time.Second)
		_, stop = worker(t, store, flows, workflow.Options{Worker: "two"})
		defer stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want(t, len(calls.seen().starts), 10)
		want(t, calls.most(time.Minute), 3)
		if last := calls.seen().starts[9].Sub(begin); last > 3*time.Minute+time.Second {
			t.Errorf("the last one started after %s", last)
		}
	})
}

// TestRateOfRuns: a run whose time has not come is Waiting, before its first step; priority goes first.
func TestRateOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		rate, _ := runtype.ParseRate("2/1m")
		flows := []workflow.Flow{{Name: "F", Limits: []workflow.RunLimit{{Key: workflow.FixedKey("tenant/a"), Rate: rate}}, Steps: []workflow.Step{
			{Name: "A", Do: calls.step("", time.Second)}, {Name: "B", Do: calls.step("", time.Second)},
		}}}
		store := &flaky{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, flows, workflow.Options{})
		defer stop()
		ids := startRuns(t, e, "F", 4)
		urgent, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "kind/space/urgent", Priority: 1})
		want(t, err, error(nil))
		time.Sleep(5 * time.Second)
		want(t, phase(t, store.Memory, ids[1]), runtype.Succeeded)
		want(t, phase(t, store.Memory, ids[2]), runtype.Waiting)
		r, err := e.Get(t.Context(), urgent.ID)
		want(t, err, error(nil))
		views, err := e.StepLimitsOf(t.Context(), r)
		want(t, err, error(nil))
		if len(views) != 1 || views[0].Step != "" || views[0].Started != 2 || views[0].Before != 0 || views[0].Waiting != 3 {
			t.Errorf("%+v", views)
		}
		time.Sleep(time.Minute)
		want(t, phase(t, store.Memory, urgent.ID), runtype.Succeeded)
		want(t, phase(t, store.Memory, ids[2]), runtype.Succeeded)
		want(t, phase(t, store.Memory, ids[3]), runtype.Waiting)
		time.Sleep(time.Minute)
		want(t, phase(t, store.Memory, ids[3]), runtype.Succeeded)
		nothingHeld(t, e)
	})
}

// TestLimitOfADeadWorker: its lease ends, another worker takes its run over, and the limit is free for the others.
func TestLimitOfADeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: fixed("api", 1, "")}}}}
		memory := runstore.NewMemory()
		doomed := newCrashingStore(memory, 0, false)
		one, stopOne := worker(t, doomed, flows, workflow.Options{Worker: "one", Lease: 10 * time.Second})
		ids := startRuns(t, one, "F", 3)
		synctest.Wait()
		doomed.mu.Lock()
		doomed.dead = true
		doomed.mu.Unlock()
		stopOne()
		two, stopTwo := worker(t, memory, flows, workflow.Options{Worker: "two", Lease: 10 * time.Second})
		defer stopTwo()
		time.Sleep(60 * time.Second)
		for _, id := range ids {
			want(t, phase(t, memory, id), runtype.Succeeded)
		}
		want(t, calls.seen().top, 1)
		nothingHeld(t, two)
	})
}

// TestUndoPollAndHealerAcquireLimits: each call of a provider acquires a limit, whatever it is for, and a wait holds none.
func TestUndoPollAndHealerAcquireLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		slow := calls.step("", 2*time.Second)
		polls := map[string]int{}
		var mu sync.Mutex
		poll := func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			_ = slow(ctx, task)
			mu.Lock()
			defer mu.Unlock()
			if polls[task.RunID()]++; polls[task.RunID()] < 3 {
				return outcome.Wait(time.Second, "Busy", "it works")
			}
			return outcome.Done()
		}
		healed := map[string]bool{}
		fails := func(_ context.Context, task *workflow.Task) outcome.Outcome {
			mu.Lock()
			defer mu.Unlock()
			if healed[task.RunID()] {
				return outcome.Done()
			}
			return outcome.Fail(broken.Errorf("broken"))
		}
		heal := func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			_ = slow(ctx, task)
			mu.Lock()
			defer mu.Unlock()
			healed[task.RunID()] = true
			return outcome.Done()
		}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{
			{Name: "Poll", Do: poll, Undo: slow, Limits: fixed("api", 1, "")},
			{Name: "Fails", Do: fails},
			{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}},
		}}}
		store := &flaky{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, flows, workflow.Options{Healers: map[fault.Code]workflow.Healer{broken.Code: {Do: heal, StepLimits: fixed("api", 1, "")}}})
		defer stop()
		ids := startRuns(t, e, "F", 3)
		time.Sleep(3 * time.Minute)
		for _, id := range ids {
			want(t, phase(t, store.Memory, id), runtype.Waiting)
			l, err := e.Find(t.Context(), id)
			want(t, err, error(nil))
			want(t, e.SendRequest(t.Context(), l, runtype.VerbCancel, workflow.RunRequest{Mode: runtype.Undo}), error(nil))
		}
		time.Sleep(time.Minute)
		for _, id := range ids {
			want(t, phase(t, store.Memory, id), runtype.Cancelled)
		}
		want(t, calls.seen().top, 1)
		want(t, len(calls.seen().starts), 3*(3+1+1))
		nothingHeld(t, e)
	})
}

// TestWaitingStepIsNotUndone: a step that was cancelled while it waited for a limit was never opened, and leaves the line.
func TestWaitingStepIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Hour), Undo: calls.step("undo", time.Second), Timeout: 2 * time.Hour, Limits: fixed("api", 1, "")}}}}
		store := &flaky{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, flows, workflow.Options{})
		defer stop()
		ids := startRuns(t, e, "F", 2)
		synctest.Wait()
		for _, id := range slices.Backward(ids) {
			l, err := e.Find(t.Context(), id)
			want(t, err, error(nil))
			want(t, e.SendRequest(t.Context(), l, runtype.VerbCancel, workflow.RunRequest{Mode: runtype.Undo}), error(nil))
			time.Sleep(time.Minute)
			want(t, phase(t, store.Memory, id), runtype.Cancelled)
		}
		want(t, strings.Join(calls.seen().names, " "), "Call undoCall")
		nothingHeld(t, e)
	})
}

// ChangeStepLimits is a write as the others are.
func (m *crashingStore) ChangeStepLimits(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	return m.write(func() error { return m.Memory.ChangeStepLimits(ctx, keys, change) })
}

// TestStepLimitsAfterEachCrash: the process dies before and after each of its writes. Another one goes on, no number is exceeded,
// all runs end, and nothing is held in the end.
func TestStepLimitsAfterEachCrash(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			died := false
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
					{Name: "A", Do: calls.step("", time.Second), Limits: fixed("api", 1, "")},
					{Name: "B", Do: calls.step("", time.Second), Limits: fixed("api", 1, "2/20s")},
				}}
				memory := runstore.NewMemory()
				store := newCrashingStore(memory, at, after)
				one, stopOne := worker(t, store, []workflow.Flow{flow}, workflow.Options{Worker: "one", Lease: 10 * time.Second})
				var ids []string
				for i := range 3 {
					r, err := one.Start(t.Context(), workflow.Request{Flow: "F", Subject: fmt.Sprint("kind/space/", i), RequestID: "1"})
					if err == nil {
						ids = append(ids, r.ID)
					}
				}
				select {
				case <-store.died:
					died = true
				case <-time.After(10 * time.Minute):
				}
				stopOne()
				two, stopTwo := worker(t, memory, []workflow.Flow{flow}, workflow.Options{Worker: "two", Lease: 10 * time.Second})
				defer stopTwo()
				time.Sleep(5 * time.Minute)
				for _, id := range ids {
					if p := phase(t, memory, id); p != runtype.Succeeded {
						t.Errorf("crash %d, after %v: %s is %s", at, after, id, p)
					}
				}
				if calls.seen().top > 1 {
					t.Errorf("crash %d, after %v: %d at once", at, after, calls.seen().top)
				}
				nothingHeld(t, two)
			})
			if !died || t.Failed() {
				if at < 15 {
					t.Errorf("only %d writes", at)
				}
				break
			}
		}
	}
}

// TestStepLimitsOfAStoreThatFails: changes that fail, with and without effect, delay steps and leave nothing. Each change fails
// once, so also the last one of a run.
func TestStepLimitsOfAStoreThatFails(t *testing.T) {
	for _, after := range []bool{false, true} {
		for every := 3; every < 9; every++ {
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				store := &failingLimits{Memory: runstore.NewMemory(), every: every, after: after}
				var steps []workflow.Step
				for _, name := range []string{"A", "B", "C"} {
					steps = append(steps, workflow.Step{Name: name, Do: calls.step("", time.Second), Limits: fixed("api", 2, "")})
				}
				e, stop := worker(t, store, []workflow.Flow{{Name: "F", Steps: steps}}, workflow.Options{})
				defer stop()
				ids := startRuns(t, e, "F", 6)
				time.Sleep(5 * time.Minute)
				for _, id := range ids {
					want(t, phase(t, store.Memory, id), runtype.Succeeded)
				}
				if calls.seen().top > 2 {
					t.Errorf("%d at once", calls.seen().top)
				}
				nothingHeld(t, e)
			})
		}
	}
}

// TestLimitIsReleasedAfterAFailure: the change that releases a limit fails, and the run goes on for hours. It tries again, and
// does not hold the limit until it rests.
func TestLimitIsReleasedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		flows := []workflow.Flow{
			{Name: "A", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: fixed("api", 1, "")}, {Name: "Long", Do: calls.step("", time.Hour), Timeout: 2 * time.Hour}}},
			{Name: "B", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: fixed("api", 1, "")}}},
		}
		store := &failingLimits{Memory: runstore.NewMemory(), only: 2}
		e, stop := worker(t, store, flows, workflow.Options{})
		defer stop()
		startRuns(t, e, "A", 1)
		time.Sleep(10 * time.Second)
		nothingHeld(t, e)
		b := startRuns(t, e, "B", 1)[0]
		time.Sleep(10 * time.Second)
		want(t, phase(t, store.Memory, b), runtype.Succeeded)
	})
}

// TestRunEndsHoldingLimits: a store that never takes limits back does not keep a run from its end.
func TestRunEndsHoldingLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		store := &failingLimits{Memory: runstore.NewMemory(), from: 2}
		e, stop := worker(t, store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: fixed("api", 1, "")}}}}, workflow.Options{})
		defer stop()
		id := startRuns(t, e, "F", 1)[0]
		time.Sleep(time.Minute)
		want(t, phase(t, store.Memory, id), runtype.Succeeded)
	})
}

// failingLimits fails each call whose number every divides, the call only, and all calls since from.
type failingLimits struct {
	*runstore.Memory
	calls, every, only, from int
	after                    bool
	mu                       sync.Mutex
}

func (f *failingLimits) ChangeStepLimits(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	f.mu.Lock()
	f.calls++
	bad := f.every > 0 && f.calls%f.every == 0 || f.calls == f.only || f.from > 0 && f.calls >= f.from
	f.mu.Unlock()
	if !bad || f.after {
		if err := f.Memory.ChangeStepLimits(ctx, keys, change); err != nil {
			return err
		}
	}
	if bad {
		return errors.New("the store is away")
	}
	return nil
}

// TestLimitsOfStepsAreRefused: limits that mean nothing, and a store that keeps none.
func TestLimitsOfStepsAreRefused(t *testing.T) {
	do := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	for name, s := range map[string]workflow.Step{
		"no number":   {Name: "A", Do: do, Limits: []workflow.StepLimit{{Key: workflow.FixedKey("k")}}},
		"no key":      {Name: "A", Do: do, Limits: []workflow.StepLimit{{AtOnce: 1}}},
		"too many":    {Name: "A", Do: do, Limits: fixed("k", limit.MaxAtOnce+1, "")},
		"of a wait":   {Name: "A", Wait: &workflow.WaitFor{For: time.Second}, Limits: fixed("k", 1, "")},
		"of a group":  {Name: "A", Steps: []workflow.Step{{Name: "B", Do: do}}, Limits: fixed("k", 1, "")},
		"of sub-flow": {Name: "A", Flow: "F", Limits: fixed("k", 1, "")},
	} {
		if _, err := workflow.New(runstore.NewMemory(), []workflow.Flow{{Name: "F", Steps: []workflow.Step{s}}}, workflow.Options{}); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
	e, err := workflow.New(unlimited{runstore.NewMemory()}, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: do, Limits: fixed("k", 1, "")}}}}, workflow.Options{})
	want(t, err, error(nil))
	if _, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "kind/space/1"}); !errors.Is(err, workflow.LimitsNotKept) {
		t.Errorf("a store without limits: %v", err)
	}
}

// TestStartsAndStepsShareNothing: a rate of runs and limits of steps with the same key: no start of a step counts for the runs, and no
// step waits behind a run. Both are listed, also when a page ends between them.
func TestStartsAndStepsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		rate, _ := runtype.ParseRate("1/1m")
		flows := []workflow.Flow{
			{Name: "Rated", Limits: []workflow.RunLimit{{Key: workflow.FixedKey("k"), Rate: rate}}, Steps: []workflow.Step{{Name: "A", Do: calls.step("rated", 0)}}},
			{Name: "Steps", Steps: []workflow.Step{{Name: "A", Do: calls.step("steps", 0), Limits: fixed("k", 1, "5/1m")}, {Name: "B", Do: calls.step("steps", time.Hour), Timeout: 2 * time.Hour, Limits: fixed("l", 1, "")}}},
		}
		e, stop := worker(t, runstore.NewMemory(), flows, workflow.Options{})
		defer stop()
		startRuns(t, e, "Rated", 2)
		startRuns(t, e, "Steps", 3)
		synctest.Wait()
		want(t, strings.Join(calls.seen().names, " "), "ratedA stepsA stepsB stepsA stepsA")
		time.Sleep(61 * time.Second)
		want(t, strings.Join(calls.seen().names[5:], " "), "ratedA")
		for limit, pages := range map[int]string{1: "k:false k:true | l:false | ", 2: "k:false k:true | l:false | ", 3: "k:false k:true l:false | "} {
			got, after := "", ""
			for {
				list, err := e.StepLimits(t.Context(), after, limit)
				want(t, err, error(nil))
				if len(list) == 0 {
					break
				}
				for _, k := range list {
					got += fmt.Sprintf("%s:%v ", k.Key, k.Starts)
					after = k.Key
				}
				got += "| "
			}
			want(t, got, pages)
		}
	})
}

// laggingList lists runs as a watch shows them: those younger than missing are not there yet, and those
// younger than lag have no owner yet.
type laggingList struct {
	*runstore.Memory
	missing, lag time.Duration
}

func (l *laggingList) List(ctx context.Context, q runstore.Query) (list []*runtype.Run, next string, err error) {
	runs, next, err := l.Memory.List(ctx, q)
	for _, r := range runs {
		if age := time.Since(r.CreatedAt); age < l.missing {
			continue
		} else if age < l.lag {
			r.Owner = ""
		}
		list = append(list, r)
	}
	return list, next, err
}

// TestHolderIsNotLostInAListThatLags: a run that the list of the store does not show yet, or shows without its worker, keeps
// its limit. One that does not exist has none.
func TestHolderIsNotLostInAListThatLags(t *testing.T) {
	for name, store := range map[string]*laggingList{
		"not listed":           {missing: time.Hour},
		"listed without owner": {lag: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				store.Memory = runstore.NewMemory()
				flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Minute), Limits: fixed("api", 1, "")}}}}
				stranger := limit.State{Holders: []limit.Holder{{Run: "gone", Step: "Call", Epoch: 1}}, Waiters: []limit.Waiter{{Run: "gone", Step: "Other", AskAt: time.Now().Add(time.Hour).UnixNano()}}}
				err := store.ChangeStepLimits(t.Context(), []string{"api"}, func(time.Time, [][]byte) ([][]byte, error) { return [][]byte{stranger.Encode()}, nil })
				want(t, err, error(nil))
				one, stopOne := worker(t, store, flows, workflow.Options{Worker: "one"})
				defer stopOne()
				_, stopTwo := worker(t, store, flows, workflow.Options{Worker: "two"})
				defer stopTwo()
				ids := startRuns(t, one, "F", 3)
				time.Sleep(4 * time.Minute)
				for _, id := range ids {
					want(t, phase(t, store.Memory, id), runtype.Succeeded)
				}
				want(t, calls.seen().top, 1)
				nothingHeld(t, one)
			})
		})
	}
}

// TestPollThatWaitsForALimitEnds: a poll that gets no limit does not stop the clocks of its wait: its heartbeat, and its
// deadline.
func TestPollThatWaitsForALimitEnds(t *testing.T) {
	poll := func(context.Context, *workflow.Task) outcome.Outcome {
		return outcome.Wait(10*time.Second, "NotYet", "not yet")
	}
	for name, c := range map[string]struct {
		step workflow.Step
		code fault.Code
	}{
		"heartbeat": {workflow.Step{Name: "Poll", Do: poll, Heartbeat: time.Minute, Retry: workflow.Retry{Attempts: 1}}, workflow.HeartbeatLost.Code},
		"deadline":  {workflow.Step{Name: "Poll", Do: poll, Wait: &workflow.WaitFor{Deadline: time.Minute}}, workflow.WaitExpired.Code},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				c.step.Limits = fixed("api", 1, "")
				flows := []workflow.Flow{
					{Name: "P", Steps: []workflow.Step{c.step}},
					{Name: "H", Steps: []workflow.Step{{Name: "Hold", Do: calls.step("", 5*time.Hour), Timeout: 6 * time.Hour, Limits: fixed("api", 1, "")}}},
				}
				store := runstore.NewMemory()
				e, stop := worker(t, store, flows, workflow.Options{})
				defer stop()
				id := startRuns(t, e, "P", 1)[0]
				time.Sleep(5 * time.Second)
				startRuns(t, e, "H", 1)
				time.Sleep(65 * time.Second)
				r, err := e.Get(t.Context(), id)
				want(t, err, error(nil))
				if r.Phase != runtype.Paused || r.Fault == nil || r.Fault.Code != c.code {
					t.Errorf("the run is %s: %+v", r.Phase, r.Fault)
				}
				list, err := e.StepLimits(t.Context(), "", 0)
				want(t, err, error(nil))
				if len(list) != 1 || len(list[0].Holders) != 1 || len(list[0].Waiters) != 0 {
					t.Errorf("the limit is %+v", list[0].State)
				}
			})
		})
	}
}

// TestLimitsOfOneKey: a step with several limits of one key keeps each of them. If no rate keeps the others, the flow is
// refused, or the step fails if its keys are the same only when it begins.
func TestLimitsOfOneKey(t *testing.T) {
	for name, limits := range map[string][]workflow.StepLimit{
		"the rate is last":        slices.Concat(fixed("api", 5, ""), fixed("api", 0, "2/1m")),
		"the rate is first":       slices.Concat(fixed("api", 0, "2/1m"), fixed("api", 5, "")),
		"the stricter is last":    slices.Concat(fixed("api", 5, "4/1m"), fixed("api", 0, "2/1m")),
		"the stricter is first":   slices.Concat(fixed("api", 5, "2/1m"), fixed("api", 0, "2/10s")),
		"the smaller number last": slices.Concat(fixed("api", 5, "2/1m"), fixed("api", 1, "")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: limits}}}}
				e, stop := worker(t, runstore.NewMemory(), flows, workflow.Options{})
				defer stop()
				startRuns(t, e, "F", 5)
				time.Sleep(10 * time.Minute)
				want(t, len(calls.seen().starts), 5)
				want(t, calls.most(time.Minute), 2)
				if strings.HasPrefix(name, "the smaller") {
					want(t, calls.seen().top, 1)
				}
				nothingHeld(t, e)
			})
		})
	}
	two := slices.Concat(fixed("api", 0, "2/1s"), fixed("api", 0, "10/1m"))
	do := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	if _, err := workflow.New(runstore.NewMemory(), []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: do, Limits: two}}}}, workflow.Options{}); err == nil || !strings.Contains(err.Error(), "neither of 2/1s and 10/1m") {
		t.Errorf("two rates of a step: %v", err)
	}
	var runs []workflow.RunLimit
	for _, l := range two {
		runs = append(runs, workflow.RunLimit{Key: l.Key, KeyText: l.KeyText, Rate: l.Rate})
	}
	if _, err := workflow.New(runstore.NewMemory(), []workflow.Flow{{Name: "F", Limits: runs, Steps: []workflow.Step{{Name: "A", Do: do}}}}, workflow.Options{}); err == nil || !strings.Contains(err.Error(), "neither of 2/1s and 10/1m") {
		t.Errorf("two rates of runs: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		two[1].KeyText = "input.api"
		store := runstore.NewMemory()
		e, stop := worker(t, store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: do, Limits: two}}}}, workflow.Options{})
		defer stop()
		id := startRuns(t, e, "F", 1)[0]
		synctest.Wait()
		r, err := e.Get(t.Context(), id)
		want(t, err, error(nil))
		if r.Phase != runtype.Paused || r.Fault == nil || r.Fault.Code != workflow.ExpressionFailed.Code || !strings.Contains(r.Fault.Message, "neither of 2/1s and 10/1m") {
			t.Errorf("the run is %s: %+v", r.Phase, r.Fault)
		}
	})
}

// wakingStore calls onWake while a run is woken that may hold a limit.
type wakingStore struct {
	*runstore.Memory
	onWake func()
}

func (w *wakingStore) Send(ctx context.Context, id string, s runtype.Signal) error {
	if strings.HasPrefix(s.ID, "limit/") {
		w.onWake()
	}
	return w.Memory.Send(ctx, id, s)
}

// TestAttemptsGoOnWhileOthersAreWoken: the store may be slow when a run is woken. Attempts of the run that released its limits
// can read outputs meanwhile.
func TestAttemptsGoOnWhileOthersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, long, read := make(chan struct{}), make(chan *workflow.Task, 1), make(chan bool, 10)
		reads := func(_ context.Context, task *workflow.Task) outcome.Outcome {
			long <- task
			<-end
			return outcome.Done()
		}
		flows := []workflow.Flow{
			{Name: "A", Steps: []workflow.Step{{Name: "Both", Parallel: 2, Steps: []workflow.Step{
				{Name: "Long", Do: reads},
				{Name: "Call", Do: new(callLog).step("", 300*time.Millisecond), Limits: fixed("api", 1, "")},
			}}}},
			{Name: "B", Steps: []workflow.Step{{Name: "Call", Do: new(callLog).step("", 0), Limits: fixed("api", 1, "")}}},
		}
		store := &wakingStore{Memory: runstore.NewMemory()}
		store.onWake = func() {
			task := <-long
			done := make(chan struct{})
			go func() {
				for range task.Outputs() {
				}
				close(done)
			}()
			for range 1_000_000 { // no time passes while a goroutine waits for a lock
				select {
				case <-done:
					read <- true
					return
				default:
					runtime.Gosched()
				}
			}
			read <- false
		}
		e, stop := worker(t, store, flows, workflow.Options{})
		defer stop()
		defer close(end)
		startRuns(t, e, "A", 1)
		time.Sleep(50 * time.Millisecond)
		startRuns(t, e, "B", 1)
		select {
		case ok := <-read:
			want(t, ok, true)
		case <-time.After(20 * time.Second):
			t.Error("nobody was woken")
		}
	})
}

// TestStartsAreForgotten: each run has a key of its own, which nobody uses again. Nothing is left of them a day later.
func TestStartsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls callLog
		limit := workflow.StepLimit{KeyText: "input", Rate: runtype.Rate{Starts: 1, Window: 3 * time.Hour}, Key: func(v workflow.View) (string, error) { return "k/" + string(v.Input()), nil }}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Call", Do: calls.step("", time.Second), Limits: []workflow.StepLimit{limit}}}}}
		e, stop := worker(t, runstore.NewMemory(), flows, workflow.Options{})
		defer stop()
		for i := range 20 {
			_, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: fmt.Sprint("kind/space/", i), Input: fmt.Append(nil, i)})
			want(t, err, error(nil))
		}
		for _, c := range []struct {
			after time.Duration
			keys  int
		}{{2 * time.Hour, 20}, {22 * time.Hour, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			list, err := e.StepLimits(t.Context(), "", 0)
			want(t, err, error(nil))
			want(t, len(list), c.keys)
		}
	})
}

// TestPollThatWaitsForASlotEnds: a poll whose run has no free slot does not stop the clocks of its wait either.
func TestPollThatWaitsForASlotEnds(t *testing.T) {
	poll := func(context.Context, *workflow.Task) outcome.Outcome {
		return outcome.Wait(10*time.Second, "NotYet", "not yet")
	}
	for name, c := range map[string]struct {
		step workflow.Step
		code fault.Code
	}{
		"heartbeat": {workflow.Step{Name: "Poll", Do: poll, Heartbeat: time.Minute, Retry: workflow.Retry{Attempts: 1}}, workflow.HeartbeatLost.Code},
		"deadline":  {workflow.Step{Name: "Poll", Do: poll, Wait: &workflow.WaitFor{Deadline: time.Minute}}, workflow.WaitExpired.Code},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls callLog
				hold := workflow.Step{Name: "Hold", Do: calls.step("", 5*time.Hour), Timeout: 6 * time.Hour}
				flows := []workflow.Flow{{Name: "P", Steps: []workflow.Step{{Name: "Both", Parallel: 2, Steps: []workflow.Step{c.step, hold}}}}}
				e, stop := worker(t, runstore.NewMemory(), flows, workflow.Options{Attempts: 1})
				defer stop()
				id := startRuns(t, e, "P", 1)[0]
				time.Sleep(70 * time.Second)
				r, err := e.Get(t.Context(), id)
				want(t, err, error(nil))
				if rec := r.Step("Both/Poll"); rec == nil || rec.Phase != runtype.StepFailed || rec.Fault == nil || rec.Fault.Code != c.code {
					t.Errorf("the poll is %+v", rec)
				}
				want(t, len(calls.seen().starts), 1)
				nothingHeld(t, e)
			})
		})
	}
}

// TestLimitsOfHealersAreChecked: a healer with a limit that cannot hold is refused when it is loaded, as a step is.
func TestLimitsOfHealersAreChecked(t *testing.T) {
	do := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	for name, c := range map[string]struct {
		limits []workflow.StepLimit
		says   string
	}{
		"no key":    {[]workflow.StepLimit{{AtOnce: 1}}, "a limit has no key"},
		"no number": {fixed("api", 0, ""), "neither atOnce nor a rate"},
		"too many":  {fixed("api", 1001, ""), "between 1 and 1000"},
		"two rates": {append(fixed("api", 0, "2/1s"), fixed("api", 0, "10/1m")...), "neither of 2/1s and 10/1m"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{Healers: map[fault.Code]workflow.Healer{broken.Code: {Do: do, StepLimits: c.limits}}})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), string(broken.Code)) {
				t.Errorf("%v", err)
			}
		})
	}
}
