package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// says returns the function of a step that prints a text.
func says(text string) workflow.Func {
	return func(context.Context, *workflow.Task) outcome.Outcome {
		fmt.Println(text)
		return outcome.Done()
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Define a flow, start a run, and let a worker execute it.
func ExampleEngine() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	create := workflow.Flow{Name: "Create", Steps: []workflow.Step{
		{Name: "Storage", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			var in struct{ Size int }
			if err := t.Input(&in); err != nil {
				return outcome.Fail(err)
			}
			// Key is the same for all attempts: a receiver that gets it twice acts once.
			return outcome.Fail(t.Set(map[string]any{"volume": "v1", "size": in.Size}))
		}},
		{Name: "Writer", Timeout: time.Minute, Retry: workflow.Retry{Attempts: 3}, Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			var made struct {
				Volume string
				Size   int
			}
			if err := t.Output("Storage", &made); err != nil {
				return outcome.Fail(err)
			}
			fmt.Printf("writer on %s of %d GiB\n", made.Volume, made.Size)
			return outcome.Done()
		}},
	}}
	ended := make(chan workflow.RunInfo, 1)
	engine := must(workflow.New(runstore.NewMemory(), []workflow.Flow{create}, workflow.Options{
		Hooks: []workflow.Hook{{Name: "ended", OnEvent: func(r workflow.RunInfo, e runtype.Event) {
			if e.Kind == runtype.RunSucceeded {
				ended <- r
			}
		}}},
	}))
	served := make(chan error)
	go func() { served <- engine.Serve(ctx) }()

	request := workflow.Request{Flow: "Create", Subject: "demo/default/c1", RequestID: "1", Input: json.RawMessage(`{"size": 20}`)}
	run := must(engine.Start(ctx, request))
	again := must(engine.Start(ctx, request)) // sent twice: one run
	fmt.Println(run.ID == again.ID)

	fmt.Println((<-ended).Subject)
	stop()
	fmt.Println(<-served)
	// Unordered output:
	// true
	// writer on v1 of 20 GiB
	// demo/default/c1
	// <nil>
}

// A step waits for a message from outside. The waiting run is a row of the store and needs no
// goroutine. Advance executes the due steps synchronously.
func ExampleTask_Signal() {
	ctx := context.Background()
	flow := workflow.Flow{Name: "Switch", Steps: []workflow.Step{
		{Name: "CaughtUp", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			s, ok := t.Signal("caught-up")
			if !ok {
				return outcome.Wait(0, "CatchingUp", "the reader is behind")
			}
			return outcome.Fail(t.Set(s.Payload))
		}},
	}}
	engine := must(workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{}))
	run := must(engine.Start(ctx, workflow.Request{Flow: "Switch", Subject: "demo/default/c1"}))
	fmt.Println(engine.Advance(ctx, run.ID).Reason())

	signal := runtype.Signal{ID: "ev-91", Name: "caught-up", Payload: json.RawMessage(`{"lag":0}`), Actor: "replica"}
	if err := engine.Send(ctx, run.ID, signal); err != nil { // durable on return; a second signal with the same id is ignored
		panic(err)
	}
	fmt.Println(engine.Advance(ctx, run.ID))
	run = must(engine.Get(ctx, run.ID))
	fmt.Println(run.Phase, string(run.Step("CaughtUp").Output))
	// Output:
	// CatchingUp
	// done
	// Succeeded {"lag":0}
}

// The step Build prints what its command prints, and logs.
func build(ctx context.Context, t *workflow.Task) outcome.Outcome {
	cmd := exec.CommandContext(ctx, "echo", "compiling")
	cmd.Stdout, cmd.Stderr = t.Stdout(), t.Stderr()
	if err := cmd.Run(); err != nil {
		return outcome.Fail(err)
	}
	t.Logger().InfoContext(ctx, "compiled", "warnings", 0)
	return outcome.Done()
}

// What a step prints is kept with its run.
func ExampleTask_Stdout() {
	ctx := context.Background()
	store := runstore.NewMemory()
	flows := []workflow.Flow{{Name: "Release", Steps: []workflow.Step{{Name: "Build", Do: build}}}}
	engine := must(workflow.New(store, flows, workflow.Options{Logger: slog.New(slog.DiscardHandler)}))
	run := must(engine.Start(ctx, workflow.Request{Flow: "Release", Subject: "demo/default/c1"}))
	engine.Advance(ctx, run.ID)
	for _, chunk := range must(store.ReadLogs(ctx, run.ID, runstore.LogQuery{})).Chunks {
		for _, line := range chunk.Lines {
			fmt.Println(chunk.Step, chunk.Attempt, line.Stream, line.Text)
		}
	}
	// Output:
	// Build 1 stdout compiling
	// Build 1 log level=INFO msg=compiled warnings=0
}

