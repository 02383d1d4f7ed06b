package workflow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// refusingStore performs the save of the progress, loses its answer, and refuses all later saves.
// It accepts releases of leases.
type refusingStore struct {
	*runstore.Memory
	broken atomic.Bool
}

func (f *refusingStore) Save(ctx context.Context, s *runstore.Save) error {
	if f.broken.Load() {
		return errors.New("no space")
	}
	if step := s.Run.Step("S"); step != nil && step.Progress != nil {
		f.broken.Store(true)
		return errors.Join(f.Memory.Save(ctx, s), errors.New("no answer"))
	}
	return f.Memory.Save(ctx, s)
}

// A worker drains while the store refuses its saves. It releases a waiting run whose poll was open
// and has reported progress. The next worker polls again.
func TestAWaitWhosePollWasOpenIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusingStore{Memory: runstore.NewMemory()}
		looks, looking := 0, make(chan struct{})
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			switch looks++; looks {
			case 1:
				return outcome.Wait(10*time.Second, "Waiting", "for a look")
			case 2:
				task.Progress(1, 2, "half")
				time.Sleep(time.Second)
				close(looking)
				return outcome.Done()
			}
			return outcome.Done()
		}}}}
		serve := func(store runstore.Store) (*workflow.Engine, func()) {
			e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- e.Serve(ctx) }()
			return e, func() { cancel(); <-done }
		}
		e, stop := serve(store)
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: "demo/default/c"})
		if err != nil {
			t.Fatal(err)
		}
		<-looking
		if got, _ := e.Get(t.Context(), run.ID); got.Phase != runtype.Waiting || got.Step("S").Progress == nil {
			t.Fatalf("no poll was open: %+v", got)
		}
		stop()
		_, stop = serve(store.Memory)
		defer stop()
		time.Sleep(time.Minute)
		if got, _ := e.Get(t.Context(), run.ID); got.Phase != runtype.Succeeded {
			t.Errorf("%s at %v, due %s, after %d looks", got.Phase, got.Current(), got.NextAt, looks)
		}
	})
}
