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
)

// TestFinding1AcknowledgedResume: a resume that is accepted while the pause before
// it is still unread takes effect (promise 10).
func TestFinding1AcknowledgedResume(t *testing.T) {
	for name, stop := range map[string]func(*workflow.Engine, string) error{
		"pause": func(e *workflow.Engine, id string) error {
			return e.Pause(context.Background(), id, workflow.Actor{Name: "eve"})
		},
		"cancel hold": func(e *workflow.Engine, id string) error {
			return e.Cancel(context.Background(), id, workflow.Hold, false, workflow.Actor{Name: "eve"})
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
					want(t, r.load(id).Phase, workflow.Waiting)
				}
			})
		})
	}
}

// TestFinding1RequestsOfADeadWorker: pause and resume are sent through another
// process while the worker of the run is dead and its lease still holds.
func TestFinding1RequestsOfADeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := workflow.NewMemory()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			time.Sleep(time.Second)
			return outcome.Done()
		}}, {Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}}
		serve := func(store workflow.Store) (*workflow.Engine, func()) {
			e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
			want(t, err, error(nil))
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { _ = e.Serve(ctx); close(done) }()
			synctest.Wait()
			return e, func() { cancel(); <-done }
		}
		store := newCrashingStore(memory, 2, true) // it dies with the save that opens A
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
		want(t, b.Cancel(t.Context(), run.ID, workflow.Hold, false, by), error(nil))
		want(t, b.Resume(t.Context(), run.ID, workflow.FromFirst, "", by), error(nil))
		want(t, b.Cancel(t.Context(), run.ID, workflow.Undo, false, by), error(nil))
		want(t, code(b.Resume(t.Context(), run.ID, "", "", by)), "REQUEST_REFUSED") // not later, by an event
		time.Sleep(time.Minute)
		synctest.Wait()
		got, _, err := memory.Load(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, got.Phase, workflow.Cancelled)
	})
}

// request is one request of a sequence.
type request struct {
	what  string
	pause time.Duration // before it is sent
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
		return e.Cancel(ctx, id, workflow.Mode(arg), false, by)
	case "skip":
		return e.Skip(ctx, id, arg, nil, false, by)
	case "progress":
		return e.Report(ctx, id, arg, workflow.Progress{Done: 1})
	default:
		return e.Send(ctx, id, workflow.Signal{ID: requestID, Name: arg})
	}
}

// playRequests plays requests on a run that stands at a gate within a bracket, lets it rest,
// and opens both gates. It gives the requests that were accepted, how the run
// ended, what was refused although it had been accepted, and how many writes that took. The process dies at a write if at > 0.
func playRequests(t *testing.T, sequence []request, at int, after bool) (accepted []request, run *workflow.Run, refused string, writes int) {
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
	memory := workflow.NewMemory()
	var engine *workflow.Engine
	var cancel context.CancelFunc
	served := make(chan error, 1)
	serve := func(store workflow.Store) {
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
		if !dead && store.crashed() { // the old process hears nothing any more, and ends
			dead = true
			cancel()
			<-served
			serve(memory)
		}
	}
	request := func(what, id string) error { // under the same id until it is answered, as a careful client does
		for {
			err := sendRequest(engine, started.ID, what, id)
			if !errors.Is(err, workflow.ErrFenced) {
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
		if e.Kind == workflow.RequestRefused && e.Reason != "progress" { // which is news of a step: it may have ended meanwhile
			refused += e.Reason + " was accepted, and refused later: " + e.Message + "\n"
		}
	}
	cancel()
	<-served
	return accepted, run, refused, store.writes
}

// TestFinding1EndOfASequence: whatever requests come, however close together, and
// at whatever write the process dies, the run ends as it does when each request
// has taken its whole effect before the next one is sent; and none that was
// accepted is refused later (promise 10).
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
			var got, calm *workflow.Run
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

// TestFinding1CancelBehindASkip: a skip waits for the look that is under way, and a
// cancel behind it keeps its place without waiting for the look's time-out.
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
		want(t, r.engine.Cancel(t.Context(), run.ID, workflow.Drop, false, by), error(nil))
		time.Sleep(time.Minute)
		got := r.rests(run.ID, workflow.Cancelled)
		want(t, got.Step("S").Phase, workflow.StepSkipped)
	})
}
