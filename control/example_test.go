package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/outcome"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := control.NewMemory()
	ref := control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}
	if _, err := store.Apply(ctx, control.Object{Ref: ref, Spec: json.RawMessage(`{"readers": 2}`)}); err != nil {
		fmt.Println(err)
		return
	}

	log := slog.New(slog.DiscardHandler)
	demos := control.NewShared(store.Feed("demo"), control.SharedOptions[control.Object]{Name: "demo", Log: log})
	c := control.Controller{
		Name:     "demo",
		Log:      log,
		Triggers: []control.Trigger{control.For(demos, control.DesiredChanged)},
		Report:   control.ReportFault(store, demos.Cache()),
		Reconcile: func(ctx context.Context, key string) outcome.Outcome {
			o, ok := demos.Cache().Get(key)
			if !ok {
				return outcome.Done()
			}
			o.Status = json.RawMessage(`{"readers": 2}`)
			if _, err := store.Update(ctx, o); err != nil {
				return outcome.Fail(err)
			}
			cancel() // enough for an example
			return outcome.Done()
		},
	}
	if err := control.Run(ctx, []control.Runner{demos}, []control.Runner{c}); err != nil {
		fmt.Println(err)
	}
	o, err := store.Get(context.Background(), ref)
	fmt.Println(o.Ref, string(o.Status), err)
	// Output: demo/default/c1 {"readers":2} <nil>
}

func ExamplePoll() {
	vms := &control.Poll[string]{Items: func(context.Context) (map[string]string, error) {
		return map[string]string{"vm-1": "Running", "vm-2": "Stopped"}, nil
	}}
	items, _, err := vms.List(context.Background())
	for _, item := range items {
		fmt.Println(item.Key, item.Value)
	}
	fmt.Println(err)
	// Output:
	// vm-1 Running
	// vm-2 Stopped
	// <nil>
}
