package workflow_test

import (
	"context"
	"errors"
	"fmt"
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

// TestFinding1AcknowledgedResume: a resume that is accepted while the previous pause is unread
// takes effect.
//
// It covers promise 10.
func TestFinding1AcknowledgedResume(t *testing.T) {
	for name, stop := range map[string]func(*workflow.Engine, string) error{
		"pause": func(e *workflow.Engine, id string) error {
			return e.Pause(context.Background(), id, workflow.Actor{Name: "eve"})
		},
		"cancel hold": func(e *workflow.Engine, id string) error {
			return e.Cancel(context.Background(), id, runtype.Hold, false, workflow.Actor{Name: "eve"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}}}, workflow.Options{})
				defer r.stop()
				ids := make([]string, 300)
				for i := range ids {
					run, err := r.engine.Start(t.Context(), workflow.Request{Flow: "F", Subject: fmt.Sprintf("demo/default/%d", i)})
					want(t, err, error(nil))
					ids[i] = run.ID
				}
				synctest.Wait()
				var threads sync.WaitGroup
				for at := range 8 {
					threads.Go(func() {
						for i := at; i < len(ids); i += 8 {
							if err := errors.Join(stop(r.engine, ids[i]), r.engine.Resume(context.Background(), ids[i], "", "", workflow.Actor{Name: "eve"})); err != nil {
								t.Error(err)
							}
						}
					})
				}
				threads.Wait()
				time.Sleep(time.Hour)
				synctest.Wait()
				for _, id := range ids {
					want(t, r.load(id).Phase, runtype.Waiting)
				}
			})
		})
	}
}

// TestFinding1RequestsOfADeadWorker: pause and resume are sent through another process while the
// worker of the run is dead and its lease is still valid.
func TestFinding1RequestsOfADeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			time.Sleep(time.Second)
			return outcome.Done()
		}}, {Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}}
		serve := func(store runstore.Store) (*workflow.Engine, func()) {
			e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
			want(t, err, error(nil))
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { _ = e.Serve(ctx); close(done) }()
			synctest.Wait()
			return e, func() { cancel(); <-done }
		}
		store := newCrashingStore(memory, 2, true) // the process dies with the save that opens A
		a, stopA := serve(store)
		defer stopA()
		run, err := a.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		synctest.Wait()
		b, stopB := serve(memory)
		defer stopB()
		by := workflow.Actor{Name: "eve"}
		want(t, b.Pause(t.Context(), run.ID, by), error(nil))
		want(t, b.Resume(t.Context(), run.ID, "", "", by), error(nil))
		want(t, b.Cancel(t.Context(), run.ID, runtype.Hold, false, by), error(nil))
		want(t, b.Resume(t.Context(), run.ID, workflow.FromFirst, "", by), error(nil))
		want(t, b.Cancel(t.Context(), run.ID, runtype.Undo, false, by), error(nil))
		want(t, code(b.Resume(t.Context(), run.ID, "", "", by)), "REQUEST_REFUSED") // refused at once, not later by an event
		time.Sleep(time.Minute)
		synctest.Wait()
		got, _, err := memory.Load(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, got.Phase, runtype.Cancelled)
	})
}

// request is one request of a sequence.
type request struct {
	what  string
	pause time.Duration // delay before it is sent
}

var requests = []string{
	"pause", "pause", "resume", "resume", "resume first", "resume A", "cancel hold", "cancel undo", "cancel drop", "skip B/Gate", "progress B/Gate",
}

func sendRequest(e *workflow.Engine, id, what, requestID string) error {
	ctx, by := context.Background(), workflow.Actor{Name: "eve", RequestID: requestID}
	verb, arg, _ := strings.Cut(what, " ")
	switch verb {
	case "pause":
		return e.Pause(ctx, id, by)
	case "resume":
		return e.Resume(ctx, id, workflow.From(arg), "", by)
	case "cancel":
		return e.Cancel(ctx, id, runtype.Mode(arg), false, by)
	case "skip":
		return e.Skip(ctx, id, arg, nil, false, by)
	case "progress":
		return e.Report(ctx, id, arg, runtype.Progress{Done: 1})
	default:
		return e.Send(ctx, id, runtype.Signal{ID: requestID, Name: arg})
	}
}

