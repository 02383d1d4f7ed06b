package clusters_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestRandomFleets: three objects on one database live through changes, faults, deaths of instances, clocks that differ,
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
		f.live(rt)
	})
}

// TestRandomHalls is TestRandomFleets with three data halls.
func TestRandomHalls(t *testing.T) {
	whole(t)
	sample(t, "4")
	rapid.Check(t, func(rt *rapid.T) {
		o := shared(36, 3)
		o.Seed = rapid.Uint64Range(1, 1<<40).Draw(rt, "seed")
		f := newFleet(rt, o)
		for n, c := range halls() {
			if n == 0 {
				f.add(c)
				f.goOn(3 * time.Minute)
				continue
			}
			f.join(c)
		}
		f.settle(2 * time.Hour)
		f.writes()
		f.live(rt)
	})
}

// TestRandomRegions is TestRandomFleets with two regions, each with a satellite: they fail over, and one of them is
// given up and comes back.
func TestRandomRegions(t *testing.T) {
	whole(t)
	sample(t, "2")
	rapid.Check(t, func(rt *rapid.T) {
		o := shared(48, 4)
		o.Seed = rapid.Uint64Range(1, 1<<40).Draw(rt, "seed")
		f := newFleet(rt, o)
		objects := regions(rt)
		both := objects[0].Spec.DatabaseConfiguration.DeepCopy()
		first := both.DeepCopy()
		first.UsableRegions, first.Regions = 1, []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}}
		objects[0].Spec.DatabaseConfiguration = *first
		f.add(objects[0])
		f.settle(time.Hour)
		f.writes()
		f.edit(configuration(both))
		for _, c := range objects[1:] {
			f.join(c)
		}
		f.settle(4 * time.Hour)
		over := both.DeepCopy()
		over.Regions[0].Datacenters[0].Priority, over.Regions[1].Datacenters[0].Priority = 0, 1
		shapes := []*v1beta2.DatabaseConfiguration{both, over}
		for n := range both.Regions { // the other one is given up
			one := both.DeepCopy()
			one.UsableRegions, one.Regions = 1, one.Regions[n:n+1]
			shapes = append(shapes, one)
		}
		f.edit(`{"spec":{"lockOptions":{"disableLocks":false}}}`) // with one region there would be none by default
		f.live(rt, func() { f.edit(configuration(rapid.SampledFrom(shapes).Draw(rt, "regions"))) })
	})
}

