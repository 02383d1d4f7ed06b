package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// region is a region of two data centers: the main one, and a satellite.
func region(main, satellite string, priority int) fdb.Region {
	r := fdb.Region{Datacenters: []fdb.Datacenter{{ID: main, Priority: priority}}}
	if satellite != "" {
		r.Datacenters = append(r.Datacenters, fdb.Datacenter{ID: satellite, Priority: 1, Satellite: 1})
		r.SatelliteLogs, r.SatelliteRedundancyMode = 3, "one_satellite_double"
	}
	return r
}

// datacenters starts servers in data centers; those of satellites have logs only.
func datacenters(t testing.TB, o sim.Options, mains, satellites []string) *fixture {
	t.Helper()
	f := &fixture{Cluster: sim.New(o), t: t, version: version("7.3.69"), first: fdb.Connection{Description: "sample", ID: "first"}}
	var servers []sim.Server
	add := func(dc string, class fdb.Class, count int) {
		for n := 1; n <= count; n++ {
			server := f.server(class, n)
			server.Name = dc + "-" + server.Name
			server.Folder = server.Name
			server.Locality[fdb.InstanceLocality] = server.Name
			server.Locality[fdb.ZoneLocality] = "node-" + server.Name
			server.Locality[fdb.DatacenterLocality] = dc
			servers = append(servers, server)
		}
	}
	for _, dc := range mains {
		add(dc, fdb.ClassStorage, 4)
		add(dc, fdb.ClassLog, 4)
		add(dc, fdb.ClassStateless, 6)
	}
	for _, dc := range satellites {
		add(dc, fdb.ClassLog, 4)
	}
	for _, dc := range append(slices.Clone(mains), satellites...) {
		at := slices.IndexFunc(servers, func(s sim.Server) bool {
			return s.Locality[fdb.DatacenterLocality] == dc && s.Class == fdb.ClassLog
		})
		for i := range 2 {
			f.first.Coordinators = append(f.first.Coordinators, servers[at+i].Addresses[0])
		}
	}
	for _, server := range servers {
		server.Connection = f.first
		f.Start(server)
	}
	f.Advance(10 * time.Second)
	return f
}

// configured tells whether the live configuration is the wanted one.
func (f *fixture) configured(want fdb.Configuration) bool {
	live := f.status().Cluster.Configuration
	return live != nil && !want.Differs(*live)
}

// stages takes a database to a configuration by the stages of fdb.Stages, as an operator does.
func (f *fixture) stages(want fdb.Configuration) (count int) {
	f.t.Helper()
	for range 30 {
		live := *f.status().Cluster.Configuration
		next := fdb.Stages(live, want)
		if len(next) == 0 {
			return count
		}
		count++
		for try := 0; ; try++ {
			a := f.Run(sim.Run{Argv: []string{"--exec", "configure " + next[0].Text(), "--timeout", "60"}, Version: f.version, Connection: f.Connection()})
			if a.Exit == 0 {
				break
			}
			if try == 60 {
				f.t.Fatalf("configure %s: %s%s\n%s", next[0].Text(), a.Stdout, a.Stderr, f.lines())
			}
			f.Advance(time.Minute)
		}
		f.settle()
		f.Advance(2 * time.Minute)
	}
	f.t.Fatal("no end of stages")
	return 0
}

