package service_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// A VM costs at most four durable writes: intent, answer, present, and its share
// of the writes of the run. Calls that are sent together are written together, so
// the limit is three and a half, including the writes of the cluster itself.
func TestWritesOfACreatedVM(t *testing.T) {
	for name, s := range map[string]setup{
		"at once":         {silent: true},
		"slow":            {silent: true, sim: sim.Options{Times: slow, Latency: 100 * time.Millisecond}},
		"one by one":      {silent: true, sim: sim.Options{Times: slow, Script: []sim.Rule{{Call: sim.Create, Kind: cluster.VM, Name: "*[13579]", Do: sim.Slow, Delay: 7 * time.Second}}}},
		"with their home": {sim: sim.Options{Times: slow}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(t *testing.T, w *world) {
				before := w.records.count() + w.runs.count()
				id := w.create("blue", 10)
				w.until(id, time.Hour, cluster.Running)
				writes, most := w.records.count()+w.runs.count()-before, 38
				if w.acquires { // the address is created, as a VM is
					most += 3
				}
				if !s.silent { // each node exchanges its token once
					most += 2 * 11
				}
				t.Logf("%d commits, %d saves of 11 VMs", w.records.count(), w.runs.count())
				if writes > most {
					t.Errorf("%d writes for 11 VMs, at most %d\n%s", writes, most, w.story(id))
				}
			})
		})
	}
}