// playRequests sends requests to a run that waits at a gate within a bracket, waits until the run
// is idle, and opens both gates. It returns the accepted requests, the end of the run, accepted
// requests that were refused later, and the number of writes. If at > 0, the process dies at that
// write.
func playRequests(t *testing.T, sequence []request, at int, after bool) (accepted []request, run *runtype.Run, refused string, writes int) {
	slow := func(d time.Duration) workflow.Func {
		return func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			select {
			case <-time.After(d):
				return outcome.Done()
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			}
		}
	}
	flows := []workflow.Flow{{Name: "Asked", Steps: []workflow.Step{
		{Name: "A", Do: slow(time.Second), Undo: slow(time.Second)},
		{Name: "B", Open: &workflow.Step{Name: "open", Do: slow(0)}, Close: &workflow.Step{Name: "close", Do: slow(3 * time.Second)}, Steps: []workflow.Step{
			{Name: "Gate", Skippable: true, Wait: &workflow.WaitFor{Signal: "go"}},
			{Name: "C", Do: slow(2 * time.Second), Undo: slow(0)},
		}},
		{Name: "Last", Wait: &workflow.WaitFor{Signal: "end"}},
	}}}
	memory := runstore.NewMemory()
	var engine *workflow.Engine
	var cancel context.CancelFunc
	served := make(chan error, 1)
	serve := func(store runstore.Store) {
		var err error
		if engine, err = workflow.New(store, flows, workflow.Options{Drain: time.Second, Logger: quiet()}); err != nil {
			t.Fatal(err)
		}
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		go func() { served <- engine.Serve(ctx) }()
	}
	serve(memory)
	started, err := engine.Start(t.Context(), workflow.Request{Flow: "Asked", Subject: subject, RequestID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	settle := func() { time.Sleep(2 * time.Minute); synctest.Wait() }
	settle()
	cancel()
	<-served
	store := newCrashingStore(memory, at, after)
	serve(store)
	dead := false
	reborn := func() {
		if !dead && store.crashed() { // the old process gets no more messages and ends
			dead = true
			cancel()
			<-served
			serve(memory)
		}
	}
	request := func(what, id string) error { // repeats with the same id until there is an answer, as a careful client does
		for {
			err := sendRequest(engine, started.ID, what, id)
			if !errors.Is(err, runstore.ErrFenced) {
				return err
			}
			reborn()
		}
	}
	for i, q := range sequence {
		time.Sleep(q.pause)
		reborn()
		if err := request(q.what, fmt.Sprintf("request %d", i)); err == nil {
			accepted = append(accepted, q)
		}
	}
	settle()
	for _, name := range []string{"go", "end"} {
		reborn()
		if err := request("signal "+name, name); err != nil && code(err) != "RUN_FINISHED" {
			t.Fatal(err)
		}
		settle()
	}
	reborn()
	settle()
	run, _, err = memory.Load(t.Context(), started.ID)
	if err != nil {
		t.Fatal(err)
	}
	history, err := memory.History(t.Context(), started.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if e.Kind == runtype.RequestRefused && e.Reason != "progress" { // progress may come too late: the step may have ended meanwhile
			refused += e.Reason + " was accepted, and refused later: " + e.Message + "\n"
		}
	}
	cancel()
	<-served
	return accepted, run, refused, store.writes
}

// TestFinding1EndOfASequence: a run gets requests in any order and at any distance, and its process
// dies at any write. It ends as if each request had taken full effect before the next one was sent.
// No accepted request is refused later.
//
// It covers promise 10.
func TestFinding1EndOfASequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sequence []request
		for i := range rapid.IntRange(1, 8).Draw(rt, "length") {
			sequence = append(sequence, request{
				what:  rapid.SampledFrom(requests).Draw(rt, fmt.Sprint("request ", i)),
				pause: rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Millisecond, 1500 * time.Millisecond, 20 * time.Second}).Draw(rt, fmt.Sprint("before ", i)),
			})
		}
		compare := func(at int, after bool) (writes int) {
			var accepted []request
			var got, calm *runtype.Run
			var refused string
			synctest.Test(t, func(t *testing.T) { accepted, got, refused, writes = playRequests(t, sequence, at, after) })
			slowly := make([]request, len(accepted))
			for i, q := range accepted {
				slowly[i] = request{what: q.what, pause: time.Hour}
			}
			synctest.Test(t, func(t *testing.T) { _, calm, _, _ = playRequests(t, slowly, 0, false) })
			if got.Phase != calm.Phase {
				rt.Fatalf("crash at write %d, after=%v: of %v were accepted %v: the run ended %s %+v; one after the other it ends %s", at, after, sequence, accepted, got.Phase, got.Fault, calm.Phase)
			}
			if refused != "" {
				rt.Fatalf("crash at write %d, after=%v: of %v were accepted %v: %s", at, after, sequence, accepted, refused)
			}
			return writes
		}
		writes := compare(0, false)
		if writes > 0 {
			compare(rapid.IntRange(1, writes).Draw(rt, "at"), rapid.Bool().Draw(rt, "after"))
		}
	})
}

// TestFinding1AfterAPauseUnderWay: a pause waits for an open attempt, and a resume and a cancel wait
// behind it. A request behind them is decided as if they had been carried out.
func TestFinding1AfterAPauseUnderWay(t *testing.T) {
	var sequence []request
	for _, what := range []string{"skip B/Gate", "pause", "resume A", "cancel drop", "skip B/Gate"} {
		sequence = append(sequence, request{what: what, pause: 100 * time.Millisecond})
	}
	synctest.Test(t, func(t *testing.T) {
		accepted, _, refused, _ := playRequests(t, sequence, 0, false)
		want(t, refused, "")
		want(t, len(accepted), 4)
	})
}

// TestFinding1CancelBehindASkip: a skip waits for the open poll. A cancel behind it stays in order
// and does not wait for the timeout of the poll.
func TestFinding1CancelBehindASkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		r := newHarness(t, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{
			Name: "S", Skippable: true, Timeout: 5 * time.Hour,
			Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
				if looks++; looks == 1 {
					return outcome.Wait(time.Minute, "Busy", "not yet")
				}
				<-ctx.Done()
				return outcome.Fail(context.Cause(ctx))
			},
		}}}}, workflow.Options{})
		defer r.stop()
		run := r.start("F", ``)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want(t, looks, 2)
		by := workflow.Actor{Name: "eve"}
		want(t, r.engine.Skip(t.Context(), run.ID, "S", nil, false, by), error(nil))
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, by), error(nil))
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Cancelled)
		want(t, got.Step("S").Phase, runtype.StepSkipped)
	})
}