// Declare a failure once, together with its remedy.
var nodeFull = fault.Declare(fault.Kind{
	Code: "EXAMPLE_NODE_FULL", Class: fault.Blocked,
	Title:  "no node has room",
	Remedy: "Add a node, then resume.",
})

// A healer applies the remedy of a fault, and the run continues.
func ExampleHealer() {
	ctx := context.Background()
	nodes := 0
	flow := workflow.Flow{Name: "Place", Steps: []workflow.Step{
		{Name: "Pod", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if nodes == 0 {
				return outcome.Fail(nodeFull.Errorf("0 of 0 nodes have room"))
			}
			return outcome.Done()
		}},
	}}
	addNode := func(_ context.Context, t *workflow.Task) outcome.Outcome {
		fmt.Println("healing", t.Fault().Code)
		nodes++
		return outcome.Done()
	}
	engine := must(workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{
		Healers: map[fault.Code]workflow.Healer{nodeFull.Code: {Do: addNode, Limits: workflow.Limits{Attempts: 2}}},
		Logger:  slog.New(slog.DiscardHandler),
	}))
	run := must(engine.Start(ctx, workflow.Request{Flow: "Place", Subject: "demo/default/c1"}))
	fmt.Println(engine.Advance(ctx, run.ID))
	// Output:
	// healing EXAMPLE_NODE_FULL
	// done
}

// A run that is paused by a fault shows its remedy. Here it is undone.
func ExampleEngine_Cancel() {
	ctx := context.Background()
	flow := workflow.Flow{Name: "Create",
		Steps: []workflow.Step{
			{Name: "Volume", Do: says("make the volume"), Undo: says("remove the volume")},
			{Name: "Address", Do: says("take the address"), Undo: says("give the address back")},
			{Name: "Pod", Do: func(context.Context, *workflow.Task) outcome.Outcome {
				return outcome.Fail(nodeFull.Errorf("0 of 3 nodes have room"))
			}},
		},
		Finally: []workflow.Step{{Name: "Report", Do: says("report")}},
	}
	engine := must(workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{}))
	run := must(engine.Start(ctx, workflow.Request{Flow: "Create", Subject: "demo/default/c1"}))
	engine.Advance(ctx, run.ID)
	run = must(engine.Get(ctx, run.ID))
	kind, _ := fault.Lookup(string(run.Fault.Code))
	fmt.Println(run.Phase, kind.Code, "-", kind.Remedy)

	err := engine.Cancel(ctx, run.ID, runtype.Undo, false, workflow.Actor{Name: "ann", Reason: "wrong class"})
	if err != nil {
		panic(err)
	}
	engine.Advance(ctx, run.ID)
	fmt.Println(must(engine.Get(ctx, run.ID)).Phase)
	// Output:
	// make the volume
	// take the address
	// Paused EXAMPLE_NODE_FULL - Add a node, then resume.
	// give the address back
	// remove the volume
	// report
	// Cancelled
}

// Test a step without an engine.
func ExampleNewTask() {
	step := func(_ context.Context, t *workflow.Task) outcome.Outcome {
		var in struct{ Name string }
		if err := t.Input(&in); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Fail(t.Set("made " + in.Name + " for " + t.Key()))
	}
	task := workflow.NewTask(context.Background(), workflow.TaskFacts{Run: "r1", Step: "Volume", Input: json.RawMessage(`{"name": "v1"}`)})
	fmt.Println(step(context.Background(), task), string(task.Result()))
	// Output:
	// done "made v1 for r1/Volume/0"
}

// A flow has a result. The caller waits for it.
func ExampleEngine_Await() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	count := workflow.Flow{Name: "Count", Steps: []workflow.Step{
		{Name: "Letters", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			var name string
			if err := t.Input(&name); err != nil {
				return outcome.Fail(err)
			}
			return outcome.Fail(t.Set(len(name)))
		}},
	}, Result: workflow.Result(func(v workflow.View) (int, error) { return workflow.OutputOf[int](v, "Letters") })}
	engine := must(workflow.New(runstore.NewMemory(), []workflow.Flow{count}, workflow.Options{}))
	go func() { _ = engine.Serve(ctx) }()

	run := must(engine.Start(ctx, workflow.Request{Flow: "Count", Subject: "demo/default/c1", Input: json.RawMessage(`"ann"`)}))
	run = must(engine.Await(ctx, run.ID)) // until the run has ended or is paused
	letters, err := workflow.ResultOf[int](run)
	fmt.Println(letters, err)
	// Output:
	// 3 <nil>
}