// live lets some things happen to a settled fleet, up to four or so many as PAWL_STEPS says, and then all settle.
func (f *fleet) live(rt *rapid.T, more ...func()) {
	for _, u := range f.units {
		u.dies = true
	}
	deaths, lost := 0, "" // after so many effects
	f.Before(func(sim.Effect) error {
		if deaths--; deaths == 0 {
			panic("the instance dies")
		}
		return nil
	})
	back := func() {
		if lost != "" {
			f.ReturnNode(lost)
			lost = ""
		}
	}
	one := func() *unit { return rapid.SampledFrom(f.units).Draw(rt, "unit") }
	long := func() time.Duration {
		return rapid.SampledFrom([]time.Duration{20 * time.Second, time.Minute, 3 * time.Minute, 15 * time.Minute}).Draw(rt, "long")
	}
	pod := func(u *unit) string {
		groups := u.object().Status.ProcessGroups
		id := string(groups[rapid.IntRange(0, 99).Draw(rt, "group")%len(groups)].ProcessGroupID)
		return u.name + "-" + strings.ReplaceAll(strings.TrimPrefix(id, u.owner+"-"), "_", "-")
	}
	database := func(kinds ...fdbsim.FaultKind) {
		f.Cluster().Inject(fdbsim.Fault{
			Kind: rapid.SampledFrom(kinds).Draw(rt, "fault"), For: long(), Takes: 20 * time.Second, Before: rapid.Bool().Draw(rt, "before"),
			Command: rapid.SampledFrom(commands).Draw(rt, "command"),
		})
	}
	changes := append([]func(){
		func() {
			if u := one(); u.object().Spec.ProcessCounts["storage"] >= 0 {
				for _, g := range u.object().Status.ProcessGroups {
					if g.ProcessClass == "storage" && !g.Marked() {
						u.edit(`{"spec":{"processGroupsToRemove":["` + string(g.ProcessGroupID) + `"]}}`)
						return
					}
				}
			}
		},
		func() {
			f.edit(fmt.Sprintf(`{"spec":{"processes":{"general":{"customParameters":["knob_max_trace_lines=%d"]}}}}`, rapid.IntRange(1, 9).Draw(rt, "knob")))
		},
		func() {
			f.edit(fmt.Sprintf(`{"spec":{"databaseConfiguration":{"storage":%d}}}`, rapid.IntRange(3, 9).Draw(rt, "storage")))
		},
		func() {
			f.edit(fmt.Sprintf(`{"spec":{"processes":{"storage":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":%d}}}}}}`, rapid.IntRange(60, 62).Draw(rt, "grace")))
		},
		func() {
			one().skew = rapid.SampledFrom([]time.Duration{0, -2 * time.Minute, time.Minute, time.Hour}).Draw(rt, "skew")
		},
		func() {
			for range rapid.IntRange(1, 3).Draw(rt, "commits") {
				f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommitUnknown, Before: rapid.Bool().Draw(rt, "before")})
			}
		},
		func() { deaths = rapid.IntRange(1, 60).Draw(rt, "effects") },
		func() {
			u := one()
			u.stopped = true
			f.goOn(rapid.SampledFrom([]time.Duration{time.Minute, 15 * time.Minute}).Draw(rt, "away"))
			u.stopped = false
			u.restart()
		},
		func() { f.edit(`{"spec":{"version":"7.4.6"}}`) },
		func() { u := one(); f.DeletePod(u.namespace, pod(u)) },
		func() { u := one(); f.Crash(u.namespace, pod(u), 1) },
		func() { u := one(); f.FailPod(u.namespace, pod(u)) },
		func() {
			back()
			lost = rapid.SampledFrom(f.nodesOf(one())).Draw(rt, "node")
			f.LoseNode(lost)
		},
		back,
		func() {
			u := one()
			commits(f.Cluster(), fdb.Set(fdb.Keys("").Denied(u.owner), []byte(u.owner)))
		},
		func() { commits(f.Cluster(), fdb.Clear(fdb.Keys("").DenyList())) },
		func() { database(fdbsim.FaultStatusLate, fdbsim.FaultStatusPartial, fdbsim.FaultStatusDoubled) },
		func() { database(fdbsim.FaultCommandRefused, fdbsim.FaultReplyLost, fdbsim.FaultTimedOut) },
		func() { database(fdbsim.FaultStuckMovement, fdbsim.FaultSecondRecovery) },
		func() {
			kind := rapid.SampledFrom([]sim.FaultKind{sim.FaultConflict, sim.FaultUnavailable, sim.FaultStaleList, sim.FaultSidecarSilent, sim.FaultQuota}).Draw(rt, "fault")
			f.Inject(sim.Fault{Kind: kind, For: long(), Lag: 10 * time.Second, Before: rapid.Bool().Draw(rt, "before")})
		},
	}, more...)
	count, _ := strconv.Atoi(os.Getenv("PAWL_STEPS"))
	if count == 0 {
		count = rapid.IntRange(1, 4).Draw(rt, "changes")
	}
	for range count {
		n := rapid.IntRange(0, len(changes)-1).Draw(rt, "change")
		f.Cluster().Note("== CHANGE %d", n)
		changes[n]()
		f.goOn(rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 2 * time.Minute, 20 * time.Minute}).Draw(rt, "later"))
	}
	for _, u := range f.units {
		u.skew = 0
	}
	back()
	f.Clear("")
	f.Cluster().Clear("")
	f.until("the deny list is empty", time.Hour, func() bool { return commits(f.Cluster(), fdb.Clear(fdb.Keys("").DenyList())) })
	f.settle(12 * time.Hour)
	f.settled()
	f.kept()
}
