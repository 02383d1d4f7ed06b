package foundationdb

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestRemovalBatch(t *testing.T) {
	groups := []RemovalGroup{
		{ID: "storage-1", Zone: "b"}, {ID: "log-2", Zone: "b"}, {ID: "log-1", Zone: "a"}, {ID: "log-3", Zone: "a"},
		{ID: "log-4", Zone: "c", Terminating: true}, {ID: "log-5", Zone: "c", Terminating: true}, {ID: "log-6", Zone: "c", Terminating: true},
	}
	for _, x := range []struct {
		name   string
		groups []RemovalGroup
		mode   v1beta2.PodUpdateMode
		want   string
	}{
		{"the zones are equal, the name decides", groups, "Zone", "a [log-1 log-3]"},
		{"the default is a zone", groups, "", "a [log-1 log-3]"},
		{"the larger zone", groups[:3], "Zone", "b [log-2 storage-1]"},
		{"no zone is known", []RemovalGroup{{ID: "x-1"}, {ID: "x-2"}, {ID: "x-3", Zone: "a"}}, "Zone", "foundationdb.org/unknown [x-1 x-2]"},
		{"those that go on are no batch", groups[4:], "Zone", " []"},
		{"one group", groups, "ProcessGroup", "a [log-1]"},
		{"one of those that go on is no batch", groups[4:], "ProcessGroup", " []"},
		{"all", groups, "All", "cluster [log-1 log-2 log-3 log-4 log-5 log-6 storage-1]"},
		{"none", groups, "None", "None []"},
		{"no groups", nil, "Zone", " []"},
	} {
		zone, ids, err := RemovalBatch(x.groups, x.mode)
		if got := fmt.Sprint(zone, " ", ids); got != x.want || err != nil {
			t.Errorf("%s: %s, %v, expected %s", x.name, got, err, x.want)
		}
	}
	if zone, ids, err := RemovalBatch(groups, "Rack"); fault.Of(err) != SpecInvalid || zone != "" || ids != nil {
		t.Errorf("an unknown mode: %s %v, %v", zone, ids, err)
	}
}

// TestFlaw10RandomZoneOrder: the batch does not depend on the order of the groups.
func TestFlaw10RandomZoneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) RemovalGroup {
			return RemovalGroup{
				ID:   rapid.StringMatching(`(log|storage)-[1-9]`).Draw(t, "id"),
				Zone: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone"), Terminating: rapid.Bool().Draw(t, "terminating"),
			}
		}), func(g RemovalGroup) string { return g.ID }).Draw(t, "groups")
		mode := rapid.SampledFrom([]v1beta2.PodUpdateMode{"All", "Zone", "ProcessGroup", "None"}).Draw(t, "mode")
		batch := func(groups []RemovalGroup) string {
			zone, ids, err := RemovalBatch(groups, mode)
			return fmt.Sprint(zone, ids, err)
		}
		before := slices.Clone(groups)
		first := batch(groups)
		if !slices.Equal(groups, before) {
			t.Fatal("the groups were changed")
		}
		if second := batch(rapid.Permutation(groups).Draw(t, "permuted")); first != second {
			t.Fatalf("%s and %s", first, second)
		}
	})
}

func TestRemovalWait(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, x := range []struct {
		last time.Time
		wait time.Duration
		want time.Duration
	}{
		{time.Time{}, time.Minute, 0},
		{now, time.Minute, time.Minute},
		{now.Add(-59 * time.Second), time.Minute, time.Second},
		{now.Add(-time.Minute), time.Minute, 0},
		{now.Add(-time.Hour), time.Minute, 0},
		{now, 0, 0},
	} {
		equal(t, x.last.String(), RemovalWait(x.last, now, x.wait), x.want)
	}
}
