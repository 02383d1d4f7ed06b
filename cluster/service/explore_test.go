package service_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
)

// scenario is an operation during which processes are killed. prepare creates the
// cluster, act sends the request, and end checks the result.
type scenario struct {
	setup   servicetest.Setup
	blind   bool          // the check of capacity finds no limits
	skew    time.Duration // of the clock of every second process
	prepare func(l *servicetest.Lab) string
	act     func(l *servicetest.Lab, id string) string // returns the cluster's id
	rests   []machine.State                            // further states in which the cluster may settle
	end     func(l *servicetest.Lab, id string)
}

// labTimes is the setup of a slow cloud on which new resources become visible
// late.
func labTimes() servicetest.Setup {
	return servicetest.Setup{
		Sim: sim.Options{
			Times:   sim.Times{Create: 8 * time.Second, Destroy: 4 * time.Second, Stop: 4 * time.Second, Start: 4 * time.Second, Network: 2 * time.Second, Rule: time.Second, Boot: 5 * time.Second},
			Visible: 3 * time.Second, Latency: 100 * time.Millisecond,
		},
		Settings: settings.Settings{OrphanGrace: servicetest.LabGrace, CollectEvery: servicetest.LabCollect, GCFirst: time.Minute, GCLongest: 10 * time.Minute},
	}
}

func withCapacity(vms int) servicetest.Setup {
	return labTimes().With(func(s *servicetest.Setup) { s.Sim.Zones = []sim.Zone{{ID: "zone-1", VMs: vms}} })
}

// up creates a cluster of one control node and a number of workers, without
// automatic recovery.
func up(workers int) func(l *servicetest.Lab) string {
	return func(l *servicetest.Lab) string {
		id := l.Create(api.CreateRequest{Name: "blue", Size: workers, Recovery: cluster.Recovery{}, Version: "v1"})
		l.Settle(2 * time.Hour)
		return id
	}
}

func then(first func(l *servicetest.Lab) string, more func(l *servicetest.Lab, id string)) func(l *servicetest.Lab) string {
	return func(l *servicetest.Lab) string {
		id := first(l)
		more(l, id)
		return id
	}
}

func asks(r api.ChangeRequest) func(l *servicetest.Lab, id string) string {
	return func(l *servicetest.Lab, id string) string {
		l.Must(id, r)
		return id
	}
}

func creates(r api.CreateRequest) func(l *servicetest.Lab, id string) string {
	return func(l *servicetest.Lab, _ string) string { return l.Create(r) }
}

// is checks the state of a cluster, its number of VMs, and that no more than
// created VMs were created.
func is(state machine.State, vms, created int) func(l *servicetest.Lab, id string) {
	return func(l *servicetest.Lab, id string) {
		c := l.Record(id).Cluster
		if c.State != state || len(l.VMs(id)) != vms {
			l.Violated("it is %s with %d VMs, want %s with %d\n%s", c.State, len(l.VMs(id)), state, vms, l.Story(id))
		}
		if n := l.CreatedVMs(id); n > created {
			l.Violated("%d VMs were made, at most %d were asked for\n%s", n, created, l.Story(id))
		}
		failed := state == cluster.Alert
		if j := l.JobsOf(id)[0]; failed != (j.Status == cluster.JobFailed) {
			l.Violated("job %s ended with %d %s %s\n%s", j.ID, j.Status, j.Code, j.Text, l.Story(id))
		}
	}
}

// failed checks that the create job has failed with a code, and the cluster is
// Destroyed.
func failed(code string) func(l *servicetest.Lab, id string) {
	return func(l *servicetest.Lab, id string) {
		c := l.Record(id).Cluster
		j := l.JobOf("create-blue")
		if c.State != cluster.Destroyed || j.Status != cluster.JobFailed || string(j.Code) != code || string(c.Reason.Code) != code {
			l.Violated("it is %s for %+v, its job ended with %d %s\n%s", c.State, c.Reason, j.Status, j.Code, l.Story(id))
		}
	}
}

