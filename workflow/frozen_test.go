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
)

// frozenStore is a store whose process is suspended after a save. The last save and all later calls
// return after the process continues.
type frozenStore struct {
	*Memory
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

func (s *frozenStore) Save(ctx context.Context, save *Save) error {
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

func (s *frozenStore) Claim(_ context.Context, c Claim) (Claimed, error) {
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
				memory := NewMemory()
				var mu sync.Mutex
				begun := map[string][]string{}
				serve := func(store Store, name string) (*Engine, func()) {
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
				if err != nil || got.Phase != Succeeded {
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

// TestFinding3LeaseByTwoClocks: the lease ends by the clock that shows more time. A gap ends the
// term. A call that began before the gap belongs to no term.
func TestFinding3LeaseByTwoClocks(t *testing.T) {
	start := instantNow()
	asleep := func(awake, whole time.Duration) instant { return instant{start.at.Add(awake), start.boot + whole} }
	l := &lease{duration: 15 * time.Second}
	if l.termOf(start) != 0 || l.remaining(0) != 0 {
		t.Error("a worker without a lease has one")
	}
	first := l.extend(start, 0)
	for _, c := range []struct {
		awake, whole time.Duration
		term         int
	}{{time.Second, time.Second, first}, {time.Second, 16 * time.Second, 0}, {16 * time.Second, 16 * time.Second, 0}, {16 * time.Second, time.Second, 0}} {
		if got := l.termOf(asleep(c.awake, c.whole)); got != c.term {
			t.Errorf("after %s awake of %s: term %d, want %d", c.awake, c.whole, got, c.term)
		}
	}
	if left := l.remaining(first); left <= 0 || left > l.duration {
		t.Errorf("%s are left", left)
	}
	if l.extend(asleep(10*time.Second, 10*time.Second), 0) != first {
		t.Error("a renewal in time starts a new term")
	}
	second := l.extend(asleep(11*time.Second, 26*time.Second), 0) // the machine slept
	if second == first || l.remaining(first) != 0 {
		t.Error("a renewal behind a gap goes on with the old term")
	}
	if l.extend(asleep(10*time.Second, 12*time.Second), 0) == second {
		t.Error("a call from before the gap belongs to the new term")
	}
	l.lose()
	if l.remaining(second) != 0 {
		t.Error("a lost lease holds")
	}
	if third := l.extend(asleep(12*time.Second, 27*time.Second), 0); third == second || third == first {
		t.Error("a lost term goes on")
	}
}
