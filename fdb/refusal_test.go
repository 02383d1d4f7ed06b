package fdb_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
)

// zones returns n zones of a data center.
func zones(dc string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, dc+string(rune('0'+i)))
	}
	return all
}

func TestRefuses(t *testing.T) {
	off, on := fdb.Configuration{StorageMigrationType: "disabled"}, fdb.Configuration{StorageMigrationType: "gradual"}
	both := fdb.Placement{Zones: map[string][]string{"A": zones("A", 4), "B": zones("B", 4)}, Storage: []string{"A", "B"}, Replicated: []string{"A", "B"}}
	one := fdb.Placement{Zones: both.Zones, Storage: []string{"A"}, Replicated: []string{"A"}}
	satellite := func(c fdb.Configuration, mode string) fdb.Configuration {
		c.Regions = slices.Clone(c.Regions)
		c.Regions[0].SatelliteRedundancyMode = mode
		c.Regions[0].Datacenters = append(slices.Clone(c.Regions[0].Datacenters), fdb.Datacenter{ID: "S", Satellite: 1}, fdb.Datacenter{ID: "T", Satellite: 1})
		return c
	}
	mode := func(c fdb.Configuration, mode fdb.Redundancy) fdb.Configuration {
		c.RedundancyMode = mode
		return c
	}
	at := func(text string) fdb.Configuration { return placed(t, text) }
	with := func(p fdb.Placement, dc string, n int) fdb.Placement {
		p.Zones = map[string][]string{"A": p.Zones["A"], "B": p.Zones["B"]}
		p.Zones[dc] = zones(dc, n)
		return p
	}
	for _, test := range []struct {
		name       string
		live, next fdb.Configuration
		placement  fdb.Placement
		want       fdb.Reason
	}{
		{"nothing changes", at("A:1 B:0 u2"), at("A:1 B:0 u2"), both, ""},
		{"it is invalid", at("A:1 u1"), at("A:1 u2"), both, fdb.RefusedConfiguration},

		{"usable_regions alone", at("A:1 B:-1 u1"), at("A:1 B:-1 u2"), one, ""},
		{"with a priority", at("A:1 B:-1 u1"), at("A:2 B:-1 u2"), one, fdb.RefusedRegions},
		{"with the other priority", at("A:1 B:-1 u1"), at("A:1 B:-2 u2"), one, fdb.RefusedRegions},
		{"without a region", at("A:1 B:-1 u2"), at("A:1 u1"), one, fdb.RefusedRegions},
		{"with a new region", at("A:1 u1"), at("A:1 B:-1 u2"), one, ""},
		{"two are active", at("A:1 B:0 u1"), at("A:1 B:0 u2"), both, fdb.RefusedPriorities},
		{"two are active, and one leaves", at("A:1 B:0 u2"), at("A:1 B:0 u1"), both, fdb.RefusedPriorities},
		{"two are active, and usable_regions stays", at("A:1 B:-1 u2"), at("A:1 B:0 u2"), both, ""},

		{"the new one has not all data", at("A:1 B:-1 u2"), at("A:1 B:0 u2"), one, fdb.RefusedReplication},
		{"the new one is never primary", at("A:1 B:-1 u2"), at("A:2 B:-1 u2"), one, ""},
		{"no copy is needed", at("A:1 B:-1 u1"), at("A:1 B:0 u1"), one, ""},

		{"storage elsewhere", at("A:1 B:-1 u1"), at("A:1 u1"), both, fdb.RefusedStorage},
		{"no storage elsewhere", at("A:1 B:-1 u1"), at("A:1 u1"), one, ""},
		{"storage elsewhere, without regions", at("A:1 u1"), at("u1"), both, ""},
		{"storage without a data center", at("u1"), at("A:1 u1"), fdb.Placement{Zones: both.Zones, Storage: []string{""}}, fdb.RefusedStorage},

		{"four zones for three halls", at("u1"), mode(at("u1"), fdb.ThreeDataHall), fdb.Placement{Zones: map[string][]string{"": zones("a", 4)}}, ""},
		{"three zones for three halls", at("u1"), mode(at("u1"), fdb.ThreeDataHall), fdb.Placement{Zones: map[string][]string{"": zones("a", 3)}}, fdb.RefusedWorkers},
		{"three zones for triple", at("u1"), mode(at("u1"), fdb.Triple), fdb.Placement{Zones: map[string][]string{"": zones("a", 2), "A": zones("b", 1)}}, ""},
		{"two zones for triple", at("u1"), mode(at("u1"), fdb.Triple), fdb.Placement{Zones: map[string][]string{"": zones("a", 2), "A": zones("a", 2)}}, fdb.RefusedWorkers},
		{"no zone for single", at("u1"), mode(at("u1"), fdb.Single), fdb.Placement{}, fdb.RefusedWorkers},
		{"two zones in each region", at("A:1 u1"), at("A:1 B:-1 u1"), with(one, "B", 2), ""},
		{"one zone in a region", at("A:1 u1"), at("A:1 B:-1 u1"), with(one, "B", 1), fdb.RefusedWorkers},
		{"two zones of satellites", at("A:1 u1"), satellite(at("A:1 u1"), "one_satellite_double"), with(one, "S", 2), ""},
		{"one zone of satellites", at("A:1 u1"), satellite(at("A:1 u1"), "one_satellite_double"), with(one, "S", 1), fdb.RefusedWorkers},
		{"three zones of satellites", at("A:1 u1"), satellite(at("A:1 u1"), "two_satellite_fast"), with(one, "T", 3), fdb.RefusedWorkers},
		{"satellites of a region that is not active", at("B:1 u1"), satellite(at("A:-1 B:1 u1"), "one_satellite_double"), fdb.Placement{Zones: both.Zones}, ""},

		{"another engine while migration is off", off, fdb.Configuration{StorageEngine: "memory"}, both, fdb.RefusedMigration},
		{"another engine, and nothing is known of migration", fdb.Configuration{}, fdb.Configuration{StorageEngine: "memory"}, both, fdb.RefusedMigration},
		{"another engine, and migration is on", on, fdb.Configuration{StorageEngine: "memory"}, both, ""},
		{"another engine, and migration is switched on", off, fdb.Configuration{StorageEngine: "memory", StorageMigrationType: "aggressive"}, both, ""},
		{"another name of the engine", off, fdb.Configuration{StorageEngine: "ssd"}, both, ""},
	} {
		if got := fdb.Refuses(test.live, test.next, test.placement); got.Reason != test.want || (got.Message == "") != (test.want == "") {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

// Less is known, more is refused: a change that is refused stays so when a zone or a copy is taken away.
func TestRefusesRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, next := drawConfiguration(t, "live"), drawConfiguration(t, "next")
		known := func(label string) []string {
			return rapid.SliceOfDistinct(rapid.SampledFrom([]string{"A", "B", "C"}), rapid.ID).Draw(t, label)
		}
		p := fdb.Placement{Zones: map[string][]string{}, Storage: known("storage"), Replicated: known("replicated")}
		for _, dc := range []string{"", "A", "B", "C", "D", "S", "T"} {
			p.Zones[dc] = zones(dc, rapid.IntRange(0, 5).Draw(t, "zones of "+dc))
		}
		refused := fdb.Refuses(live, next, p).Reason
		less := fdb.Placement{Zones: map[string][]string{}, Storage: append(slices.Clone(p.Storage), known("more storage")...)}
		if len(p.Replicated) > 0 {
			less.Replicated = p.Replicated[1:]
		}
		for dc, all := range p.Zones {
			less.Zones[dc] = all[min(len(all), 1):]
		}
		if still := fdb.Refuses(live, next, less).Reason; refused != "" && still == "" {
			t.Fatalf("it was refused for %s, and is not when less is known", refused)
		}
		if fdb.Refuses(live, next, fdb.Placement{}).Reason == "" {
			t.Fatal("it is not refused when nothing is known")
		}
	})
}

