package main

import (
	"fmt"
	"math"
)

// requirement is one figure with its gate and aim. Numbers below 21 are for the workflow
// engine, from 21 for container clusters, from 31 for Kubernetes, from 41 for Rollouts.
type requirement struct {
	number int
	what   string
	from   []string // measures; the first names the command
	key    string   // in the output of the command
	of     func(get func(measure string) float64) float64
	format string
	gate   float64
	aim    float64 // 0: there is none beyond the gate
	sense  sense
}

type sense int

const (
	atLeast sense = iota
	atMost
	exactly
	shown // for information only: it has no gate
)

// The idle CPU of the measuring process is not exactly 0, because of timers and the
// garbage collector. Values below this many cores count as 0.
const noCPU = 0.005

// Allowed ratio of the bytes per step to those of flows of 10 steps.
const sameBytes = 1.1

var requirements = []requirement{
	{number: 1, what: "memory store: steps per CPU-second", from: []string{"memory"}, key: "stepsPerCPUSecond", format: "%.0f", gate: 51_000, aim: 100_000},
	{number: 1, what: "memory store: allocations per step", from: []string{"memory"}, key: "allocsPerStep", format: "%.1f", gate: 59, sense: atMost},
	{number: 1, what: "memory store: bytes allocated per step", from: []string{"memory"}, key: "allocBytesPerStep", format: "%.0f", gate: 8500, sense: atMost},
	{number: 2, what: "SQLite, `synchronous=FULL`: steps per second", from: []string{"sqlite"}, key: "stepsPerSecond", format: "%.0f", gate: 24_000, aim: 60_000},
	{number: 3, what: "the same as a share of the raw loop", from: []string{"sqlite"}, key: "ratioToRaw", format: "%.2f", gate: 0.25, aim: 0.50},
	{number: 4, what: "PostgreSQL, `synchronous_commit=on`: steps per second", from: []string{"postgres"}, key: "stepsPerSecond", format: "%.0f", gate: 18_000, aim: 36_000},
	{number: 5, what: "SQLite: a run of 10 steps alone, p50 in ms", from: []string{"sqlite-alone"}, key: "latencyP50Ms", format: "%.2f", gate: 3, aim: 1.8, sense: atMost},
	{number: 5, what: "PostgreSQL: a run of 10 steps alone, p50 in ms", from: []string{"postgres-alone"}, key: "latencyP50Ms", format: "%.2f", gate: 5, aim: 3.5, sense: atMost},
	{number: 6, what: "SQLite: syncs per step, 100 runs at once", from: []string{"sqlite"}, key: "syncsPerStep", format: "%.4f", gate: 0.05, aim: 0.02, sense: atMost},
	{number: 7, what: "SQLite: bytes per step, flows of 10 steps", from: []string{"sqlite"}, key: "bytesPerStep", format: "%.0f", gate: 300, aim: 200, sense: atMost},
	{number: 7, what: "SQLite: bytes per step, flows of 50 steps", from: []string{"sqlite-50"}, key: "bytesPerStep", format: "%.0f", gate: 300, aim: 200, sense: atMost},
	{number: 7, what: "SQLite: bytes per step, flows of 1,000 steps", from: []string{"sqlite-1000"}, key: "bytesPerStep", format: "%.0f", gate: 300, aim: 200, sense: atMost},
	{number: 7, what: "SQLite: bytes per step, after 10,000 former runs", from: []string{"sqlite-former"}, key: "bytesPerStep", format: "%.0f", gate: 300, aim: 200, sense: atMost},
	{number: 7, what: "the most of these against flows of 10 steps", from: []string{"sqlite", "sqlite-50", "sqlite-1000", "sqlite-former"}, key: "bytesPerStep", of: maxBytesRatio, format: "%.2f", gate: sameBytes, sense: atMost},
	{number: 8, what: "Kubernetes store, `Run`: requests per step", from: []string{"kubernetes-run"}, key: "requestsPerStep", format: "%.2f", gate: 2, aim: 1, sense: atMost},
	{number: 8, what: "its bytes of bodies per step, both ways, runs owned by a cluster", from: []string{"kubernetes-run"}, key: "bytesPerStep", format: "%.0f", gate: 1024, sense: atMost},
	{number: 8, what: "its bytes of the last 100 of 1,000 runs of one subject against the first 100", from: []string{"kubernetes-run"}, key: "growth", format: "%.3f", gate: sameBytes, sense: atMost},
	{number: 8, what: "its CPU per step, client, in ms", from: []string{"kubernetes-run"}, key: "cpuMsPerStep", format: "%.2f", sense: shown},
	{number: 8, what: "its CPU per step, API server, in ms", from: []string{"kubernetes-run"}, key: "serverCPUMsPerStep", format: "%.2f", sense: shown},
	{number: 8, what: "Kubernetes store, ConfigMap: requests per step", from: []string{"kubernetes-configmap"}, key: "requestsPerStep", format: "%.2f", gate: 2, aim: 1, sense: atMost},
	{number: 8, what: "its bytes of bodies per step, both ways, runs owned by a cluster", from: []string{"kubernetes-configmap"}, key: "bytesPerStep", format: "%.0f", gate: 1024, sense: atMost},
	{number: 8, what: "its bytes of the last 100 of 1,000 runs of one subject against the first 100", from: []string{"kubernetes-configmap"}, key: "growth", format: "%.3f", gate: sameBytes, sense: atMost},
	{number: 8, what: "its CPU per step, client, in ms", from: []string{"kubernetes-configmap"}, key: "cpuMsPerStep", format: "%.2f", sense: shown},
	{number: 8, what: "its CPU per step, API server, in ms", from: []string{"kubernetes-configmap"}, key: "serverCPUMsPerStep", format: "%.2f", sense: shown},
	{number: 9, what: "100,000 waiting runs: resident bytes per run", from: []string{"waiting"}, key: "residentPerRun", format: "%.0f", gate: 1000, aim: 300, sense: atMost},
	{number: 9, what: "100,000 waiting runs: idle CPU in cores", from: []string{"waiting"}, key: "idleCPU", format: "%.4f", gate: noCPU, sense: atMost},
	{number: 9, what: "100,000 waiting runs: writes while they wait", from: []string{"waiting"}, key: "writesWhileIdle", format: "%.0f", gate: 0, sense: exactly},
	{number: 9, what: "a signal wakes one of 100,000, p99 in ms", from: []string{"waiting"}, key: "signalP99Ms", format: "%.2f", gate: 5, aim: 1, sense: atMost},
	{number: 10, what: "`kill -9` in the middle of 1,000 runs: first resumed step in s", from: []string{"kill"}, key: "firstStepSeconds", format: "%.3f", gate: 0.25, aim: 0.05, sense: atMost},
	{number: 10, what: "share of these runs that succeeded", from: []string{"kill"}, key: "succeededShare", format: "%.3f", gate: 1, sense: exactly},
	{number: 11, what: "steps repeated after that kill, per open run", from: []string{"kill"}, key: "repeatedPerOpenRun", format: "%.2f", gate: 1, sense: atMost},
	{number: 12, what: "durable writes of a run of n steps, less n (n is 10, 50, 1,000)", from: []string{"sqlite", "memory", "postgres", "sqlite-50", "sqlite-1000"}, key: "writesBeyondSteps", of: farthestFrom(2, "sqlite", "memory", "postgres", "sqlite-50", "sqlite-1000"), format: "%.2f", gate: 2, sense: exactly},
	{number: 13, what: "a run of 10,000 steps, SQLite: to read all of it, in ms", from: []string{"reading"}, key: "readingMs", format: "%.0f", gate: 150, sense: atMost},
	{number: 13, what: "the same, PostgreSQL", from: []string{"reading-postgres"}, key: "readingMs", format: "%.0f", gate: 150, sense: atMost},
	{number: 14, what: "PostgreSQL: four workers together against one, measured in turns", from: []string{workersName(4)}, key: "shareOfOne", format: "%.2f", gate: 0.9},
	{number: 14, what: "PostgreSQL: sixteen workers together against one", from: []string{workersName(16)}, key: "shareOfOne", format: "%.2f", gate: 0.8},
	{number: 21, what: "a page of 100 of 10,000 clusters, SQLite, the slower API, 16 callers: p99 in ms", from: []string{"clusters-list"}, key: "pageP99Ms", format: "%.1f", gate: 50, sense: atMost},
	{number: 22, what: "one cluster of these: p99 in ms", from: []string{"clusters-list"}, key: "getP99Ms", format: "%.1f", gate: 10, sense: atMost},
	{number: 23, what: "sync pass of 10,000 clusters of 10 VMs on sim: calls per page", from: []string{"clusters-sync"}, key: "callsPerPage", format: "%.3f", gate: 1, sense: atMost},
	{number: 23, what: "its writes", from: []string{"clusters-sync"}, key: "writes", format: "%.0f", gate: 0, sense: exactly},
	{number: 23, what: "its seconds", from: []string{"clusters-sync"}, key: "passSeconds", format: "%.2f", gate: 10, sense: atMost},
	{number: 23, what: "resident MiB during it, sim included", from: []string{"clusters-sync"}, key: "residentMiB", format: "%.0f", gate: 500, sense: atMost},
	{number: 24, what: "100 clusters of 10 VMs created on sim: times what the store takes for the same writes", from: []string{"clusters-create"}, key: "timesOfStore", format: "%.2f", gate: 1.5, sense: atMost},
	{number: 24, what: "the same against the raw loop of 60 bytes", from: []string{"clusters-create"}, key: "timesOfRaw", format: "%.2f", sense: shown},
	{number: 25, what: "durable writes per VM of these, without heartbeats", from: []string{"clusters-create"}, key: "madeWritesPerVM", format: "%.2f", gate: 4, sense: atMost},
	{number: 25, what: "the same with heartbeats", from: []string{"clusters-create"}, key: "writesPerVM", format: "%.2f", sense: shown},
	{number: 26, what: "10,000 runs that wait for VMs: goroutines", from: []string{"clusters-waiting"}, key: "goroutines", format: "%.0f", gate: 100, sense: atMost},
	{number: 26, what: "their CPU in cores", from: []string{"clusters-waiting"}, key: "idleCPU", format: "%.4f", gate: 0.01, sense: atMost},
	{number: 27, what: "`kill -9` with 1,000 open runs: seconds until all are claimed", from: []string{"clusters-restart"}, key: "claimedSeconds", format: "%.2f", gate: 10, sense: atMost},
	{number: 31, what: "kubectl apply to Running, 1 shared-storage cluster on sim ports, s", from: []string{"kubernetes-ready-1"}, key: "seconds", format: "%.2f", sense: shown},
	{number: 31, what: "times what the bare API server takes for the same writes", from: []string{"kubernetes-ready-1"}, key: "timesOfBare", format: "%.2f", sense: shown},
	{number: 31, what: "the same, 10 clusters, s", from: []string{"kubernetes-ready-10"}, key: "seconds", format: "%.2f", sense: shown},
	{number: 31, what: "times what the bare API server takes for the same writes", from: []string{"kubernetes-ready-10"}, key: "timesOfBare", format: "%.2f", sense: shown},
	{number: 31, what: "the same, 100 clusters, s", from: []string{"kubernetes-ready-100"}, key: "seconds", format: "%.2f", sense: shown},
	{number: 31, what: "times what the bare API server takes for the same writes", from: []string{"kubernetes-ready-100"}, key: "timesOfBare", format: "%.2f", sense: shown},
	{number: 31, what: "requests of the operator per cluster, 10 clusters", from: []string{"kubernetes-ready-10"}, key: "requestsPerCluster", format: "%.1f", sense: shown},
	{number: 31, what: "CPU of the operator per cluster, 10 clusters, in ms", from: []string{"kubernetes-ready-10"}, key: "cpuMsPerCluster", format: "%.0f", sense: shown},
	{number: 32, what: "1,000 clusters at rest: API calls per minute of the operator, without leases and watches", from: []string{"kubernetes-idle"}, key: "operatorCallsPerMinute", format: "%.1f", gate: 0, sense: exactly},
	{number: 32, what: "its calls for leases per minute", from: []string{"kubernetes-idle"}, key: "operatorLeaseCallsPerMinute", format: "%.1f", sense: shown},
	{number: 32, what: "calls per minute by the API server's counters, without leases and watches", from: []string{"kubernetes-idle"}, key: "callsPerMinute", format: "%.1f", sense: shown},
	{number: 32, what: "the same without an operator: its own", from: []string{"kubernetes-idle"}, key: "callsPerMinuteWithoutOperator", format: "%.1f", sense: shown},
	{number: 32, what: "observations of clusters by the operator per minute", from: []string{"kubernetes-idle"}, key: "looksPerMinute", format: "%.0f", sense: shown},
	{number: 33, what: "10,000 finished runs in the store's cache: heap bytes per run", from: []string{"kubernetes-cache"}, key: "storeBytesPerRun", format: "%.0f", sense: shown},
	{number: 33, what: "the same in a plain cache of controller-runtime", from: []string{"kubernetes-cache"}, key: "plainBytesPerRun", format: "%.0f", sense: shown},
	{number: 33, what: "resident MiB that the store's cache adds", from: []string{"kubernetes-cache"}, key: "storeResidentMiB", format: "%.1f", sense: shown},
	{number: 33, what: "that the plain cache adds", from: []string{"kubernetes-cache"}, key: "plainResidentMiB", format: "%.1f", sense: shown},
	{number: 41, what: "50 rollouts of 20 pods in 10 batches at once: release delay p99, in ms", from: []string{"rollout-delay"}, key: "delayP99Ms", format: "%.0f", gate: 250, aim: 100, sense: atMost},
	{number: 41, what: "its p50", from: []string{"rollout-delay"}, key: "delayP50Ms", format: "%.0f", sense: shown},
	{number: 41, what: "the same with pods that take about 5 s to start: p99", from: []string{"rollout-delay-start"}, key: "delayP99Ms", format: "%.0f", gate: 250, aim: 100, sense: atMost},
	{number: 41, what: "its p50", from: []string{"rollout-delay-start"}, key: "delayP50Ms", format: "%.0f", sense: shown},
	{number: 41, what: "a loop that polls every 5 s, same sets: p99", from: []string{"rollout-delay"}, key: "pollP99Ms", format: "%.0f", sense: shown},
	{number: 41, what: "its p50", from: []string{"rollout-delay"}, key: "pollP50Ms", format: "%.0f", sense: shown},
	{number: 41, what: "OpenKruise Rollouts 0.6.3, same sets: p99", from: []string{"rollout-delay"}, key: "kruiseP99Ms", format: "%.0f", sense: shown},
	{number: 41, what: "its p50", from: []string{"rollout-delay"}, key: "kruiseP50Ms", format: "%.0f", sense: shown},
	{number: 41, what: "its releases before all pods of the batch were Ready, of 450", from: []string{"rollout-delay"}, key: "kruiseEarly", format: "%.0f", sense: shown},
	{number: 42, what: "1,000 pods in 100 batches: requests of the operator per batch", from: []string{"rollout-requests-1000"}, key: "requestsPerBatch", format: "%.2f", gate: 5, aim: 3, sense: atMost},
	{number: 42, what: "the same, 3 pods in 3 batches", from: []string{"rollout-requests-3"}, key: "requestsPerBatch", format: "%.2f", gate: 5, aim: 3, sense: atMost},
	{number: 42, what: "1,000 pods: bytes of their bodies per batch, both ways", from: []string{"rollout-requests-1000"}, key: "bytesPerBatch", format: "%.0f", gate: 16 << 10, aim: 8 << 10, sense: atMost},
	{number: 42, what: "the same, 3 pods", from: []string{"rollout-requests-3"}, key: "bytesPerBatch", format: "%.0f", gate: 16 << 10, aim: 8 << 10, sense: atMost},
	{number: 42, what: "bytes with 1,000 pods against 3", from: []string{"rollout-requests-1000", "rollout-requests-3"}, key: "bytesPerBatch", of: func(get func(string) float64) float64 {
		return get("rollout-requests-1000") / get("rollout-requests-3")
	}, format: "%.2f", gate: sameBytes, sense: atMost},
	{number: 43, what: "1,000 Rollouts at rest: API calls per minute without leases and watches", from: []string{"rollouts-idle"}, key: "callsPerMinute", format: "%.1f", gate: 0, sense: exactly},
	{number: 43, what: "CPU of the operator in cores", from: []string{"rollouts-idle"}, key: "cores", format: "%.4f", gate: 0.01, sense: atMost},
	{number: 43, what: "resident KB per Rollout above an idle operator", from: []string{"rollouts-idle"}, key: "residentKBPerRollout", format: "%.1f", gate: 40, aim: 20, sense: atMost},
	{number: 44, what: "1,000 Rollouts of 3 pods, 100 at once: times what the controllers alone take", from: []string{"rollout-moving"}, key: "timesOfAlone", format: "%.2f", gate: 2, aim: 1.3, sense: atMost},
	{number: 45, what: "`Next` on 1,000 pods and 100 batches, in ms", from: []string{"rollout-next"}, key: "NextMs", format: "%.3f", gate: 1, aim: 0.2, sense: atMost},
	{number: 45, what: "the same when it releases", from: []string{"rollout-next"}, key: "ReleaseMs", format: "%.3f", gate: 1, aim: 0.2, sense: atMost},
	{number: 45, what: "`Preview` of it", from: []string{"rollout-next"}, key: "PreviewMs", format: "%.0f", gate: 200, aim: 50, sense: atMost},
	{number: 46, what: "100 rollouts of one workload: requests of the last ten over the first ten", from: []string{"rollout-growth"}, key: "requestsGrowth", format: "%.2f", gate: 1.1, aim: 1, sense: atMost},
	{number: 46, what: "bytes of their bodies", from: []string{"rollout-growth"}, key: "bytesGrowth", format: "%.2f", gate: 1.1, aim: 1, sense: atMost},
	{number: 46, what: "CPU of the operator", from: []string{"rollout-growth"}, key: "cpuGrowth", format: "%.2f", gate: 1.1, aim: 1, sense: atMost},
	{number: 47, what: "200 hooks that answer after 10 s: release delay p99 of 50 other rollouts, in ms", from: []string{"rollout-hanging"}, key: "delayP99Ms", format: "%.0f", gate: 250, sense: atMost},
}

