package workflow_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// partitionedStore is a store that one worker cannot reach for a while: its calls block until that
// time is over or their context ends.
type partitionedStore struct {
	*runstore.Memory
	mu    sync.Mutex
	until time.Time
}

func (c *partitionedStore) partition(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(d)
}

func (c *partitionedStore) reach(ctx context.Context) error {
	for {
		c.mu.Lock()
		left := time.Until(c.until)
		c.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(left):
		}
	}
}

func (c *partitionedStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	return c.Memory.Create(ctx, r, events)
}

func (c *partitionedStore) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	if err := c.reach(ctx); err != nil {
		return nil, nil, err
	}
	return c.Memory.Load(ctx, id)
}

func (c *partitionedStore) Save(ctx context.Context, s *runstore.Save) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	return c.Memory.Save(ctx, s)
}

func (c *partitionedStore) Claim(ctx context.Context, claim runstore.Claim) (runstore.Claimed, error) {
	if err := c.reach(ctx); err != nil {
		return runstore.Claimed{}, err
	}
	return c.Memory.Claim(ctx, claim)
}

func (c *partitionedStore) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	if err := c.reach(ctx); err != nil {
		return runstore.Loaded{}, err
	}
	return c.Memory.ClaimRun(ctx, worker, id, lease)
}

func (c *partitionedStore) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	return c.Memory.ReleaseRun(ctx, worker, r, next)
}

func (c *partitionedStore) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	return c.Memory.Renew(ctx, worker, lease)
}

// overlapChecker observes every attempt of every run of two competing workers.
type overlapChecker struct {
	mu     sync.Mutex
	open   map[string]int
	done   map[string]int
	epochs map[string]int64
	wrong  []string
}

func (a *overlapChecker) do(ctx context.Context, t *workflow.Task) outcome.Outcome {
	a.mu.Lock()
	if a.open[t.Key()]++; a.open[t.Key()] > 1 {
		a.wrong = append(a.wrong, "two copies of "+t.Key())
	}
	if t.Epoch() < a.epochs[t.RunID()] {
		a.wrong = append(a.wrong, fmt.Sprintf("epoch %d of %s after %d", t.Epoch(), t.RunID(), a.epochs[t.RunID()]))
	}
	a.epochs[t.RunID()] = t.Epoch()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.open[t.Key()]--
		a.mu.Unlock()
	}()
	h := fnv.New32a()
	h.Write([]byte(t.Step()))
	select {
	case <-ctx.Done():
		return outcome.Fail(context.Cause(ctx))
	case <-time.After(time.Duration(h.Sum32()%20) * time.Second):
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[t.Key()]++
	return outcome.Fail(t.Set(t.Step()))
}

// bindTo sets the functions of drawn steps to that of an overlapChecker.
func bindTo(steps []workflow.Step, a *overlapChecker) []workflow.Step {
	out := bind(steps, &effectLog{})
	var fill func(steps []workflow.Step)
	fill = func(steps []workflow.Step) {
		for i := range steps {
			s := &steps[i]
			s.Retry.Attempts = 1 // errors of the store never count
			if s.Do != nil {
				s.Do = a.do
			}
			for _, end := range []*workflow.Step{s.Open, s.Close} {
				if end != nil {
					end.Do = a.do
				}
			}
			fill(s.Steps)
		}
	}
	fill(out)
	return out
}

