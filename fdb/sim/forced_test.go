package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestForcedRecovery: the primary data center and its satellite are lost for good, and with them a majority of the
// coordinators. What is left copies the coordination files, gets a new cluster file and recovers by force.
func TestForcedRecovery(t *testing.T) {
	f := datacenters(t, sim.Options{Seed: 1, Shards: 12}, []string{"dc1", "dc2"}, []string{"sat1"})
	run := func(text string, at fdb.Connection) sim.Answer {
		return f.Run(sim.Run{Argv: []string{"--exec", text, "--timeout", "40"}, Version: f.version, Connection: at})
	}
	one := fdb.Configuration{Regions: []fdb.Region{region("dc1", "sat1", 1)}}
	if a := run("configure new "+one.Text(), f.first); a.Exit != 0 {
		t.Fatal(a)
	}
	f.settle()
	f.write("key", []byte("value"))
	two := fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("dc1", "sat1", 1), region("dc2", "", 0)}}
	f.stages(two)
	f.settle()
	if a := run(fdb.ForceRecovery("dc2").Text(), f.Connection()); a.Exit != 0 || f.status().Cluster.ActivePrimaryDC != "dc1" {
		t.Fatal("a database that has recovered is recovered by force")
	}

	var left []string // in dc2
	addresses := map[string]fdb.Address{}
	for _, p := range f.status().Cluster.Processes {
		if name := p.Locality[fdb.InstanceLocality]; p.Locality[fdb.DatacenterLocality] == "dc2" {
			left = append(left, name)
			addresses[name] = p.Address
		} else {
			f.Stop(name)
		}
	}
	slices.Sort(left)
	f.Advance(10 * time.Minute)
	if f.Available() {
		t.Fatalf("a majority of the coordinators is left\n%s", f.lines())
	}
	s, err := fdb.ParseStatus(f.Status(f.Connection(), f.version))
	if err != nil || s.Client.Coordinators.QuorumReachable == nil || *s.Client.Coordinators.QuorumReachable {
		t.Fatalf("%v, %+v", err, s)
	}

	// The two coordinators of dc2 stay, and one more server becomes one.
	to := fdb.Connection{Description: f.Connection().Description, ID: f.Connection().ID}
	for _, name := range []string{"dc2-log-1", "dc2-log-2", "dc2-log-3"} {
		to.Coordinators = append(to.Coordinators, addresses[name])
	}
	f.CopyCoordination("dc2-log-1", "dc2-log-3")
	for _, name := range left {
		f.WriteClusterFile(name, to)
		f.Crash(name)
	}
	f.Advance(2 * time.Minute)
	s, err = fdb.ParseStatus(f.Status(to, f.version))
	if err != nil || s.Client.Coordinators.QuorumReachable == nil || !*s.Client.Coordinators.QuorumReachable {
		t.Fatalf("%v, %+v\n%s", err, s, f.lines())
	}
	if f.Available() {
		t.Fatal("it recovers without being forced: the logs of dc1 are gone")
	}
	for _, text := range []string{"force_recovery_with_data_loss", "force_recovery_with_data_loss dc2 dc1"} {
		if a := run(text, to); a.Exit == 0 {
			t.Errorf("%s: %+v", text, a)
		}
	}
	call := fdb.ForceRecovery("dc2")
	a := run(call.Text(), to)
	if r := fdb.Judge(call, f.version, a.Exit, a.Stdout, a.Stderr); r.Outcome != fdb.Ok {
		t.Fatal(r)
	}
	f.Advance(2 * time.Minute)
	s, err = fdb.ParseStatus(f.Status(to, f.version))
	if err != nil || !f.Available() || s.Cluster.ActivePrimaryDC != "dc2" || s.Cluster.Configuration.UsableRegions != 1 {
		t.Fatalf("%v, %+v\n%s", err, s, f.lines())
	}
	if got := get(t, f.Transaction(), "key"); got != "value" {
		t.Errorf("%q", got)
	}
	f.stages(fdb.Configuration{Regions: []fdb.Region{region("dc2", "", 1)}})
	f.clean()
}