// TestRegions: a database gets a second region, fails over, and goes back to one, by the published stages.
func TestRegions(t *testing.T) {
	f := datacenters(t, sim.Options{Seed: 1, Shards: 12}, []string{"dc1", "dc2"}, []string{"sat1", "sat2"})
	one := fdb.Configuration{Regions: []fdb.Region{region("dc1", "sat1", 1)}}
	a := f.Run(sim.Run{Argv: []string{"--exec", "configure new " + one.Text(), "--timeout", "60"}, Version: f.version, Connection: f.first})
	if a.Exit != 0 {
		t.Fatal(a)
	}
	f.settle()
	f.Connect(sim.Client{Address: "10.9.0.1:5000", Versions: []fdb.Version{f.version}, Writes: time.Second})
	two := fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("dc1", "sat1", 1), region("dc2", "sat2", 0)}}
	if got := f.stages(two); got != 3 {
		t.Errorf("%d stages to two regions", got)
	}
	s := f.status()
	if !f.configured(two) || s.Cluster.ActivePrimaryDC != "dc1" || len(s.Cluster.Data.TeamTrackers) != 2 {
		t.Fatalf("%+v", s.Cluster.Data)
	}
	if v := fdb.FullFaultTolerance(s); !v.Open {
		t.Error(v)
	}
	other := fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("dc1", "sat1", 0), region("dc2", "sat2", 1)}}
	f.stages(other)
	if got := f.status().Cluster.ActivePrimaryDC; got != "dc2" {
		t.Errorf("the primary is %s\n%s", got, f.lines())
	}
	for _, kind := range []string{"storage", "log", "stateless"} {
		for n := 1; n <= 6; n++ {
			f.Cut(fmt.Sprintf("dc2-%s-%d", kind, n), true)
		}
	}
	f.Advance(2 * time.Minute)
	if !f.Available() || f.status().Cluster.ActivePrimaryDC != "dc1" {
		t.Fatalf("no fail over\n%s", f.lines())
	}
	for _, kind := range []string{"storage", "log", "stateless"} {
		for n := 1; n <= 6; n++ {
			f.Cut(fmt.Sprintf("dc2-%s-%d", kind, n), false)
		}
	}
	f.settle()
	last := fdb.Configuration{Regions: []fdb.Region{region("dc2", "sat2", 1)}}
	f.stages(last)
	if s := f.status(); !f.configured(last) || s.Cluster.ActivePrimaryDC != "dc2" || len(s.Cluster.Data.TeamTrackers) != 1 {
		t.Error(f.lines())
	}
	if w := f.Written("10.9.0.1:5000"); len(w.Missing) > 0 {
		t.Errorf("%d of %d keys are missing", len(w.Missing), w.Acknowledged)
	}
	f.clean()
}

// TestStages: fdb.Stages lead from any regions to any others; no stage is refused, and nothing is lost.
func TestStages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := datacenters(t, sim.Options{Seed: 1, Shards: 4}, []string{"dc1", "dc2", "dc3"}, []string{"sat1", "sat2"})
		drawn := func(name string) fdb.Configuration {
			regions := rapid.SampledFrom([][]fdb.Region{
				{region("dc1", "", 1)}, {region("dc1", "sat1", 1)}, {region("dc2", "sat2", 1)}, {region("dc3", "", 1)},
				{region("dc1", "sat1", 1), region("dc2", "sat2", 0)}, {region("dc1", "", 0), region("dc2", "", 1)}, {region("dc3", "", 1), region("dc2", "sat2", 0)},
			}).Draw(rt, name)
			return fdb.Configuration{UsableRegions: len(regions), Regions: regions}
		}
		first, last := drawn("first"), drawn("last")
		begin := fdb.Configuration{Regions: first.Regions[:1]}
		if begin.Regions[0].Datacenters[0].Priority < 1 {
			begin.Regions = first.Regions[1:]
		}
		if a := f.Run(sim.Run{Argv: []string{"--exec", "configure new " + begin.Text(), "--timeout", "60"}, Version: f.version, Connection: f.first}); a.Exit != 0 {
			rt.Fatal(a)
		}
		f.settle()
		f.write("key", []byte("value"))
		f.stages(first)
		f.stages(last)
		f.settle()
		if got := get(t, f.Transaction(), "key"); got != "value" || !f.configured(last) {
			rt.Fatalf("%s\n%s", got, f.lines())
		}
		for _, v := range f.Violations() {
			rt.Fatalf("%s\n%s", v, f.lines())
		}
	})
}