// TestTwoWorkersFight: each of two workers on one store loses the connection to it at random for
// longer than the lease. Meanwhile the runs are paused, resumed, signalled and touched at random.
// No step runs twice at the same time, epochs only increase, and each run succeeds with every step
// done.
func TestTwoWorkersFight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := drawSteps(rt, 1, "/")
		child := drawSteps(rt, 2, "child/")
		type disruption struct {
			at   time.Duration
			kind string
		}
		var disruptions []disruption
		for range rapid.IntRange(0, 8).Draw(rt, "blows") {
			disruptions = append(disruptions, disruption{
				time.Duration(rapid.IntRange(0, 60).Draw(rt, "after")) * time.Second,
				rapid.SampledFrom([]string{"cut a", "cut b", "pause", "resume", "signal", "touch", "restart a"}).Draw(rt, "kind"),
			})
		}
		a := &overlapChecker{open: map[string]int{}, done: map[string]int{}, epochs: map[string]int64{}}
		synctest.Test(t, func(t *testing.T) {
			flows := []workflow.Flow{
				{Name: "Top", Steps: []workflow.Step{
					{Name: "Body", Steps: bindTo(body, a)},
					{Name: "Sub", Flow: "Child"},
					{Name: "Go", Wait: &workflow.WaitFor{Signal: "go"}},
					{Name: "Poll", Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
						if w := task.Waited(); w != nil && time.Since(w.Since) > 25*time.Second {
							return outcome.Done()
						}
						return outcome.Wait(10*time.Second, "NotYet", "not yet")
					}},
				}, Finally: bindTo([]workflow.Step{{Name: "Finally", Do: drawn}}, a)},
				{Name: "Child", Steps: bindTo(child, a)},
			}
			memory := runstore.NewMemory()
			stores := map[string]*partitionedStore{"a": {Memory: memory}, "b": {Memory: memory}}
			_, stopA := worker(t, stores["a"], flows, workflow.Options{Attempts: 2})
			_, stopB := worker(t, stores["b"], flows, workflow.Options{Attempts: 2})
			face, err := workflow.New(memory, flows, workflow.Options{Logger: quiet()})
			want(t, err, error(nil))
			var ids []string
			for i := range 3 {
				run, err := face.Start(t.Context(), workflow.Request{Flow: "Top", Subject: fmt.Sprint("s", i%2), RequestID: fmt.Sprint(i)})
				want(t, err, error(nil))
				ids = append(ids, run.ID)
			}
			for i, disruption := range disruptions {
				time.Sleep(disruption.at)
				id, by := ids[i%len(ids)], workflow.Actor{Name: "eve", RequestID: fmt.Sprint("blow", i)}
				switch disruption.kind {
				case "cut a", "cut b":
					stores[strings.TrimPrefix(disruption.kind, "cut ")].partition(time.Duration(20+i) * time.Second)
				case "pause":
					_ = face.Pause(t.Context(), id, by)
					_ = face.Pause(t.Context(), id, by) // sent twice
				case "resume":
					_ = face.Resume(t.Context(), id, "", "", by)
				case "signal":
					_ = face.Send(t.Context(), id, runtype.Signal{ID: "early", Name: "go"})
				case "touch":
					_ = face.Touch(t.Context(), fmt.Sprint("s", i%2))
				case "restart a":
					stopA()
					_, stopA = worker(t, stores["a"], flows, workflow.Options{Attempts: 2})
				}
			}
			for n := range 20 {
				time.Sleep(5 * time.Minute)
				for _, id := range ids {
					_ = face.Send(t.Context(), id, runtype.Signal{ID: "early", Name: "go"})
					run, err := face.Get(t.Context(), id)
					want(t, err, error(nil))
					if run.Phase == runtype.Paused {
						_ = face.Resume(t.Context(), id, "", "", workflow.Actor{Name: "eve", RequestID: fmt.Sprint("on", n)})
					}
				}
			}
			stopA()
			stopB()
			for _, id := range ids {
				run, err := face.Get(t.Context(), id)
				want(t, err, error(nil))
				if run.Phase != runtype.Succeeded {
					a.wrong = append(a.wrong, fmt.Sprintf("run %s is %s: %+v %+v of %d steps, owner %q, next %v, stop %+v", id, run.Phase, run.Fault, run.Current(), run.Len(), run.Owner, run.NextAt, run.State.Stop))
				}
				for rec := range run.Steps() {
					if !rec.Phase.Settled() || rec.Failures > 0 {
						a.wrong = append(a.wrong, fmt.Sprintf("%s is %s with %d failures", rec.Name, rec.Phase, rec.Failures))
					}
				}
			}
		})
		if len(a.wrong) > 0 {
			rt.Fatalf("%s", strings.Join(a.wrong, "\n"))
		}
	})
}
