package runstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// serving returns an engine that runs on a store with the test API server.
func serving(t *testing.T, kind kuberuns.Kind, flows ...workflow.Flow) (*workflow.Engine, *kubetest.FaultyTransport) {
	t.Helper()
	wire := kubetest.NewFaultyTransport(1)
	s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: wire.Config(kubetest.NewServer(t).Config()), Kind: kind, Namespace: "space", SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return serve(t, s, flows), wire
}

// serve runs an engine on a store until the test ends.
func serve(t *testing.T, s *kuberuns.Store, flows []workflow.Flow) *workflow.Engine {
	t.Helper()
	e, err := workflow.New(s, flows, workflow.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

func await(t *testing.T, e *workflow.Engine, id string, phase runtype.Phase) *runtype.Run {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r, err := e.Get(t.Context(), id)
		if err == nil && r.Phase == phase {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("run %s is not %s within a minute: %+v, %v", id, phase, r, err)
		}
	}
}

// A run that is too large for the API server is paused with code and remedy instead of
// being retried. Other runs continue, and so does this one when its output is smaller.
func TestARunThatIsTooLargeIsPaused(t *testing.T) {
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			var size, calls atomic.Int64
			size.Store(60 << 10)
			e, wire := serving(t, kind,
				workflow.Flow{Name: "Talks", Steps: []workflow.Step{
					{Name: "First", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }},
					{Name: "Second", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
						calls.Add(1)
						return outcome.Fail(task.Set(strings.Repeat("x", int(size.Load()))))
					}},
				}},
				workflow.Flow{Name: "Quiet", Steps: []workflow.Step{{Name: "Only", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}})
			wire.Next(func(req *http.Request) *kubetest.Failure {
				if large := kubetest.Large; req.Method != http.MethodGet && req.ContentLength > 50<<10 {
					return &large
				}
				return nil
			})
			r, err := e.Start(t.Context(), workflow.Request{Flow: "Talks", Subject: "kind/space/large"})
			if err != nil {
				t.Fatal(err)
			}
			paused := await(t, e, r.ID, runtype.Paused)
			if f := paused.Fault; f == nil || f.Code != runtype.OutputTooLarge.Code || f.Step != "Second" {
				t.Errorf("paused with %+v", paused.Fault)
			}
			if err := e.Health(); err != nil {
				t.Errorf("the store is said to be in trouble: %v", err)
			}
			other, err := e.Start(t.Context(), workflow.Request{Flow: "Quiet", Subject: "kind/space/other"})
			if err != nil {
				t.Fatal(err)
			}
			await(t, e, other.ID, runtype.Succeeded)
			if n := calls.Load(); n != 1 {
				t.Errorf("the step was called %d times before anybody resumed it", n)
			}
			size.Store(10)
			if err := e.Resume(t.Context(), r.ID, workflow.FromFailed, "", workflow.Actor{Name: "ann"}); err != nil {
				t.Fatal(err)
			}
			if ended := await(t, e, r.ID, runtype.Succeeded); len(ended.Step("Second").Output) != 12 || calls.Load() != 2 {
				t.Errorf("after %d calls: %+v", calls.Load(), ended.Step("Second"))
			}
		})
	}
}

// Input and outputs of a run may have 512 KiB on Kubernetes. The step that exceeds that
// fails when it sets its output.
func TestOutputsOfARunAreBounded(t *testing.T) {
	flow := workflow.Flow{Name: "Full"}
	for i := range 10 {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("S", i), Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			return outcome.Fail(task.Set(strings.Repeat("x", 60<<10)))
		}})
	}
	e, _ := serving(t, kuberuns.Run, flow)
	r, err := e.Start(t.Context(), workflow.Request{Flow: "Full", Subject: "kind/space/full"})
	if err != nil {
		t.Fatal(err)
	}
	paused := await(t, e, r.ID, runtype.Paused)
	if f := paused.Fault; f == nil || f.Code != runtype.OutputTooLarge.Code || f.Step != "S8" {
		t.Errorf("paused with %+v", paused.Fault)
	}
}

// The unread signals of a run may have 256 KiB. A larger signal is refused.
func TestUnreadSignalsAreBounded(t *testing.T) {
	e, _ := serving(t, kuberuns.Run, workflow.Flow{Name: "Wait", Steps: []workflow.Step{{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}}}})
	r, err := e.Start(t.Context(), workflow.Request{Flow: "Wait", Subject: "kind/space/a"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, e, r.ID, runtype.Waiting)
	send := func(i int) error {
		return e.Send(t.Context(), r.ID, runtype.Signal{ID: fmt.Sprint(i), Name: "other", Payload: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)})
	}
	for i := range 4 {
		if err := send(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(4); fault.Of(err) != runstore.QueueFull {
		t.Errorf("the fifth signal of 60 KiB: %v", err)
	}
	if err := send(2); err != nil {
		t.Errorf("one that is known already: %v", err)
	}
}
