package flows_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// A VM costs at most four durable writes: intent, answer, present, and its share
// of the writes of the run. Calls that are sent together are written together, so
// the limit is three and a half, including the writes of the cluster itself.
func TestWritesOfACreatedVM(t *testing.T) {
	for name, s := range map[string]servicetest.Setup{
		"at once":         {Silent: true},
		"slow":            {Silent: true, Sim: sim.Options{Times: servicetest.Slow, Latency: 100 * time.Millisecond}},
		"one by one":      {Silent: true, Sim: sim.Options{Times: servicetest.Slow, Script: []sim.Rule{{Call: sim.Create, Kind: cluster.VM, Name: "*[13579]", Do: sim.Slow, Delay: 7 * time.Second}}}},
		"with their home": {Sim: sim.Options{Times: servicetest.Slow}},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
				before := w.Records.Count() + w.Runs.SaveCount()
				id := w.Create("blue", 10)
				w.Until(id, time.Hour, cluster.Running)
				writes, most := w.Records.Count()+w.Runs.SaveCount()-before, 38
				if w.Acquires { // the address is created, as a VM is
					most += 3
				}
				if !s.Silent { // each node exchanges its token once
					most += 2 * 11
				}
				t.Logf("%d commits, %d saves of 11 VMs", w.Records.Count(), w.Runs.SaveCount())
				if writes > most {
					t.Errorf("%d writes for 11 VMs, at most %d\n%s", writes, most, w.Story(id))
				}
			})
		})
	}
}
