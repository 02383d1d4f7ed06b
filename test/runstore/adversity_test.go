package runstore_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// stepEffects records the effects of the steps of a test, by key.
type stepEffects struct {
	mu   sync.Mutex
	open map[string]int
	done map[string]int
	bad  []string
}

func newStepEffects() *stepEffects {
	return &stepEffects{open: map[string]int{}, done: map[string]int{}}
}

func (d *stepEffects) perform(_ context.Context, t *workflow.Task) outcome.Outcome {
	d.mu.Lock()
	if d.open[t.Key()]++; d.open[t.Key()] > 1 {
		d.bad = append(d.bad, "two copies of "+t.Key())
	}
	d.mu.Unlock()
	time.Sleep(time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[t.Key()]--
	d.done[t.Key()]++
	return outcome.Done()
}

// Conflicts, 429, 500, timeouts and lost answers in one call of ten, with two workers,
// queues, a child run and a signal: every run ends, no step runs twice at once, and a
// budget of one attempt suffices, because errors of the API server do not count as
// attempts.
func TestOneCallInTenBreaks(t *testing.T) {
	plane := suite.Plane(t)
	for _, kind := range []kuberuns.Kind{kuberuns.Run, kuberuns.ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			space := namespace(t, plane.Client())
			d := newStepEffects()
			flows := []workflow.Flow{
				{Name: "Main", Steps: []workflow.Step{
					{Name: "One", Do: d.perform, Retry: workflow.Retry{Attempts: 1}},
					{Name: "Child", Flow: "Child", Retry: workflow.Retry{Attempts: 1}},
					{Name: "Told", Wait: &workflow.WaitFor{Signal: "go"}},
					{Name: "Two", Do: d.perform, Retry: workflow.Retry{Attempts: 1}},
				}},
				{Name: "Child", Steps: []workflow.Step{{Name: "Inner", Do: d.perform, Retry: workflow.Retry{Attempts: 1}}}},
			}
			var engines []*workflow.Engine
			var stores []*kuberuns.Store
			var wires []*kubetest.FaultyTransport
			for range 2 {
				s, wire := open(t, plane.Config(), kind, space)
				stores, wires = append(stores, s), append(wires, wire)
				engines = append(engines, serve(t, s, flows, workflow.Options{Lease: 6 * time.Second}))
			}
			for _, wire := range wires {
				wire.Break(0.1)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var ids []string
			for i := range 24 {
				request := workflow.Request{Flow: "Main", Subject: fmt.Sprint("kind/space/", i%8), RequestID: fmt.Sprint(i)}
				var r *runtype.Run
				if err := kubetest.Retry(ctx, func() (err error) { r, err = engines[i%2].Start(ctx, request); return err }); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, r.ID)
				signal := runtype.Signal{ID: "s", Name: "go"}
				if err := kubetest.Retry(ctx, func() error { return engines[(i+1)%2].Send(ctx, r.ID, signal) }); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				until(t, stores[0], id, runtype.Succeeded)
			}
			broken := int64(0)
			for _, wire := range wires {
				wire.Break(0)
				broken += wire.Take().Broken
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, bad := range d.bad {
				t.Error(bad)
			}
			repeated := 0
			for _, n := range d.done {
				repeated += n - 1
			}
			if len(d.done) != 3*len(ids) || broken == 0 {
				t.Errorf("%d of %d steps were done, %d calls were broken", len(d.done), 3*len(ids), broken)
			}
			t.Logf("%d calls were broken, %d steps repeated", broken, repeated)
			for _, id := range ids { // history has no gaps
				events, err := stores[1].History(t.Context(), id, 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				for i, e := range events {
					if e.Seq != int64(i)+1 {
						t.Errorf("run %s: event %d has number %d", id, i, e.Seq)
					}
				}
			}
		})
	}
}

// A worker that pauses for longer than its lease and then continues saves nothing: another
// one has its run.
func TestAFrozenWorkerIsFenced(t *testing.T) {
	plane := suite.Plane(t)
	space := namespace(t, plane.Client())
	a, _ := open(t, plane.Config(), kuberuns.Run, space)
	b, _ := open(t, plane.Config(), kuberuns.Run, space)
	now := time.Now().UTC()
	r, err := a.Create(t.Context(), &runtype.Run{ID: "r1", Flow: "F", Subject: "kind/space/x", CreatedAt: now, NextAt: now, Seq: 1},
		[]runtype.Event{{Seq: 1, At: now, Kind: runtype.RunCreated}})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := a.Claim(t.Context(), runstore.Claim{Worker: "a", Limit: 1, Lease: time.Second})
	if err != nil || len(mine.Runs) != 1 {
		t.Fatal(mine, err)
	}
	old := mine.Runs[0].Run
	var taken runstore.Claimed
	for deadline := time.Now().Add(20 * time.Second); len(taken.Runs) == 0; {
		if taken, err = b.Claim(t.Context(), runstore.Claim{Worker: "b", Limit: 1, Lease: time.Minute}); err != nil || time.Now().After(deadline) {
			t.Fatalf("b does not get the run of a silent worker: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := taken.Runs[0].Run; got.ID != r.ID || got.Epoch <= old.Epoch {
		t.Fatalf("b has %s with epoch %d after %d", got.ID, got.Epoch, old.Epoch)
	}
	if err := a.Renew(t.Context(), "a", time.Second); err != runstore.ErrFenced {
		t.Errorf("renewal of the one given up: %v", err)
	}
	old.Phase = runtype.Succeeded
	if err := a.Save(t.Context(), &runstore.Save{Run: old}); err != runstore.ErrFenced && err != runstore.ErrConflict {
		t.Errorf("save of the one given up: %v", err)
	}
	if got, _, _ := b.Load(t.Context(), r.ID); got.Phase != runtype.Running || got.Owner != "b" {
		t.Errorf("the run is %s and owned by %q", got.Phase, got.Owner)
	}
}

// The process that ends a run dies before it releases the slot: another watching process
// does it.
func TestASlotIsPassedOnByWhoeverSeesIt(t *testing.T) {
	plane := suite.Plane(t)
	space := namespace(t, plane.Client())
	a, wire := open(t, plane.Config(), kuberuns.Run, space)
	b, _ := open(t, plane.Config(), kuberuns.Run, space)
	now := time.Now().UTC()
	var runs []*runtype.Run
	for i := range 2 {
		r, err := a.Create(t.Context(), &runtype.Run{ID: fmt.Sprint("r", i), Flow: "F", Subject: "kind/space/x", CreatedAt: now, NextAt: now, Seq: 1, Owner: "w", Epoch: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if runs[1].Phase != runtype.Queued {
		t.Fatal(runs[1].Phase)
	}
	ended := *runs[0]
	ended.Phase, ended.EndedAt, ended.Owner = runtype.Succeeded, now, ""
	saved := false
	wire.Next(func(*http.Request) *kubetest.Failure {
		if saved { // the process is gone after the save
			cut := kubetest.Cut
			return &cut
		}
		saved = true
		return nil
	})
	if err := a.Save(t.Context(), &runstore.Save{Run: &ended}); err != nil {
		t.Fatal(err)
	}
	until(t, b, "r1", runtype.Running)
}