func scenarios() map[string]scenario {
	ten := api.CreateRequest{Name: "blue", Size: 4, Recovery: cluster.Recovery{}}
	policy := func(p cluster.OnFailure) api.CreateRequest { r := ten; r.OnFailure = p; return r }
	scale := func(n int) api.ChangeRequest { return api.ChangeRequest{Kind: cluster.RequestScale, Size: n} }
	return map[string]scenario{
		"create": {setup: labTimes(), act: creates(api.CreateRequest{Name: "blue", Size: 3, Recovery: cluster.Recovery{}}), end: is(cluster.Running, 4, 4)},
		"create with three control nodes": {
			setup: labTimes(), act: creates(api.CreateRequest{Name: "blue", Size: 1, ControlNodes: 3, Recovery: cluster.Recovery{}}), end: is(cluster.Running, 4, 4),
		},
		"create in a given network": {
			setup: labTimes(),
			act: func(l *servicetest.Lab, _ string) string {
				n, there := l.Cloud.Lookup(cluster.Network, "theirs")
				if !there {
					var err error
					if n, err = l.Cloud.AddNetwork("theirs", servicetest.Me); err != nil {
						l.T.Fatal(err)
					}
					if _, err = l.Cloud.AddForeignVM("stranger", n.ID); err != nil {
						l.T.Fatal(err)
					}
				}
				return l.Create(api.CreateRequest{Name: "blue", Size: 2, Network: n.ID, Recovery: cluster.Recovery{}})
			},
			end: is(cluster.Running, 3, 3),
		},
		"stop": {setup: labTimes(), prepare: up(2), act: asks(api.ChangeRequest{Kind: cluster.RequestStop}), end: is(cluster.Stopped, 3, 3)},
		"start": {setup: labTimes(), prepare: then(up(2), func(l *servicetest.Lab, id string) {
			l.Must(id, api.ChangeRequest{Kind: cluster.RequestStop})
			l.Settle(time.Hour)
		}), act: asks(api.ChangeRequest{Kind: cluster.RequestStart}), end: is(cluster.Running, 3, 3)},

		"scale up":   {setup: labTimes(), prepare: up(1), act: asks(scale(4)), end: is(cluster.Running, 5, 5)},
		"scale down": {setup: labTimes(), prepare: up(4), act: asks(scale(2)), end: is(cluster.Running, 3, 5)},
		"scale by node": {setup: labTimes(), prepare: up(3), act: func(l *servicetest.Lab, id string) string {
			victim := l.Record(id).Nodes[1].Name
			l.Must(id, api.ChangeRequest{Kind: cluster.RequestScale, NodeIDs: []string{victim}})
			return id
		}, end: is(cluster.Running, 3, 4)},
		"upgrade": {setup: labTimes(), prepare: up(2), act: asks(api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2", Downtime: true}), end: is(cluster.Running, 3, 5)},
		"upgrade of three control nodes": {setup: labTimes(), prepare: func(l *servicetest.Lab) string {
			id := l.Create(api.CreateRequest{Name: "blue", Size: 1, ControlNodes: 3, Recovery: cluster.Recovery{}, Version: "v1"})
			l.Settle(2 * time.Hour)
			return id
		}, act: asks(api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2"}), end: is(cluster.Running, 4, 8)},

		"recover": {setup: labTimes(), rests: []machine.State{cluster.Alert}, prepare: then(up(3), func(l *servicetest.Lab, id string) {
			if err := l.Cloud.DestroyVM(l.Worker(id)); err != nil {
				l.T.Fatal(err)
			}
			l.Settle(time.Hour, cluster.Alert)
			l.Wait(4 * time.Minute)
		}), act: asks(api.ChangeRequest{Kind: cluster.RequestRecover}), end: is(cluster.Running, 4, 5)},
		"recover by policy": {setup: labTimes(), prepare: func(l *servicetest.Lab) string {
			id := l.Create(api.CreateRequest{Name: "blue", Size: 2, Recovery: cluster.Recovery{cluster.Restart, cluster.Replace}})
			l.Settle(2 * time.Hour)
			return id
		}, act: func(l *servicetest.Lab, id string) string {
			if err := l.Cloud.StopVM(l.Worker(id)); err != nil {
				l.Violated("%v", err)
			}
			l.Wait(2 * time.Minute)
			return id
		}, end: is(cluster.Running, 3, 4)},

		"delete": {setup: labTimes(), prepare: up(2), act: asks(api.ChangeRequest{Kind: cluster.RequestDelete}), end: is(cluster.Destroyed, 0, 3)},
		"delete what starts": {setup: labTimes(), act: func(l *servicetest.Lab, _ string) string {
			id := l.Create(api.CreateRequest{Name: "blue", Size: 3, Recovery: cluster.Recovery{}})
			for range 30 { // until workers are created
				if l.Wait(time.Second); len(l.VMs(id)) > 1 {
					break
				}
			}
			l.Must(id, api.ChangeRequest{Kind: cluster.RequestDelete})
			return id
		}, end: is(cluster.Destroyed, 0, 4)},
		"delete beside a stranger": {setup: labTimes(), rests: []machine.State{cluster.Expunge}, prepare: then(up(1), (*servicetest.Lab).Foreign),
			act: asks(api.ChangeRequest{Kind: cluster.RequestDelete}), end: func(l *servicetest.Lab, id string) {
				if c := l.Record(id).Cluster; c.State != cluster.Expunge || c.Reason.Code != cluster.ForeignVM.Code || !strings.Contains(c.Reason.Text, "stranger") {
					l.Violated("it is %s for %+v\n%s", c.State, c.Reason, l.Story(id))
				}
				if err := l.Cloud.DestroyVM("stranger"); err != nil {
					l.Violated("the stranger is gone: %v", err)
				}
				l.Settle(time.Hour)
				if c := l.Record(id).Cluster; c.State != cluster.Destroyed {
					l.Violated("it is %s\n%s", c.State, l.Story(id))
				}
			}},

		"no room, rollback": {setup: withCapacity(3), blind: true, act: creates(policy(cluster.Rollback)), end: failed("CAPACITY_EXHAUSTED")},
		"no room, lazy":     {setup: withCapacity(3), blind: true, act: creates(policy(cluster.Lazy)), end: failed("CAPACITY_EXHAUSTED")},
		"no room, keep": {setup: withCapacity(3), blind: true, rests: []machine.State{cluster.Alert}, act: creates(policy(cluster.KeepPartial)), end: func(l *servicetest.Lab, id string) {
			is(cluster.Alert, 3, 3)(l, id)
			l.Must(id, scale(2)) // the existing size is accepted
			l.Settle(2 * time.Hour)
			is(cluster.Running, 3, 5)(l, id)
		}},
		"no room for more, keep":     {setup: withCapacity(3), blind: true, rests: []machine.State{cluster.Alert}, prepare: up(1), act: asks(scale(4)), end: is(cluster.Alert, 3, 3)},
		"no room for more, rollback": {setup: withCapacity(3).With(func(s *servicetest.Setup) { s.Settings.RollbackScale = true }), blind: true, prepare: up(1), act: asks(scale(4)), end: wasRolledBack},
	}
}

// wasRolledBack checks that the cluster has its former size, and the job has
// failed.
func wasRolledBack(l *servicetest.Lab, id string) {
	b := l.Record(id)
	if b.Cluster.State != cluster.Running || b.Cluster.NodeCount != 1 || len(l.VMs(id)) != 2 {
		l.Violated("it is %s with %d VMs, %d workers are wanted\n%s", b.Cluster.State, len(l.VMs(id)), b.Cluster.NodeCount, l.Story(id))
	}
	if j := l.JobsOf(id)[0]; j.Status != cluster.JobFailed || j.Code != cluster.CapacityExhausted.Code {
		l.Violated("job %+v\n%s", j, l.Story(id))
	}
}

// play runs a scenario in which processes die at these points, one after the
// other. It returns the violations, the points of the first process, and the
// number of deaths.
func (s scenario) play(t *testing.T, at ...int) (wrong []string, points map[string]int, struck int) {
	t.Helper()
	wrong = servicetest.InLab(t, s.setup, func(l *servicetest.Lab) {
		l.Blind, l.Skew = s.blind, s.skew
		id := ""
		if s.prepare != nil {
			id = s.prepare(l)
		}
		l.Arm(at...)
		first := l.Current()
		id = s.act(l, id)
		l.Settle(6*time.Hour, s.rests...)
		points, struck = first.FirstPoints, l.DeathCount()
		l.Disarm()
		if id == "" {
			return
		}
		l.Collected(s.rests...)
		l.Check()
		s.end(l, id)
		l.Vanish(id)
	})
	return wrong, points, struck
}

// late returns the scenario on a cloud that makes the first address of a network
// its source NAT.
func (s scenario) late() scenario {
	s.setup = s.setup.With(func(s *servicetest.Setup) { s.Sim.LateSourceNAT = true })
	return s
}

// chosen returns the points at which processes die. want is PAWL_TEST_POINTS:
// "all", "kinds" for the first point of each kind, or a number, of which half are
// the first of a kind.
func chosen(points map[string]int, want string, otherwise int) []int {
	last, most := 0, otherwise
	for _, n := range points {
		last = max(last, n)
	}
	firsts := slices.Sorted(maps.Values(points))
	switch n, err := strconv.Atoi(want); {
	case want == "all":
		return spread(seq(last), last)
	case want == "kinds":
		return firsts
	case err == nil:
		most = n
	}
	at := append(spread(firsts, (most+1)/2), spread(seq(last), most/2)...)
	slices.Sort(at)
	return slices.Compact(at)
}

// spread returns n items of a list at equal distances.
func spread(all []int, n int) []int {
	n = min(n, len(all))
	some := make([]int, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}

func seq(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// TestExplore kills the process before, during and after calls of the provider,
// and before and after writes, in every operation and with every failure policy.
// Another process continues. PAWL_TEST_POINTS=all tries every point.
func TestExplore(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong, points, _ := s.play(t)
			if len(wrong) > 0 {
				t.Fatalf("nobody was killed, and yet:\n%s", strings.Join(wrong, "\n"))
			}
			t.Logf("%d points of %d kinds", slices.Max(slices.Collect(maps.Values(points))), len(points))
			late := s.late()
			if wrong, _, _ = late.play(t); len(wrong) > 0 {
				t.Fatalf("late source NAT: nobody was killed, and yet:\n%s", strings.Join(wrong, "\n"))
			}
			want := os.Getenv("PAWL_TEST_POINTS")
			for i, at := range chosen(points, want, 12) {
				for mode, s := range map[string]scenario{"": s, ", late source NAT": late} {
					if want == "" && (i%2 == 1) != (mode != "") {
						continue // a sample alternates between the two clouds
					}
					t.Run(fmt.Sprint(at, mode), func(t *testing.T) {
						wrong, _, struck := s.play(t, at)
						if len(wrong) > 0 {
							t.Errorf("%d died\n%s", struck, strings.Join(wrong, "\n"))
						}
					})
				}
			}
		})
	}
}

// TestExploreTwice kills the process, and then the one that continues.
func TestExploreTwice(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, points, _ := s.play(t)
			pairs := chosen(points, os.Getenv("PAWL_TEST_POINTS"), 3)
			for i, at := range pairs {
				second := 1 + i*37%200
				s := s
				if i%2 == 1 {
					s = s.late()
				}
				t.Run(fmt.Sprintf("%d and %d", at, second), func(t *testing.T) {
					if wrong, _, struck := s.play(t, at, second); len(wrong) > 0 {
						t.Errorf("%d died\n%s", struck, strings.Join(wrong, "\n"))
					}
				})
			}
		})
	}
}