// TestThreeDataHall: copies are in three halls, and one hall can be lost.
func TestThreeDataHall(t *testing.T) {
	f := newFixture(t, shape{options: sim.Options{Seed: 1}})
	var servers []sim.Server
	for n := range 27 {
		class := []fdb.Class{fdb.ClassStorage, fdb.ClassLog, fdb.ClassStateless}[n/3%3]
		server := f.server(class, n+1)
		server.Locality[fdb.DataHallLocality] = []string{"a", "b", "c"}[n%3]
		if class == fdb.ClassLog && len(f.first.Coordinators) < 9 {
			f.first.Coordinators = append(f.first.Coordinators, server.Addresses[0])
		}
		servers = append(servers, server)
	}
	for _, server := range servers {
		server.Connection = f.first
		f.Start(server)
	}
	f.Advance(10 * time.Second)
	f.do("configure new three_data_hall ssd logs=4")
	f.settle()
	for _, server := range servers {
		if server.Locality[fdb.DataHallLocality] == "a" {
			f.Stop(server.Name)
		}
	}
	f.Advance(time.Minute)
	s := f.status()
	if !f.Available() || *s.Cluster.Data.State.MinReplicasRemaining != 2 {
		t.Errorf("%+v\n%s", s.Cluster.Data, f.lines())
	}
	for _, server := range servers {
		if server.Locality[fdb.DataHallLocality] == "a" {
			f.Start(server)
		}
	}
	f.settle()
	f.clean()
}

// TestRefuses: fdb.Refuses says of a change what the model does with it.
func TestRefuses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := datacenters(t, sim.Options{Seed: 1, Shards: 4}, []string{"dc1", "dc2"}, []string{"sat1"})
		drawn := func(name string) fdb.Configuration {
			return fdb.Configuration{
				RedundancyMode: rapid.SampledFrom([]fdb.Redundancy{fdb.Single, fdb.Double, fdb.Triple}).Draw(rt, name+" redundancy"),
				StorageEngine:  rapid.SampledFrom([]string{"ssd-2", "ssd-rocksdb-v1"}).Draw(rt, name+" engine"),
				UsableRegions:  rapid.IntRange(1, 2).Draw(rt, name+" usable"),
				Regions: rapid.SampledFrom([][]fdb.Region{
					nil, {region("dc1", "", 1)}, {region("dc1", "sat1", 1)}, {region("dc1", "", 1), region("dc2", "", -1)},
					{region("dc1", "", 1), region("dc2", "", 0)}, {region("dc1", "", -1), region("dc2", "", 1)}, {region("dc2", "", 1)}, {region("dc3", "", 1)},
				}).Draw(rt, name+" regions"),
				StorageMigrationType: rapid.SampledFrom([]string{"", "aggressive"}).Draw(rt, name+" migration"),
			}
		}
		first := drawn("first")
		first.UsableRegions = 1
		run := func(text string) sim.Answer {
			return f.Run(sim.Run{Argv: []string{"--exec", text, "--timeout", "300"}, Version: f.version, Connection: f.first})
		}
		if len(first.Problems()) > 0 || run("configure new "+first.Text()).Exit != 0 {
			rt.Skip("not made")
		}
		f.Advance(2 * time.Minute)
		if !f.Available() {
			rt.Skip("not available")
		}
		for range 3 {
			for range 30 {
				if f.Advance(time.Minute); f.Unhealthy() == "" {
					break
				}
			}
			if f.Unhealthy() != "" {
				rt.Skip("not healthy")
			}
			s := f.status()
			live := *s.Cluster.Configuration
			next := drawn("next")
			refusal := fdb.Refuses(live, next, fdb.PlacementOf(s))
			a := run("configure " + next.Text())
			if refused := a.Exit != 0; refused != (refusal.Reason != "") {
				rt.Fatalf("from %s\nto %s\nfdb.Refuses: %+v\nthe model: exit %d %s%s", live.Text(), next.Text(), refusal, a.Exit, a.Stdout, a.Stderr)
			}
			if result := fdb.Judge(fdb.Configure(next, false), f.version, a.Exit, a.Stdout, a.Stderr); refusal.Reason != "" && result.Reason != refusal.Reason {
				rt.Fatalf("from %s\nto %s\nfdb.Refuses: %s\nfdb.Judge: %s", live.Text(), next.Text(), refusal.Reason, result)
			}
		}
	})
}
