package backend

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gateFlow = `flowName: Gated
input: {type: object, properties: {n: {type: integer, default: 7}}}
steps:
- {stepName: Gate, wait: {signal: go, deadline: 10m}, skippable: true}
`

func gateFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate.yaml")
	if err := os.WriteFile(path, []byte(gateFlow), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, o LocalOptions) *Local {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	l, err := OpenLocal(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// working lets a backend work until the test ends.
func working(t *testing.T, b Runs) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Work(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// until reads a run until it is as wanted.
func until(t *testing.T, b Runs, id string, wanted func(view.Run) bool) view.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	changes := b.Changes(ctx, id)
	for {
		r, err := b.Run(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if wanted(r) {
			return r
		}
		<-changes
	}
}

func is(phase runtype.Phase) func(view.Run) bool {
	return func(r view.Run) bool { return r.Phase == phase }
}

// A run of a file is executed here; its input has the defaults of the schema.
func TestLocal(t *testing.T) {
	l := open(t, LocalOptions{Store: StoreOptions{Kind: "memory"}, Flows: []string{gateFile(t)}})
	working(t, l)
	r, err := l.Start(t.Context(), workflow.Request{Flow: "Gated", Subject: "demo/default/a"})
	if err != nil {
		t.Fatal(err)
	}
	r = until(t, l, r.ID, is(runtype.Waiting))
	if string(r.Input) != `{"n":7}` {
		t.Errorf("the input is %s", r.Input)
	}
	ask := workflow.RunRequest{Actor: workflow.Actor{Name: "ann", RequestID: "p"}}
	if err := l.Request(t.Context(), r.ID, runtype.VerbPause, ask); err != nil {
		t.Fatal(err)
	}
	until(t, l, r.ID, is(runtype.Paused))
	if err := l.Request(t.Context(), r.ID, runtype.VerbResume, workflow.RunRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Send(t.Context(), r.ID, runtype.Signal{ID: "1", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	until(t, l, r.ID, is(runtype.Succeeded))
	events, err := l.History(t.Context(), r.ID, 0, 0)
	if err != nil || len(events) < 8 {
		t.Errorf("%d events, %v", len(events), err)
	}
	if err := l.Request(t.Context(), r.ID, runtype.VerbSkip, workflow.RunRequest{Step: "Gate"}); fault.Of(err) != workflow.RunFinished {
		t.Errorf("a skip after the end: %v", err)
	}
	if _, err := l.Fault(t.Context(), "STORE_FUL"); fault.Of(err) != route.FaultNotFound {
		t.Errorf("a mistyped code: %v", err)
	}
}

// A client of a file takes over when its owner has gone; what it asked for before is not lost.
func TestSuccession(t *testing.T) {
	store := StoreOptions{DSN: filepath.Join(t.TempDir(), "pawl.db")}
	file := gateFile(t)
	owner, err := OpenLocal(t.Context(), LocalOptions{Store: store, Flows: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	client := open(t, LocalOptions{Store: store, Flows: []string{file}})
	if !owner.Alone() || client.Alone() {
		t.Fatal("the first one that opens a file owns it")
	}
	working(t, client)
	r, err := client.Start(t.Context(), workflow.Request{Flow: "Gated", Subject: "demo/default/a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Send(t.Context(), r.ID, runtype.Signal{ID: "1", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, client, r.ID, is(runtype.Succeeded))
}

// A reader never owns a file.
func TestReader(t *testing.T) {
	store := StoreOptions{DSN: filepath.Join(t.TempDir(), "pawl.db")}
	reader := open(t, LocalOptions{Store: store, Client: true})
	if reader.Alone() {
		t.Error("a reader owns the file")
	}
	objects, err := reader.Objects()
	if err != nil {
		t.Fatal(err)
	}
	o, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: "thing", Namespace: "default", Name: "a"}, Spec: []byte(`{}`)})
	if err != nil || o.Generation != 1 {
		t.Errorf("a reader applies an object: %+v, %v", o, err)
	}
	if _, err := reader.PlanObject(t.Context(), o.Ref, nil); fault.Of(err) != MachineUnknown {
		t.Errorf("a plan without a machine: %v", err)
	}
}