func TestProblems(t *testing.T) {
	two := 2
	region := func(dcs ...fdb.Datacenter) fdb.Region { return fdb.Region{Datacenters: dcs} }
	main := fdb.Datacenter{ID: "a", Priority: 1}
	for _, test := range []struct {
		field string // of the only problem; empty: none
		c     fdb.Configuration
	}{
		{"", fdb.Configuration{}},
		{"redundancy_mode", fdb.Configuration{RedundancyMode: "double;kill"}},
		{"redundancy_mode", fdb.Configuration{RedundancyMode: "three_datacenter"}},
		{"storage_engine", fdb.Configuration{StorageEngine: "ssd new"}},
		{"storage_engine", fdb.Configuration{StorageEngine: "new"}},
		{"storage_engine", fdb.Configuration{StorageEngine: "none"}},
		{"", fdb.Configuration{StorageEngine: "ssd-redwood-1-experimental", PerpetualStorageWiggleEngine: "none"}},
		{"", fdb.Configuration{StorageEngine: "custom", PerpetualStorageWiggleEngine: "ssd-sharded-rocksdb"}},
		{"usable_regions", fdb.Configuration{UsableRegions: -1}},
		{"usable_regions", fdb.Configuration{UsableRegions: 3}},
		{"regions", fdb.Configuration{UsableRegions: 2}},
		{"regions", fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region(main)}}},
		{"", fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region(main), region(fdb.Datacenter{ID: "b"})}}},
		{"regions", fdb.Configuration{Regions: []fdb.Region{region(main), region(fdb.Datacenter{ID: "b"}), region(fdb.Datacenter{ID: "c"})}}},
		{"logs", fdb.Configuration{RoleCounts: fdb.RoleCounts{Logs: -2}}},
		{"", fdb.Configuration{RoleCounts: fdb.RoleCounts{Logs: -1, Proxies: -1, CommitProxies: -1, GRVProxies: -1, Resolvers: -1, LogRouters: -1, RemoteLogs: -1}}},
		{"", fdb.Configuration{RoleCounts: fdb.RoleCounts{Logs: 1, Proxies: 2, CommitProxies: 1, GRVProxies: 1, Resolvers: 1, LogRouters: 1, RemoteLogs: 1}}},
		{"proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{Proxies: 1}}},
		{"commit_proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{CommitProxies: -2}}},
		{"grv_proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{GRVProxies: -2}}},
		{"resolvers", fdb.Configuration{RoleCounts: fdb.RoleCounts{Resolvers: -2}}},
		{"log_routers", fdb.Configuration{RoleCounts: fdb.RoleCounts{LogRouters: -2}}},
		{"remote_logs", fdb.Configuration{RoleCounts: fdb.RoleCounts{RemoteLogs: -2}}},
		{"", fdb.Configuration{LogSpill: 2}},
		{"log_spill", fdb.Configuration{LogSpill: 3}},
		{"log_version", fdb.Configuration{LogVersion: -1}},
		{"", fdb.Configuration{StorageMigrationType: "gradual"}},
		{"storage_migration_type", fdb.Configuration{StorageMigrationType: "fast"}},
		{"perpetual_storage_wiggle", fdb.Configuration{PerpetualStorageWiggle: &two}},
		{"", fdb.Configuration{PerpetualStorageWiggleLocality: "0"}},
		{"perpetual_storage_wiggle_locality", fdb.Configuration{PerpetualStorageWiggleLocality: "a:b;c:d"}},
		{"perpetual_storage_wiggle_engine", fdb.Configuration{PerpetualStorageWiggleEngine: "a\"b"}},
		{"regions[0].datacenters[0].id", fdb.Configuration{Regions: []fdb.Region{region(fdb.Datacenter{ID: "a;b"})}}},
		{"regions[0].datacenters[0].id", fdb.Configuration{Regions: []fdb.Region{region(fdb.Datacenter{})}}},
		{"regions[0].datacenters[1].satellite", fdb.Configuration{Regions: []fdb.Region{region(main, fdb.Datacenter{ID: "b", Satellite: 2})}}},
		{"regions[0].datacenters[2].id", fdb.Configuration{Regions: []fdb.Region{region(main, fdb.Datacenter{ID: "b", Satellite: 1}, fdb.Datacenter{ID: "b", Satellite: 1})}}},
		{"regions[0].datacenters[1].id", fdb.Configuration{Regions: []fdb.Region{region(main, fdb.Datacenter{ID: "a", Satellite: 1})}}},
		{"regions[0].datacenters", fdb.Configuration{Regions: []fdb.Region{region(main, fdb.Datacenter{ID: "b"})}}},
		{"regions[1]", fdb.Configuration{Regions: []fdb.Region{region(main), region(main)}}},
		{"regions", fdb.Configuration{Regions: []fdb.Region{region(fdb.Datacenter{ID: "a", Priority: -1})}}},
		{"regions[0].satellite_redundancy_mode", fdb.Configuration{Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{main, {ID: "s", Satellite: 1}}, SatelliteRedundancyMode: "double"}}}},
		{"regions[0].satellite_redundancy_mode", fdb.Configuration{Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{main}, SatelliteRedundancyMode: "one_satellite_single"}}}},
		{"", fdb.Configuration{Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{main, {ID: "s", Satellite: 1}}, SatelliteRedundancyMode: "one_satellite_triple", SatelliteLogs: -1}}}},
		{"regions[0].satellite_logs", fdb.Configuration{Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{main}, SatelliteLogs: -2}}}},
	} {
		problems := test.c.Problems()
		switch {
		case test.field == "" && len(problems) > 0:
			t.Errorf("%+v has %v", test.c, problems)
		case test.field != "" && (len(problems) != 1 || problems[0].Field != test.field || problems[0].Message == ""):
			t.Errorf("%+v has %v, not one of %s", test.c, problems, test.field)
		}
	}
	// A region without a main data center has no priority either.
	none := fdb.Configuration{Regions: []fdb.Region{region(fdb.Datacenter{ID: "s", Satellite: 1})}}
	if problems := none.Problems(); len(problems) != 2 || problems[0].Field != "regions[0].datacenters" {
		t.Errorf("without a main data center: %v", problems)
	}
	none.Regions = append(none.Regions, none.Regions[0])
	if problems := none.Problems(); len(problems) != 3 { // not that both had the same one
		t.Errorf("twice without a main data center: %v", problems)
	}
}
