package rollouts

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Growth rolls one set again and again, and compares what the last tenth of the rollouts has cost the
// operator with the first tenth.
func Growth(ctx context.Context, o Options) (f Figures, err error) {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	w, err := start(ctx, Options{Bin: o.Bin, Pawl: o.Pawl, Rollouts: 1, Pods: o.Pods, Batches: o.Batches, Logf: o.Logf})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.plane.Stop()) }()
	x, err := w.startProxy(w.kubeconfig)
	if err != nil {
		return nil, err
	}
	operator, err := w.startPawl(ctx, x.kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := w.createSets(ctx, 0, 1, o.Pods); err != nil {
		return nil, err
	}
	if err := w.createRollouts(ctx, 0, 1, o.plan()); err != nil {
		return nil, operator.failed(err)
	}
	var costs []cost
	var cpus []time.Duration
	for i := range o.Rollouts {
		image := fmt.Sprint("r", i+1)
		x.take()
		cpu := operator.cpu()
		if _, err := w.rollAll(ctx, 1, 1, func(name string) error { return w.setImage(ctx, name, image) }, rolledByPawl(image)); err != nil {
			return nil, operator.failed(err)
		}
		if err := pause(ctx, time.Second); err != nil { // what follows the end: the status, Events
			return nil, err
		}
		costs, cpus = append(costs, costOf(x.take())), append(cpus, operator.cpu()-cpu)
		w.Logf("rollout %d: %.0f requests, %.0f bytes sent and %.0f received, %v of CPU: %v", i+1, costs[i].requests, costs[i].sent, costs[i].received, cpus[i].Round(time.Millisecond), costs[i].by)
	}
	tenth := max(1, o.Rollouts/10)
	sum := func(from, to int) (requests, bytes, cpu float64) {
		for i := from; i < to; i++ {
			requests += costs[i].requests
			bytes += costs[i].sent + costs[i].received
			cpu += cpus[i].Seconds()
		}
		n := float64(to - from)
		return requests / n, bytes / n, cpu / n
	}
	requests, bytes, cpu := sum(0, tenth)
	lastRequests, lastBytes, lastCPU := sum(o.Rollouts-tenth, o.Rollouts)
	return Figures{
		"rollouts": float64(o.Rollouts), "pods": float64(o.Pods), "batches": float64(o.Batches),
		"firstRequests": requests, "firstBytes": bytes, "firstCPUMs": cpu * 1000,
		"lastRequests": lastRequests, "lastBytes": lastBytes, "lastCPUMs": lastCPU * 1000,
		"requestsGrowth": lastRequests / requests, "bytesGrowth": lastBytes / bytes, "cpuGrowth": lastCPU / cpu,
	}, nil
}
