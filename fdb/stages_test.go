package fdb_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
)

// placed reads a configuration that a test writes: "A:1 B:-1 u2" has the main data centers A and B
// with the priorities 1 and -1, and usable_regions 2.
func placed(t testing.TB, text string) fdb.Configuration {
	t.Helper()
	var c fdb.Configuration
	for word := range strings.FieldsSeq(text) {
		if usable, ok := strings.CutPrefix(word, "u"); ok {
			c.UsableRegions, _ = strconv.Atoi(usable)
			continue
		}
		id, number, ok := strings.Cut(word, ":")
		priority, err := strconv.Atoi(number)
		if !ok || err != nil {
			t.Fatalf("%q is no region", word)
		}
		c.Regions = append(c.Regions, fdb.Region{Datacenters: []fdb.Datacenter{{ID: id, Priority: priority}}})
	}
	return c
}

// place writes a configuration as placed reads it.
func place(c fdb.Configuration) string {
	var words []string
	for _, region := range c.Normalized().Regions {
		words = append(words, fmt.Sprintf("%s:%d", region.Datacenters[0].ID, region.Datacenters[0].Priority))
	}
	return strings.Join(append(words, fmt.Sprintf("u%d", max(1, c.UsableRegions))), " ")
}

func TestStages(t *testing.T) {
	for _, test := range []struct {
		name, current, final string
		stages               []string
	}{
		{"nothing changes", "A:1 B:0 u2", "A:1 B:0 u2", nil},
		{"nothing changes, in another order", "A:1 B:0 u2", "B:0 A:1 u2", nil},
		{"fail over", "A:1 B:0 u2", "A:0 B:1 u2", []string{"B:1 A:0 u2"}},
		{"none to one", "u1", "A:1 u1", []string{"A:1 u1"}},
		{"none to two", "u1", "A:1 B:0 u2", []string{"A:1 B:-1 u1", "A:1 B:-1 u2", "A:1 B:0 u2"}},
		{"none to two, the second never primary", "u1", "A:1 B:-1 u2", []string{"A:1 B:-1 u1", "A:1 B:-1 u2"}},
		{"none to two with one usable", "u1", "A:1 B:0 u1", []string{"A:1 B:-1 u1", "A:1 B:0 u1"}},
		{"one to two", "A:1 u1", "A:1 B:0 u2", []string{"A:1 B:-1 u1", "A:1 B:-1 u2", "A:1 B:0 u2"}},
		{"one to two, and the new one is primary", "A:1 u1", "B:1 A:0 u2", []string{"A:1 B:-1 u1", "A:1 B:-1 u2", "B:1 A:0 u2"}},
		{"two to one", "A:1 B:0 u2", "A:1 u1", []string{"A:1 B:-1 u2", "A:1 B:-1 u1", "A:1 u1"}},
		{"two to the second", "A:1 B:0 u2", "B:1 u1", []string{"B:0 A:-1 u2", "B:0 A:-1 u1", "B:1 u1"}},
		{"two to the second, which was never primary", "A:1 B:-1 u2", "B:2 u1", []string{"B:2 A:-1 u2", "B:2 A:-1 u1", "B:2 u1"}},
		{"two to none", "A:1 B:0 u2", "u1", []string{"A:1 B:-1 u2", "A:1 B:-1 u1", "u1"}},
		{"one to none", "A:1 u1", "u1", []string{"u1"}},
		{"another single data center", "A:1 u1", "B:1 u1", []string{"A:1 B:-1 u1", "A:1 B:-1 u2", "B:1 A:-1 u2", "B:1 A:-1 u1", "B:1 u1"}},
		{"a third replaces the second", "A:1 B:0 u2", "A:1 C:0 u2", []string{
			"A:1 B:-1 u2", "A:1 B:-1 u1", "A:1 u1", "A:1 C:-1 u1", "A:1 C:-1 u2", "A:1 C:0 u2",
		}},
		{"a third replaces the first", "A:1 B:0 u2", "C:1 B:0 u2", []string{
			"B:0 A:-1 u2", "B:0 A:-1 u1", "B:0 u1", "B:0 C:-1 u1", "B:0 C:-1 u2", "C:1 B:0 u2",
		}},
		{"both are replaced", "A:1 B:0 u2", "C:1 D:0 u2", []string{
			"A:1 B:-1 u2", "A:1 B:-1 u1", "A:1 u1", "A:1 C:-1 u1", "A:1 C:-1 u2", "C:1 A:-1 u2", "C:1 A:-1 u1", "C:1 u1",
			"C:1 D:-1 u1", "C:1 D:-1 u2", "C:1 D:0 u2",
		}},
		{"the second is usable from now on", "A:1 B:0 u1", "A:1 B:0 u2", []string{"A:1 B:-1 u1", "A:1 B:-1 u2", "A:1 B:0 u2"}},
		{"the second is not usable any more", "A:1 B:0 u2", "A:1 B:-1 u1", []string{"A:1 B:-1 u2", "A:1 B:-1 u1"}},
		{"only the second is usable from now on", "A:1 B:0 u2", "B:1 A:0 u1", []string{"B:0 A:-1 u2", "B:0 A:-1 u1", "B:1 A:0 u1"}},
		{"left while the second was added, which is not wanted any more", "A:1 B:-1 u1", "A:1 u1", []string{"A:1 u1"}},
		{"left while the second was added, and another one is wanted", "A:1 B:-1 u1", "C:1 u1", []string{
			"A:1 u1", "A:1 C:-1 u1", "A:1 C:-1 u2", "C:1 A:-1 u2", "C:1 A:-1 u1", "C:1 u1",
		}},
		{"left on the way to another data center", "A:1 B:-1 u1", "B:1 u1", []string{"A:1 B:-1 u2", "B:1 A:-1 u2", "B:1 A:-1 u1", "B:1 u1"}},
		{"left with both active, on the way to another data center", "A:1 B:0 u1", "B:1 u1", []string{
			"A:1 B:-1 u1", "A:1 B:-1 u2", "B:1 A:-1 u2", "B:1 A:-1 u1", "B:1 u1",
		}},
		{"left before two became none", "A:1 B:-1 u1", "u1", []string{"u1"}},
		{"no way: two usable regions of one", "A:1 u1", "A:1 u2", []string{"A:1 u2"}},
		{"no way: three regions", "A:1 u1", "A:1 B:0 C:0 u2", []string{"A:1 B:0 C:0 u2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, stage := range fdb.Stages(placed(t, test.current), placed(t, test.final)) {
				got = append(got, place(stage))
			}
			if diff := cmp.Diff(test.stages, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Other fields wait for the last stage; the satellites of regions that stay come with the first.
func TestStagesOfOtherFields(t *testing.T) {
	wiggle := 1
	current := placed(t, "A:1 u1")
	current.RedundancyMode, current.StorageEngine, current.LogSpill = fdb.Double, "ssd-2", 2
	current.RoleCounts = fdb.RoleCounts{Logs: 3, Resolvers: 1, Proxies: 3, CommitProxies: 2, GRVProxies: 1}
	current.Regions[0].Datacenters = append(current.Regions[0].Datacenters, fdb.Datacenter{ID: "S", Priority: 1, Satellite: 1})
	final := placed(t, "A:1 B:0 u2")
	final.RedundancyMode, final.Logs, final.PerpetualStorageWiggle = fdb.Triple, 5, &wiggle
	final.Regions[0].SatelliteRedundancyMode, final.Regions[0].SatelliteLogs = "one_satellite_double", 4
	final.Regions[0].Datacenters = append(final.Regions[0].Datacenters, fdb.Datacenter{ID: "T", Priority: 1, Satellite: 1})

	stages := fdb.Stages(current, final)
	if len(stages) != 3 {
		t.Fatalf("there are %d stages", len(stages))
	}
	for _, stage := range stages[:2] {
		want := current
		want.LogSpill, want.UsableRegions = 0, stage.UsableRegions
		want.Regions = []fdb.Region{final.Regions[0], {Datacenters: []fdb.Datacenter{{ID: "B", Priority: -1}}}}
		if diff := cmp.Diff(want, stage); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(final, stages[2]); diff != "" {
		t.Error(diff)
	}

	// Without a change of regions it is one step, with the satellites.
	final = placed(t, "A:2 u1")
	final.RedundancyMode = fdb.Triple
	if stages := fdb.Stages(current, final); len(stages) != 1 || !cmp.Equal(stages[0], final) {
		t.Errorf("the stages are %+v", stages)
	}
}

// drawConfiguration draws a configuration that a database can have.
func drawConfiguration(t *rapid.T, label string) fdb.Configuration {
	count := func(name string, least int) int {
		return rapid.SampledFrom([]int{0, 0, -1, least, least + 3}).Draw(t, label+" "+name)
	}
	c := fdb.Configuration{
		RedundancyMode: rapid.SampledFrom([]fdb.Redundancy{"", fdb.Single, fdb.Double, fdb.Triple, fdb.ThreeDataHall}).Draw(t, label+" mode"),
		StorageEngine:  rapid.SampledFrom([]string{"", "ssd", "ssd-2", "memory", "ssd-redwood-1", "ssd-rocksdb-v1"}).Draw(t, label+" engine"),
		RoleCounts: fdb.RoleCounts{
			Storage: rapid.IntRange(0, 9).Draw(t, label+" storage"), Logs: count("logs", 1), Proxies: count("proxies", 2), CommitProxies: count("commit", 1),
			GRVProxies: count("grv", 1), Resolvers: count("resolvers", 1), LogRouters: count("routers", 1), RemoteLogs: count("remote", 1),
		},
		LogSpill:             rapid.IntRange(0, 2).Draw(t, label+" spill"),
		StorageMigrationType: rapid.SampledFrom([]string{"", "aggressive", "gradual"}).Draw(t, label+" migration"),
	}
	if rapid.Bool().Draw(t, label+" wiggles") {
		wiggle := rapid.IntRange(0, 1).Draw(t, label+" wiggle")
		c.PerpetualStorageWiggle = &wiggle
	}
	ids := rapid.Permutation([]string{"A", "B", "C", "D"}).Draw(t, label+" ids")[:rapid.IntRange(0, 2).Draw(t, label+" regions")]
	for i, id := range ids {
		priority := rapid.IntRange(-1, 3).Draw(t, label+" priority")
		if i == 0 {
			priority = max(0, priority)
		}
		region := fdb.Region{Datacenters: []fdb.Datacenter{{ID: id, Priority: priority}}}
		for _, satellite := range []string{"S", "T"}[:rapid.IntRange(0, 2).Draw(t, label+" satellites")] {
			region.Datacenters = append(region.Datacenters, fdb.Datacenter{ID: satellite, Priority: rapid.IntRange(0, 2).Draw(t, label+" satellite"), Satellite: 1})
			region.SatelliteRedundancyMode = rapid.SampledFrom([]string{"", "one_satellite_single", "one_satellite_double", "two_satellite_fast"}).Draw(t, label+" satellite mode")
			region.SatelliteLogs = rapid.IntRange(0, 4).Draw(t, label+" satellite logs")
		}
		region.Datacenters = rapid.Permutation(region.Datacenters).Draw(t, label+" order")
		c.Regions = append(c.Regions, region)
	}
	c.UsableRegions = rapid.IntRange(0, max(1, len(c.Regions))).Draw(t, label+" usable")
	return c
}

// settled is where the data are once a configuration has taken effect: in the primary, and in both
// regions if both are usable. Without regions they are where the next primary will be.
func settled(c, final fdb.Configuration) fdb.Placement {
	p := fdb.Placement{Zones: map[string][]string{}}
	for _, dc := range []string{"A", "B", "C", "D", "S", "T"} {
		for _, zone := range []string{"1", "2", "3", "4"} {
			p.Zones[dc] = append(p.Zones[dc], dc+zone)
		}
	}
	regions := c.Normalized().Regions
	if len(regions) == 0 {
		regions = final.Normalized().Regions[:min(1, len(final.Regions))]
	}
	for _, region := range regions[:min(len(regions), max(1, c.UsableRegions))] {
		p.Replicated = append(p.Replicated, region.Datacenters[0].ID)
	}
	p.Storage = p.Replicated
	return p
}

// moves tells which of the three parts of a region change differ.
func moves(a, b fdb.Configuration) (ids, priorities, usable bool) {
	before, after := a.Normalized(), b.Normalized()
	mains := func(c fdb.Configuration) map[string]int {
		all := map[string]int{}
		for _, region := range c.Regions {
			all[region.Datacenters[0].ID] = region.Datacenters[0].Priority
		}
		return all
	}
	was, is := mains(before), mains(after)
	for id, priority := range is {
		old, there := was[id]
		ids = ids || !there
		priorities = priorities || there && old != priority
	}
	for id := range was {
		_, there := is[id]
		ids = ids || !there
	}
	return ids, priorities, before.UsableRegions != after.UsableRegions
}

func TestStageRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current, final := drawConfiguration(t, "current"), drawConfiguration(t, "final")
		if current.RedundancyMode == "" || current.StorageEngine == "" {
			current.RedundancyMode, current.StorageEngine = fdb.Double, "ssd-2" // as the status reports them
		}
		if problems := append(current.Problems(), final.Problems()...); len(problems) > 0 {
			t.Fatalf("the drawn configurations are wrong: %v", problems)
		}
		final.StorageMigrationType = "gradual"
		stages := fdb.Stages(current, final)
		if !final.Differs(current) {
			if stages != nil {
				t.Fatalf("nothing changes, and there are %d stages", len(stages))
			}
			return
		}
		if len(stages) == 0 || len(stages) > 14 || !cmp.Equal(stages[len(stages)-1], final) {
			t.Fatalf("of %d stages the last is not final", len(stages))
		}
		for i, stage := range stages {
			if refusal := fdb.Refuses(current, stage, settled(current, final)); refusal.Reason != "" {
				t.Fatalf("stage %d, %s to %s, is refused: %+v", i, place(current), place(stage), refusal)
			}
			if !stage.Differs(current) {
				t.Fatalf("stage %d changes nothing", i)
			}
			ids, priorities, usable := moves(current, stage)
			if usable && (ids || priorities) {
				t.Fatalf("stage %d, %s to %s, changes usable_regions and regions", i, place(current), place(stage))
			}
			if i < len(stages)-1 && ids && priorities {
				t.Fatalf("stage %d, %s to %s, changes regions and priorities", i, place(current), place(stage))
			}
			if regions := stage.Normalized().Regions; len(stages) > 1 && len(regions) > 0 {
				if primary := regions[0].Datacenters[0].ID; !slices.Contains(settled(current, final).Replicated, primary) && (i < len(stages)-1 || ids) {
					t.Fatalf("stage %d, %s to %s, makes a data center without data the primary", i, place(current), place(stage))
				}
			}
			// What the database then reports: the stage, and what it left open.
			reported := stage
			if reported.LogSpill == 0 {
				reported.LogSpill = current.LogSpill
			}
			if reported.StorageMigrationType == "" {
				reported.StorageMigrationType = current.StorageMigrationType
			}
			if reported.PerpetualStorageWiggle == nil {
				reported.PerpetualStorageWiggle = current.PerpetualStorageWiggle
			}
			if i < len(stages)-1 {
				was, is := current.Normalized(), reported.Normalized()
				was.Regions, was.UsableRegions, was.LogRouters, was.RemoteLogs = is.Regions, is.UsableRegions, is.LogRouters, is.RemoteLogs
				if diff := cmp.Diff(was, is); diff != "" {
					t.Fatalf("stage %d changes more than regions: %s", i, diff)
				}
			}
			current = reported.Normalized()
			if rest := fdb.Stages(current, final); len(rest) != len(stages)-i-1 {
				t.Fatalf("after stage %d, %s, there are %d stages left, not %d", i, place(stage), len(rest), len(stages)-i-1)
			}
		}
	})
}
