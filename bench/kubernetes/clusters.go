package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

var clustersResource = v1alpha1.GroupVersion.WithResource("sharedstorageclusters")

// manifest is examples/sharedstorage/cluster.yaml under another name.
const manifest = `---
apiVersion: pawl.dev/v1alpha1
kind: SharedStorageCluster
metadata:
  name: c-%06d
  namespace: %s
spec:
  engine: {type: postgres, version: "15"}
  class: {name: small}
  readers: 2
  storage: {size: 1Gi, onDelete: Delete}
  durability: strict
  ha: {enabled: true}
`

// apply applies clusters with kubectl.
func (o options) apply(ctx context.Context, p *plane, space string, n int) error {
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, manifest, i, space)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "kubectl"), "--kubeconfig", p.kubeconfig, "apply", "-f", "-")
	cmd.Stdin = &text
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, out[max(0, len(out)-2000):])
	}
	return nil
}

// running waits until n clusters of a namespace are Running, and returns the time at which
// each became Running. It opens one watch at a time, which begins with the existing
// objects.
func running(ctx context.Context, p *plane, space string, n int) (func() ([]time.Time, error), error) {
	client, err := dynamic.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	open := func() (watch.Interface, error) {
		return client.Resource(clustersResource).Namespace(space).Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(3600))})
	}
	seen, err := open()
	if err != nil {
		return nil, err
	}
	return func() ([]time.Time, error) {
		defer func() { seen.Stop() }()
		at := map[string]time.Time{}
		states := map[string]string{}
		for len(at) < n {
			select {
			case e, ok := <-seen.ResultChan():
				if !ok || e.Type == watch.Error {
					seen.Stop()
					if seen, err = open(); err != nil {
						return nil, err
					}
					continue
				}
				obj, is := e.Object.(*unstructured.Unstructured)
				if !is {
					continue
				}
				state, _, _ := unstructured.NestedString(obj.Object, "status", "state")
				states[obj.GetName()] = state
				if _, known := at[obj.GetName()]; !known && state == "Running" {
					at[obj.GetName()] = time.Now()
				}
			case <-ctx.Done():
				return nil, fmt.Errorf("%d of %d clusters are Running, the others: %v: %w", len(at), n, others(states), ctx.Err())
			}
		}
		var all []time.Time
		for _, t := range at {
			all = append(all, t)
		}
		slices.SortFunc(all, time.Time.Compare)
		return all, nil
	}, nil
}

func others(states map[string]string) map[string]int {
	counts := map[string]int{}
	for _, state := range states {
		if state != "Running" {
			counts[state]++
		}
	}
	return counts
}

// ready measures the time from kubectl apply to Running. For comparison it replays the
// recorded writes with a bare client.
func ready(ctx context.Context, o options) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	p, err := o.start()
	if err != nil {
		return nil, err
	}
	defer p.stop()
	recording := newTrace()
	wire := kubetest.NewFaultyTransport(1)
	stop, err := operate(ctx, wire.Config(recording.config(p.config)), simulated())
	if err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = stop()
		}
	}()
	// Start with one cluster, to fill caches and create leases and definitions.
	if _, _, _, err := o.startClusters(ctx, p, 1); err != nil {
		return nil, err
	}
	wire.Take()
	recording.begin()
	before := used()
	space, took, waits, err := o.startClusters(ctx, p, o.clusters)
	if err != nil {
		return nil, err
	}
	spent, count := used().since(before), wire.Take()
	if err := stop(); err != nil {
		return nil, err
	}
	stopped = true
	o.logf("requests: %v", count.By)
	n := float64(o.clusters)
	again, err := recording.replay(ctx, p, space, o.clusters)
	if err != nil {
		return nil, err
	}
	return figures{
		"clusters": n, "seconds": took.Seconds(), "p50Seconds": waits[len(waits)/2].Seconds(), "clustersPerSecond": n / took.Seconds(),
		"requestsPerCluster": float64(count.Requests) / n, "writesPerCluster": float64(recording.len()) / n,
		"cpuMsPerCluster": spent.own.Seconds() / n * 1000, "serverCPUMsPerCluster": spent.server.Seconds() / n * 1000,
		"bareSeconds": again.took.Seconds(), "timesOfBare": took.Seconds() / again.took.Seconds(),
		"bareWritesPerSecond": float64(again.writes) / again.took.Seconds(), "writesPerSecond": float64(recording.len()) / took.Seconds(),
		"bareServerCPUMsPerCluster": again.spent.server.Seconds() / n * 1000,
	}, nil
}