func maxBytesRatio(get func(string) float64) float64 {
	return max(get("sqlite-50"), get("sqlite-1000"), get("sqlite-former"), get("sqlite")) / get("sqlite")
}

// farthestFrom returns the value that is farthest from want.
func farthestFrom(want float64, names ...string) func(func(string) float64) float64 {
	return func(get func(string) float64) float64 {
		worst := want
		for _, name := range names {
			if v := get(name); math.Abs(v-want) > math.Abs(worst-want) || math.IsNaN(v) {
				worst = v
			}
		}
		return worst
	}
}

// result is the result of a requirement.
type result string

const (
	aimMet      result = "aim met"
	gateMet     result = "gate met"
	missed      result = "**missed**"
	notMeasured result = "not measured"
	noGate      result = "shown beside it"
)

// verdict compares a measured value with gate and aim.
func (d requirement) verdict(value float64) result {
	switch {
	case math.IsNaN(value):
		return notMeasured
	case d.sense == shown:
		return noGate
	case !d.meets(value, d.gate):
		return missed
	case d.aim != 0 && d.meets(value, d.aim):
		return aimMet
	}
	return gateMet
}

func (d requirement) meets(value, mark float64) bool {
	switch d.sense {
	case atLeast:
		return value >= mark
	case atMost:
		return value <= mark
	}
	return math.Abs(value-mark) < 1e-9
}

// shortfall describes the missed gate or aim; empty: none.
func (d requirement) shortfall(value float64) string {
	v, gate, aim := number(d.format, value), number("%v", d.gate), number("%v", d.aim)
	switch d.verdict(value) {
	case missed:
		return fmt.Sprintf("Requirement %d misses its gate (%s): %s against %s%s.", d.number, d.what, v, gate, d.gap(value, d.gate))
	case gateMet:
		if d.aim != 0 {
			return fmt.Sprintf("Requirement %d keeps its gate and misses its aim (%s): %s against %s%s.", d.number, d.what, v, aim, d.gap(value, d.aim))
		}
	}
	return ""
}

func (d requirement) gap(value, mark float64) string {
	if d.sense == exactly || mark == 0 {
		return ""
	}
	share := 100 * (value - mark) / mark
	if share < 0 {
		return fmt.Sprintf(", %.0f %% short", -share)
	}
	return fmt.Sprintf(", %.0f %% over", share)
}
