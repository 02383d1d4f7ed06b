package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// idle is the measured time in which nothing happens.
const idle = 30 * time.Second

// wait creates clusters whose VMs take hours, and measures the cost of their
// waiting runs. The provider is not polled in that time: the cost of polls depends
// on the configured pauses, not on the runs.
func wait(ctx context.Context, o options) (figures, error) {
	w, err := build(ctx, o, sim.Times{Create: 10 * time.Hour}, settings.Settings{
		SyncEvery: time.Hour, CollectEvery: time.Hour, PollFirst: time.Hour, PollLongest: time.Hour})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	stop := w.serve(ctx)
	defer stop()
	o.vms = 2
	before := runtime.NumGoroutine()
	if err := createAll(ctx, w, o); err != nil {
		return nil, err
	}
	if _, err := awaitRuns(ctx, o.clusters, func(r *runtype.Run) bool { return r.Phase == runtype.Waiting && r.Owner == "" }, w.store); err != nil {
		return nil, err
	}
	time.Sleep(idle / 2) // the controller visits each new cluster once
	runtime.GC()
	admin := w.store
	writes, spent, began := admin.Stats().Writes, cpuTime(), time.Now()
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	time.Sleep(idle)
	recorded()
	spent = cpuTime() - spent
	return figures{
		"runs": float64(o.clusters), "goroutines": float64(runtime.NumGoroutine() - before), "idleCPU": spent.Seconds() / time.Since(began).Seconds(),
		"writesWhileIdle": float64(admin.Stats().Writes - writes), "residentMiB": resident(),
	}, nil
}

// underway reads pages of clusters that all wait for their VMs: each row shows
// which VMs, since when and until when.
func underway(ctx context.Context, o options) (figures, error) {
	w, err := build(ctx, o, sim.Times{Create: 10 * time.Hour}, settings.Settings{
		SyncEvery: time.Hour, CollectEvery: time.Hour, PollFirst: time.Hour, PollLongest: time.Hour})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	stop := w.serve(ctx)
	defer stop()
	if err := createAll(ctx, w, o); err != nil {
		return nil, err
	}
	if _, err := awaitRuns(ctx, o.clusters, func(r *runtype.Run) bool { return r.Phase == runtype.Waiting && r.Owner == "" }, w.store); err != nil {
		return nil, err
	}
	base, key, end, err := startAPIs(w)
	if err != nil {
		return nil, err
	}
	defer end()
	var page struct {
		Items []struct{ Waiting *struct{ For string } }
	}
	body, err := fetch(ctx, http.DefaultClient, base+"/v1/clusters?limit=100")
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	if err != nil {
		return nil, err
	}
	for _, item := range page.Items {
		if item.Waiting == nil || item.Waiting.For == "" {
			return nil, fmt.Errorf("a cluster of the page does not say what it waits for: %s", body)
		}
	}
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	defer recorded()
	f := figures{"clusters": float64(o.clusters), "listed": float64(len(page.Items)), "callers": callers}
	for name, path := range map[string]string{
		"v1Page":     "/v1/clusters?limit=100",
		"clientPage": signed(key, map[string]string{"command": "listContainerCluster", "page": "1", "pagesize": "100", "listall": "true"}),
	} {
		const requests = 2_000
		spent := cpuTime()
		times, err := load(ctx, base, requests, func(int) string { return path })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f[name+"CPUMs"] = (cpuTime() - spent).Seconds() * 1000 / requests
		f[name+"P50Ms"], f[name+"P99Ms"] = percentile(times, 0.50), percentile(times, 0.99)
	}
	f["pageP99Ms"] = max(f["v1PageP99Ms"], f["clientPageP99Ms"])
	return f, nil
}

// buildEndless builds a cloud whose answer to the first call of each run takes an
// hour: so each run stays in the middle of a step, owned by its worker.
func buildEndless(ctx context.Context, o options) (*fixture, error) {
	o.script, o.attempts = []sim.Rule{{Call: sim.Check, Do: sim.Slow, Delay: time.Hour}}, 2*o.clusters
	return build(ctx, o, sim.Times{}, settings.Settings{SyncEvery: 2 * time.Hour, CollectEvery: 2 * time.Hour, PerProvider: 2 * o.clusters})
}

// restart kills a process with open runs and waits until the next process has
// claimed them.
func restart(ctx context.Context, o options) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--child", "--dir", o.dir, "--clusters", fmt.Sprint(o.clusters), "--vms", "2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("the child has not begun: %w", err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return nil, err
	}
	_ = cmd.Wait() // the error is that of the kill
	began := time.Now()
	w, err := buildEndless(ctx, o)
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	stop := w.serve(ctx)
	defer stop()
	owned, err := awaitRuns(ctx, o.clusters, func(r *runtype.Run) bool { return r.Owner == w.engine.Worker() }, w.store)
	return figures{"runs": float64(owned), "claimedSeconds": time.Since(began).Seconds()}, err
}

// child creates clusters, prints a byte when all their runs are open, and waits to
// be killed.
func child(ctx context.Context, o options) error {
	w, err := buildEndless(ctx, o)
	if err != nil {
		return err
	}
	w.serve(ctx)
	if err := createAll(ctx, w, o); err != nil {
		return err
	}
	if _, err := awaitRuns(ctx, o.clusters, func(r *runtype.Run) bool { return r.Owner == w.engine.Worker() }, w.store); err != nil {
		return err
	}
	fmt.Print("!")
	select {}
}

// awaitRuns waits until the given number of active runs satisfy the condition.
func awaitRuns(ctx context.Context, runs int, as func(*runtype.Run) bool, lister runstore.Lister) (int, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n, cursor := 0, ""
		for {
			page, next, err := lister.List(ctx, runstore.Query{Active: true, Limit: 1000, Cursor: cursor})
			if err != nil {
				return n, err
			}
			for _, r := range page {
				if as(r) {
					n++
				}
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		switch {
		case n >= runs:
			return n, nil
		case time.Since(began) > timeout:
			return n, fmt.Errorf("%d of %d runs are as they should be after %s", n, runs, timeout)
		}
	}
}
