package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/store/sql/raw"
)

// create creates clusters concurrently on a cloud without delays. It also measures
// the store alone, before and after: it first records all writes of such a create
// and then replays them on a new store.
func create(ctx context.Context, o options) (figures, error) {
	raw, err := raw.SQLite(ctx, o.dir, 100, 20_000)
	if err != nil {
		return nil, err
	}
	quiet := o
	quiet.profile = ""
	rec := newTrace()
	if _, err := createOn(ctx, quiet, rec); err != nil {
		return nil, err
	}
	before, err := replayOn(ctx, o, rec)
	if err != nil {
		return nil, err
	}
	f, err := createOn(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	after, err := replayOn(ctx, o, rec)
	if err != nil {
		return nil, err
	}
	both := before.plus(after)
	store := both.writes / both.took.Seconds()
	f["storeWritesPerSecond"], f["rawWritesPerSecond"] = store, raw.StepsPerSec
	f["timesOfStore"] = f["seconds"] * store / f["writes"]
	f["cpuTimesOfStore"] = f["cpuSeconds"] / f["writes"] * both.writes / both.cpu.Seconds()
	f["timesOfRaw"] = f["seconds"] * raw.StepsPerSec / f["writes"]
	for kind, n := range rec.kinds {
		f["recorded "+kind] = float64(n)
	}
	return f, nil
}

func replayOn(ctx context.Context, o options, rec *trace) (replayResult, error) {
	dir, err := os.MkdirTemp(o.dir, "store-")
	if err != nil {
		return replayResult{}, err
	}
	defer os.RemoveAll(dir)
	return rec.run(ctx, dir)
}

// createOn creates the clusters on a new store. If rec is not nil, it records the
// writes.
func createOn(ctx context.Context, o options, rec *trace) (f figures, err error) {
	if o.dir, err = os.MkdirTemp(o.dir, "create-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(o.dir)
	o.trace = rec
	w, err := build(ctx, o, sim.Times{}, settings.Settings{SyncEvery: time.Hour, CollectEvery: time.Hour})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	stop := w.serve(ctx)
	defer stop()
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	defer recorded()
	admin := w.store
	before, began, spent := admin.Stats(), time.Now(), cpuTime()
	if err := createAll(ctx, w, o); err != nil {
		return nil, err
	}
	if err := w.awaitCreates(ctx, o.clusters); err != nil {
		return nil, err
	}
	took, after := time.Since(began), admin.Stats()
	spent = cpuTime() - spent
	vms, writes := float64(o.clusters*o.vms), float64(after.Writes-before.Writes)
	heartbeats := w.calls.get(heartbeatWrite)
	return figures{
		"clusters": float64(o.clusters), "vms": vms, "seconds": took.Seconds(), "vmsPerSecond": vms / took.Seconds(), "cpuSeconds": spent.Seconds(),
		"writes": writes, "writesPerVM": writes / vms, "madeWritesPerVM": (writes - heartbeats) / vms, "commits": float64(after.Commits - before.Commits),
		"books read": w.calls.get(recordRead), "details read": w.calls.get(detailsRead), "lists read": w.calls.get(listRead),
	}, nil
}

// awaitCreates waits until the given number of creates have succeeded.
func (w *fixture) awaitCreates(ctx context.Context, creates int) error {
	limit := time.After(timeout)
	for n := range creates {
		select {
		case outcome := <-w.operations:
			if outcome != "done" {
				return fmt.Errorf("a create has ended with %q: %s", outcome, describeStuck(ctx, w))
			}
		case <-limit:
			return fmt.Errorf("%d of %d clusters are Running after %s: %s", n, creates, timeout, describeStuck(ctx, w))
		}
	}
	return nil
}

func createAll(ctx context.Context, w *fixture, o options) error {
	errs := make(chan error, o.clusters)
	var all sync.WaitGroup
	for i := range o.clusters {
		all.Go(func() {
			if _, _, err := w.service.Create(ctx, operator, request(o, i)); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
