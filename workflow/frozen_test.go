package workflow

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// frozenStore is a store whose process is suspended after a save. The last save and all later calls
// return after the process continues.
type frozenStore struct {
	*runstore.Memory
	frozen atomic.Bool
	saves  atomic.Int32
	at     int32 // number of the save after which the process is suspended
	long   time.Duration
}

func (s *frozenStore) thawed() {
	for s.frozen.Load() {
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *frozenStore) Save(ctx context.Context, save *runstore.Save) error {
	err := s.Memory.Save(ctx, save)
	if s.saves.Add(1) == s.at {
		s.frozen.Store(true)
		time.Sleep(s.long)
		s.frozen.Store(false)
	}
	return err
}

func (s *frozenStore) Renew(_ context.Context, worker string, lease time.Duration) error {
	s.thawed()
	return s.Memory.Renew(context.Background(), worker, lease)
}

func (s *frozenStore) Claim(_ context.Context, c runstore.Claim) (runstore.Claimed, error) {
	s.thawed()
	return s.Memory.Claim(context.Background(), c)
}

// TestFinding3ThawedWorkerBeginsNothing: a worker is suspended between the save that opens an
// attempt and its launch, for longer than its lease. Meanwhile another worker executes the step.
// When the first worker continues, it starts nothing, whichever of its goroutines runs first.
//
// It covers promise 2.
func TestFinding3ThawedWorkerBeginsNothing(t *testing.T) {
	for at := int32(1); at <= 4; at++ {
		for _, long := range []time.Duration{16 * time.Second, 22 * time.Second, 5 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				memory := runstore.NewMemory()
				var mu sync.Mutex
				begun := map[string][]string{}
				serve := func(store runstore.Store, name string) (*Engine, func()) {
					step := func(_ context.Context, task *Task) outcome.Outcome {
						mu.Lock()
						defer mu.Unlock()
						begun[task.Step()] = append(begun[task.Step()], name)
						return outcome.Done()
					}
					e, err := New(store, []Flow{{Name: "F", Steps: []Step{{Name: "A", Do: step}, {Name: "B", Do: step}, {Name: "C", Do: step}}}},
						Options{Worker: name, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan struct{})
					go func() { _ = e.Serve(ctx); close(done) }()
					synctest.Wait()
					return e, func() { cancel(); <-done }
				}
				a, stopA := serve(&frozenStore{Memory: memory, at: at, long: long}, "a")
				defer stopA()
				run, err := a.Start(t.Context(), Request{Flow: "F", Subject: "demo/default/c1", RequestID: "1"})
				if err != nil {
					t.Fatal(err)
				}
				_, stopB := serve(memory, "b")
				defer stopB()
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				got, _, err := memory.Load(t.Context(), run.ID)
				if err != nil || got.Phase != runtype.Succeeded {
					t.Fatal(err, got.Phase)
				}
				for name, by := range begun {
					if len(by) != 1 {
						t.Errorf("frozen for %s behind save %d: %s was started by %v", long, at, name, by)
					}
				}
			})
		}
	}
}