// startClusters applies n clusters and waits until they are Running. It returns the time
// from the call of kubectl to the last one and to each.
func (o options) startClusters(ctx context.Context, p *plane, n int) (space string, took time.Duration, waits []time.Duration, err error) {
	space, _, err = p.namespace(ctx)
	if err != nil {
		return "", 0, nil, err
	}
	await, err := running(ctx, p, space, n)
	if err != nil {
		return "", 0, nil, err
	}
	began := time.Now()
	if err := o.apply(ctx, p, space, n); err != nil {
		return "", 0, nil, err
	}
	at, err := await()
	if err != nil {
		return "", 0, nil, err
	}
	for _, t := range at {
		waits = append(waits, t.Sub(began))
	}
	return space, waits[len(waits)-1], waits, nil
}

// simulated returns ports that keep engines, volumes and cluster managers in memory,
// without delays.
func simulated() port.Ports { return sim.New(sim.Options{Log: -1}).Ports() }

// idle counts the requests of idle clusters to the API server, by its own counters and by
// those of the operator's connections, with and without the clusters. The operator creates
// one cluster. The others are copies of its objects, and the ports answer for all of them.
func idle(ctx context.Context, o options) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	p, err := o.start()
	if err != nil {
		return nil, err
	}
	defer p.stop()
	wire := kubetest.NewFaultyTransport(1)
	ports := simulated()
	stop, err := operate(ctx, wire.Config(p.config), ports)
	if err != nil {
		return nil, err
	}
	space, _, _, err := o.startClusters(ctx, p, 1)
	if err == nil {
		err = settled(ctx, wire)
	}
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	if err := copyCluster(ctx, p, space, o.clusters); err != nil {
		return nil, err
	}
	o.logf("%d clusters are there", o.clusters)
	if stop, err = operate(ctx, wire.Config(p.config), copied(ports)); err != nil {
		return nil, err
	}
	if err := settled(ctx, wire); err != nil {
		return nil, errors.Join(err, stop())
	}
	atRest, cpu, err := o.count(ctx, p, wire)
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	alone, _, err := o.count(ctx, p, wire)
	if err != nil {
		return nil, err
	}
	return figures{
		"clusters": float64(o.clusters), "forSeconds": o.rest.Seconds(),
		"callsPerMinute": atRest.others, "leaseCallsPerMinute": atRest.leases, "callsPerMinuteWithoutOperator": alone.others, "leaseCallsPerMinuteWithoutOperator": alone.leases,
		"operatorCallsPerMinute": atRest.sentOthers, "operatorLeaseCallsPerMinute": atRest.sentLeases, "watchesOpenedPerMinute": atRest.watches, "watchBytesPerMinute": atRest.events, "looksPerMinute": atRest.observations,
		"cpuCores": cpu.own.Seconds() / o.rest.Seconds(), "serverCPUCores": cpu.server.Seconds() / o.rest.Seconds(),
	}, nil
}

// settled waits until the operator has requested nothing but leases for longer than its
// resync interval.
func settled(ctx context.Context, wire *kubetest.FaultyTransport) error {
	quiet := 0
	for quiet < 15 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
		}
		quiet++
		if sentOthers, _ := split(wire.Take()); sentOthers > 0 {
			quiet = 0
		}
	}
	return nil
}

// perMinute holds the counted requests and events.
type perMinute struct{ others, leases, sentOthers, sentLeases, watches, events, observations float64 }

func (o options) count(ctx context.Context, p *plane, wire *kubetest.FaultyTransport) (perMinute, usage, error) {
	before, err := p.calls(ctx)
	if err != nil {
		return perMinute{}, usage{}, err
	}
	wire.Take()
	wire.Next(o.logWrites)
	defer wire.Next(nil)
	looked := topologyCalls.Load()
	cpu := used()
	select {
	case <-ctx.Done():
		return perMinute{}, usage{}, ctx.Err()
	case <-time.After(o.rest):
	}
	spent, sent := used().since(cpu), wire.Take()
	after, err := p.calls(ctx)
	if err != nil {
		return perMinute{}, usage{}, err
	}
	came, leases, others := after.since(before)
	o.logf("in %v the API server was asked: %v\nthe operator sent: %v and opened %d watches", o.rest, came, sent.By, sent.Watches)
	minutes := o.rest.Minutes()
	sentOthers, sentLeases := split(sent)
	return perMinute{others / minutes, leases / minutes, sentOthers / minutes, sentLeases / minutes, float64(sent.Watches) / minutes, float64(sent.WatchSent) / minutes,
		float64(topologyCalls.Load()-looked) / minutes}, spent, nil
}

// logWrites logs writes that should not happen at rest.
func (o options) logWrites(req *http.Request) *kubetest.Failure {
	if !o.verbose || req.Method == http.MethodGet || req.Body == nil || strings.Contains(req.URL.Path, "/leases") {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	o.logf("%s %s %s %v", req.Method, req.URL.Path, body, err)
	return nil
}

// split separates requests for leases from others.
func split(c kubetest.Count) (others, leases float64) {
	for key, n := range c.By {
		if strings.HasSuffix(key, " leases") {
			leases += float64(n)
		} else {
			others += float64(n)
		}
	}
	return others, leases
}
