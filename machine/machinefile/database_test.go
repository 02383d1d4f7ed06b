package machinefile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A database lives through its reference lifecycle, from files alone.
func TestADatabaseLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		objects := control.NewMemory()
		offered, err := action.Standard(action.Options{Status: driver.Status{Objects: objects}})
		if err != nil {
			t.Fatal(err)
		}
		flows, err := flowfile.Load([]string{examples + "/flows"}, flowfile.Options{Actions: offered})
		if err != nil {
			t.Fatal(err)
		}
		notifier, m := &driver.Notifier{}, database(t)
		engine, err := workflow.New(runstore.NewMemory(), append(flows.Flows(), m.Flows...),
			workflow.Options{Actions: offered, Hooks: []workflow.Hook{notifier.Hook()}, Object: driver.Object(objects), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		var moves []string
		d, err := driver.New(driver.Options{Objects: objects, Engine: engine, Notifier: notifier, Machines: []machine.Standalone{m}, Actions: offered, Logger: quiet,
			Moved: func(_ control.Ref, move machine.Move) { moves = append(moves, string(move.To.State)) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = engine.Serve(ctx) })
		wg.Go(func() { _ = d.Serve(ctx) })
		defer wg.Wait()
		defer cancel()

		ref := control.Ref{Kind: "database", Namespace: "default", Name: "c1"}
		steps := []struct {
			spec, states string
		}{
			{`{"class": "small", "readers": 1}`, "[Creating Running]"},
			{`{"class": "big", "readers": 3, "version": "17", "writer": "ro-1"}`,
				"[Switching Running ChangingSpecification Running Upgrading Running Locking ScalingOut Running]"},
			{`{"class": "big", "readers": 3, "version": "17", "writer": "ro-1", "restart": "1", "node": "n2", "rebuild": "1", "parameters": {"a": 1}}`,
				"[Recreating Running Restarting Running Migrating Running ModifyingParameters Running]"},
		}
		for _, step := range steps {
			moves = nil
			if _, err := objects.Apply(t.Context(), control.Object{Ref: ref, Spec: json.RawMessage(step.spec)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
			synctest.Wait()
			if got := fmt.Sprint(moves); got != step.states {
				o, _ := objects.Get(t.Context(), ref)
				t.Fatalf("%s\nwalked %s\n  want %s\n%s", step.spec, got, step.states, o.Status)
			}
		}
		moves = nil
		if _, err := objects.Delete(t.Context(), ref, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := objects.Get(t.Context(), ref); !errors.Is(err, control.NotFound) || fmt.Sprint(moves) != "[Deleting Deleted]" {
			t.Fatalf("after the deletion: %v, walked %v", err, moves)
		}
	})
}
