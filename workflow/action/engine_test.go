package action

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// testServer is an engine that serves a memory store within a synctest bubble.
type testServer struct {
	t      *testing.T
	store  *runstore.Memory
	engine *workflow.Engine
	stop   func()
}

func (s *testServer) serve(steps ...workflow.Step) {
	s.t.Helper()
	actions, err := Standard(Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.engine, err = workflow.New(s.store, []workflow.Flow{{Name: "F", Steps: steps}},
		workflow.Options{Actions: actions, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.engine.Serve(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	}
	synctest.Wait()
}

func (s *testServer) start() string {
	s.t.Helper()
	run, err := s.engine.Start(s.t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c1", RequestID: "1"})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return run.ID
}

func (s *testServer) send(run, id, name, actor, payload string) {
	s.t.Helper()
	if err := s.engine.Send(s.t.Context(), run, runtype.Signal{ID: id, Name: name, Actor: actor, Payload: json.RawMessage(payload)}); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // for waits of a nanosecond
	synctest.Wait()
}

// waitForPhase checks the phase, the fault and the current wait of a run, and returns the run.
func (s *testServer) waitForPhase(run string, phase runtype.Phase, code, message string) *runtype.Run {
	s.t.Helper()
	synctest.Wait()
	r, err := s.engine.Get(s.t.Context(), run)
	if err != nil {
		s.t.Fatal(err)
	}
	gotCode, gotMessage := "", ""
	if r.Fault != nil {
		gotCode, gotMessage = string(r.Fault.Code), r.Fault.Message
	} else if at := r.Current(); at != nil && at.Wait != nil {
		gotCode, gotMessage = at.Wait.Reason, at.Wait.Message
	}
	if r.Phase != phase || gotCode != code || !strings.Contains(gotMessage, message) {
		s.t.Fatalf("run is %s, %s: %s; want %s, %s: %s", r.Phase, gotCode, gotMessage, phase, code, message)
	}
	return r
}

func step(name, uses, with string) workflow.Step {
	return workflow.Step{Name: name, Uses: uses, With: json.RawMessage(with)}
}

func TestWaitsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{t: t, store: runstore.NewMemory()}
		flow := []workflow.Step{
			step("Rest", "sleep", `{"for": "1h"}`),
			step("Caught", "signal", `{"name": "caught-up", "schema": {"type": "object"}, "deadline": "10m"}`),
			step("Go", "approval", `{"message": "Switch?", "count": 2, "deadline": "2h"}`),
		}
		restart := func() {
			s.stop()
			s.serve(flow...)
		}
		s.serve(flow...)
		run := s.start()
		s.waitForPhase(run, runtype.Waiting, "Sleeping", "for 1h")
		time.Sleep(59 * time.Minute)
		restart()
		s.waitForPhase(run, runtype.Waiting, "Sleeping", "for 1h")
		time.Sleep(time.Minute)
		s.waitForPhase(run, runtype.Waiting, "AwaitingSignal", "signal caught-up")
		s.send(run, "1", "caught-up", "probe", `"no object"`)
		s.waitForPhase(run, runtype.Waiting, "SignalRefused", "must be object, not string")
		s.send(run, "2", "caught-up", "probe", `{"lag": 0}`)
		s.waitForPhase(run, runtype.Waiting, "AwaitingApproval", "Switch?")
		s.send(run, "3", "approval", "ann", `"approve"`)
		s.send(run, "4", "approval", "ann", `"approve"`)
		s.waitForPhase(run, runtype.Waiting, "AwaitingApproval", "1 of 2 approve: ann")
		restart()
		s.send(run, "5", "approval", "bob", `{"choice": "approve", "comment": "fine"}`)
		r := s.waitForPhase(run, runtype.Succeeded, "", "")
		if got := string(r.Step("Go").Output); got != `{"choice":"approve","actors":["ann","bob"],"comments":{"bob":"fine"}}` {
			t.Errorf("output %s", got)
		}
		s.stop()
	})
}

func TestDeadlineOfASignalCountsFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{t: t, store: runstore.NewMemory()}
		flow := []workflow.Step{step("Caught", "signal", `{"name": "x", "deadline": "10m"}`)}
		s.serve(flow...)
		run := s.start()
		time.Sleep(6 * time.Minute)
		s.stop()
		s.serve(flow...)
		s.send(run, "1", "another", "probe", `1`) // a poll in between changes nothing
		time.Sleep(3 * time.Minute)
		s.waitForPhase(run, runtype.Waiting, "AwaitingSignal", "signal x")
		time.Sleep(time.Minute)
		s.waitForPhase(run, runtype.Paused, "WAIT_EXPIRED", "signal x did not come within 10m")
		if err := s.engine.Resume(t.Context(), run, "", "", workflow.Actor{Name: "ann"}); err != nil {
			t.Fatal(err)
		}
		s.waitForPhase(run, runtype.Waiting, "AwaitingSignal", "signal x") // with its full time again
		time.Sleep(9 * time.Minute)
		s.send(run, "2", "x", "probe", `1`)
		s.waitForPhase(run, runtype.Succeeded, "", "")
		s.stop()
	})
}

func TestResumeAfterARejectionAsksAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{t: t, store: runstore.NewMemory()}
		s.serve(step("Go", "approval", `{}`))
		run := s.start()
		s.send(run, "1", "approval", "bob", `{"choice": "reject", "comment": "not today"}`)
		s.waitForPhase(run, runtype.Paused, "REJECTED", "rejected by bob: not today")
		if err := s.engine.Resume(t.Context(), run, "", "", workflow.Actor{Name: "ann"}); err != nil {
			t.Fatal(err)
		}
		s.waitForPhase(run, runtype.Waiting, "AwaitingApproval", "signal approval with one of approve, reject")
		s.send(run, "2", "approval", "bob", `"approve"`)
		s.waitForPhase(run, runtype.Succeeded, "", "")
		s.stop()
	})
}
