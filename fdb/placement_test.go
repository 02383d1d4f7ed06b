package fdb_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
)

// regional is the status of a database with the usable regions east and west.
func regional() tree {
	servers := sample()
	for i := range servers {
		servers[i].dc, servers[i].lean = []string{"east", "west"}[i%2], true
	}
	doc := document(servers)
	set(doc, "cluster/active_primary_dc", "east")
	set(doc, "cluster/configuration/usable_regions", 2)
	set(doc, "cluster/configuration/regions", []any{
		tree{"datacenters": []any{tree{"id": "east", "priority": 1}}},
		tree{"datacenters": []any{tree{"id": "west", "priority": 0}}},
	})
	return doc
}

func TestPlacementOf(t *testing.T) {
	want := fdb.Placement{
		Zones: map[string][]string{
			"east": {"zone-1", "zone-3", "zone-5", "zone-7"}, // 9 is stateless
			"west": {"zone-2", "zone-4", "zone-6"},
		},
		Storage:    []string{"east", "west"},
		Replicated: []string{"east", "west"},
	}
	for _, test := range []struct {
		name   string
		change func(doc tree)
		want   func(p *fdb.Placement)
	}{
		{"at rest", func(tree) {}, func(*fdb.Placement) {}},
		{"not fully replicated", func(doc tree) { set(doc, "cluster/full_replication", false) }, func(p *fdb.Placement) { p.Replicated = []string{"east"} }},
		{"one usable region", func(doc tree) { set(doc, "cluster/configuration/usable_regions", 1) }, func(p *fdb.Placement) { p.Replicated = []string{"east"} }},
		{"the second is the primary", func(doc tree) { set(doc, "cluster/active_primary_dc", "west") }, func(p *fdb.Placement) { p.Replicated = []string{"west", "east"} }},
		{"storage in the east alone", func(doc tree) {
			for _, id := range []string{"p-storage-2", "p-storage-4"} {
				set(doc, "cluster/processes/"+id+"/roles", []any{})
			}
		}, func(p *fdb.Placement) { p.Storage = []string{"east"} }},
		{"roles that are not told", func(doc tree) {
			for _, id := range []string{"p-storage-2", "p-storage-4"} {
				take(doc, "cluster/processes/"+id+"/roles")
			}
		}, func(*fdb.Placement) {}},
		{"roles without a name", func(doc tree) {
			for _, id := range []string{"p-storage-2", "p-storage-4"} {
				take(doc, "cluster/processes/"+id+"/roles/0/role")
			}
		}, func(*fdb.Placement) {}},
		{"a server without a data center", func(doc tree) { take(doc, "cluster/processes/p-storage-1/locality/dcid") }, func(p *fdb.Placement) {
			p.Zones["east"], p.Zones[""] = p.Zones["east"][1:], []string{"zone-1"}
			p.Storage = []string{"", "east", "west"}
		}},
		{"a tester", func(doc tree) { set(doc, "cluster/processes/p-log-1/class_type", "test") }, func(p *fdb.Placement) {
			p.Zones["east"] = []string{"zone-1", "zone-3", "zone-7"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc, want := clone(t, regional()), fdb.Placement{Zones: map[string][]string{}, Storage: want.Storage, Replicated: want.Replicated}
			for dc, zones := range map[string][]string{"east": {"zone-1", "zone-3", "zone-5", "zone-7"}, "west": {"zone-2", "zone-4", "zone-6"}} {
				want.Zones[dc] = zones
			}
			test.change(doc)
			test.want(&want)
			if diff := cmp.Diff(want, fdb.PlacementOf(parse(t, doc))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if diff := cmp.Diff(fdb.Placement{Zones: map[string][]string{}}, fdb.PlacementOf(nil)); diff != "" {
		t.Error(diff)
	}
}

// What FoundationDB would refuse is still refused when a field of the status is missing.
func TestRefusesWithGaps(t *testing.T) {
	doc := regional()
	set(doc, "cluster/full_replication", false)
	live := placed(t, "east:1 west:-1 u2")
	for name, next := range map[string]fdb.Configuration{
		"fail over to what has not all data": placed(t, "west:1 east:0 u2"),
		"leave a data center with storage":   placed(t, "east:1 u1"),
		"more copies than zones":             {RedundancyMode: fdb.ThreeDataHall, Regions: live.Regions, UsableRegions: 2},
	} {
		if fdb.Refuses(live, next, fdb.PlacementOf(parse(t, doc))).Reason == "" {
			t.Errorf("to %s is not refused", name)
		}
		for _, path := range members(doc, "") {
			// Of a process that is not shown at all, or shown as another one, nothing is known.
			if strings.Count(path, "/") == 2 && strings.HasPrefix(path, "cluster/processes/") || path == "cluster" || path == "cluster/processes" {
				continue
			}
			back := take(doc, path)
			if fdb.Refuses(live, next, fdb.PlacementOf(parse(t, doc))).Reason == "" {
				t.Errorf("to %s is not refused without %s", name, path)
			}
			back()
		}
	}
}
