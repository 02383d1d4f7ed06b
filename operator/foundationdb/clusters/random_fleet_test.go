package clusters_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestRandomFleets: three objects on one database live through changes, deaths of instances, clocks that differ,
// commits of which nobody knows and a lock that is denied; no invariant is violated, and all settles in the end.
func TestRandomFleets(t *testing.T) {
	sample(t, "4")
	rapid.Check(t, func(rt *rapid.T) {
		o := shared(24, 3)
		o.Seed = rapid.Uint64Range(1, 1<<40).Draw(rt, "seed")
		f := kubernetesClusters(rt, o, func(c *v1beta2.FoundationDBCluster) {
			if o.Seed%2 == 0 {
				synchronised(c)
			}
		})
		for _, u := range f.units {
			u.dies = true
		}
		deaths := 0 // after so many effects
		f.Before(func(sim.Effect) error {
			if deaths--; deaths == 0 {
				panic("the instance dies")
			}
			return nil
		})
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			u := rapid.SampledFrom(f.units).Draw(rt, "unit")
			switch what := rapid.IntRange(0, 9).Draw(rt, "change"); what {
			case 0:
				u.replace()
			case 1:
				f.edit(fmt.Sprintf(`{"spec":{"processes":{"general":{"customParameters":["knob_max_trace_lines=%d"]}}}}`, rapid.IntRange(1, 9).Draw(rt, "knob")))
			case 2:
				f.edit(fmt.Sprintf(`{"spec":{"databaseConfiguration":{"storage":%d}}}`, rapid.IntRange(3, 9).Draw(rt, "storage")))
			case 3:
				f.edit(`{"spec":{"processes":{"storage":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":60}}}}}}`)
			case 4:
				u.skew = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(rt, "skew")
			case 5:
				for range rapid.IntRange(1, 3).Draw(rt, "commits") {
					f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommitUnknown, Before: rapid.Bool().Draw(rt, "before")})
				}
			case 6:
				deaths = rapid.IntRange(1, 60).Draw(rt, "effects")
			case 7:
				u.stopped = true
				f.goOn(rapid.SampledFrom([]time.Duration{time.Minute, 15 * time.Minute}).Draw(rt, "away"))
				u.stopped = false
				u.restart()
			case 8:
				f.edit(`{"spec":{"version":"7.4.6"}}`)
			case 9:
				pod := rapid.SampledFrom(u.object().Status.ProcessGroups).Draw(rt, "group").ProcessGroupID
				f.DeletePod(u.namespace, u.name+"-"+strings.TrimPrefix(string(pod), u.owner+"-"))
			}
			f.goOn(rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 2 * time.Minute, 20 * time.Minute}).Draw(rt, "later"))
		}
		for _, u := range f.units {
			u.skew = 0
		}
		f.Cluster().Clear(fdbsim.FaultCommitUnknown)
		f.settle(12 * time.Hour)
		f.settled()
		f.kept()
	})
}
