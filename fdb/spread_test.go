package fdb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func candidate(id, zone, dc string, priority int) fdb.Candidate {
	return fdb.Candidate{ID: id, Locality: map[string]string{"zoneid": zone, "dcid": dc}, Priority: priority}
}

func ids(candidates []fdb.Candidate) string {
	var found []string
	for _, c := range candidates {
		found = append(found, c.ID)
	}
	return strings.Join(found, " ")
}

func TestSpread(t *testing.T) {
	perZone := map[string]int{"zoneid": 1}
	for _, c := range []struct {
		name       string
		candidates []fdb.Candidate
		count      int
		fields     []string
		limits     map[string]int
		want       string
	}{
		{"none wanted", []fdb.Candidate{candidate("a", "1", "", 0)}, 0, nil, nil, ""},
		{"by id", []fdb.Candidate{candidate("c", "3", "", 0), candidate("a", "1", "", 0), candidate("b", "2", "", 0)}, 2, nil, nil, "a b"},
		{"priority before id", []fdb.Candidate{candidate("a", "1", "", 0), candidate("b", "2", "", 1)}, 2, nil, nil, "b a"},
		{"a new zone before priority", []fdb.Candidate{candidate("a", "1", "", 9), candidate("b", "1", "", 9), candidate("c", "2", "", 0)}, 2, nil, nil, "a c"},
		{"zones are shared when there are no more", []fdb.Candidate{candidate("a", "1", "", 0), candidate("b", "1", "", 0), candidate("c", "2", "", 0)}, 3, nil, nil, "a c b"},
		{"the data center used least", []fdb.Candidate{candidate("a", "1", "x", 0), candidate("b", "2", "x", 0), candidate("c", "3", "y", 0), candidate("d", "4", "y", 0)}, 3, nil, perZone, "a c b"},
		{"as many as the limit", []fdb.Candidate{candidate("a", "1", "x", 0), candidate("b", "2", "x", 0), candidate("c", "3", "y", 0)}, 3, nil, map[string]int{"dcid": 2}, "a c b"},
		{"one of a group", []fdb.Candidate{candidate("a", "1", "", 0), candidate("a", "2", "", 0), candidate("b", "3", "", 0)}, 2, nil, nil, "a b"},
		{"a limit on a field that is not spread", []fdb.Candidate{candidate("a", "1", "x", 2), candidate("b", "2", "x", 1), candidate("c", "3", "y", 0)}, 2, []string{"zoneid"}, map[string]int{"dcid": 1}, "a c"},
		{"only the given fields", []fdb.Candidate{candidate("a", "1", "x", 2), candidate("b", "2", "x", 1), candidate("c", "3", "y", 0)}, 2, []string{"zoneid"}, nil, "a b"},
	} {
		got, err := fdb.Spread(c.candidates, c.count, c.fields, c.limits)
		if err != nil || ids(got) != c.want {
			t.Errorf("%s: %s, %v instead of %s", c.name, ids(got), err, c.want)
		}
	}
}

func TestSpreadTooFew(t *testing.T) {
	for _, c := range []struct {
		candidates []fdb.Candidate
		count      int
		limits     map[string]int
		text       string
	}{
		{nil, 1, nil, "only 0 of 1"},
		{[]fdb.Candidate{candidate("a", "1", "", 0), candidate("b", "1", "", 0)}, 2, map[string]int{"zoneid": 1}, "only 1 of 2 could be selected from 2 candidates, with at most 1 in one zoneid"},
		{[]fdb.Candidate{candidate("a", "1", "x", 0), candidate("b", "2", "x", 0)}, 2, map[string]int{"zoneid": 1, "dcid": 1}, "with at most 1 in one dcid and 1 in one zoneid"},
		{[]fdb.Candidate{{ID: "a"}, {ID: "b"}}, 2, map[string]int{"zoneid": 1}, "only 1 of 2"}, // no zone is a zone too
	} {
		got, err := fdb.Spread(c.candidates, c.count, nil, c.limits)
		if !errors.Is(err, fdb.TooFewCandidates) || got != nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, %v instead of %q", got, err, c.text)
		}
	}
}

// TestSpreadProperties: no limit is exceeded, no group chosen twice, the order of the candidates is of
// no importance, a field of the first place is shared no more than needed, and where zones lie within
// data centers too few means that no choice would do.
func TestSpreadProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var candidates []fdb.Candidate
		for i := range rapid.IntRange(0, 14).Draw(t, "n") {
			zone := rapid.IntRange(0, 6).Draw(t, "zone")
			candidates = append(candidates, candidate(fmt.Sprintf("g%02d", i), fmt.Sprint(zone), fmt.Sprint(zone%3), rapid.IntRange(-1, 1).Draw(t, "priority")))
		}
		count := rapid.IntRange(0, 9).Draw(t, "count")
		limits := map[string]int{}
		for _, field := range []string{"zoneid", "dcid"} {
			if rapid.Bool().Draw(t, field) {
				limits[field] = rapid.IntRange(1, 4).Draw(t, field+" limit")
			}
		}
		got, err := fdb.Spread(candidates, count, nil, limits)
		again, againErr := fdb.Spread(rapid.Permutation(candidates).Draw(t, "order"), count, nil, limits)
		if ids(got) != ids(again) || (err == nil) != (againErr == nil) {
			t.Fatalf("%s, %v in one order, %s, %v in another", ids(got), err, ids(again), againErr)
		}
		if err != nil {
			if most := largest(candidates, limits); most >= count {
				t.Fatalf("%v, although %d can be selected", err, most)
			}
			return
		}
		if len(got) != count {
			t.Fatalf("%d of %d", len(got), count)
		}
		used, zones := map[string]map[string]int{"zoneid": {}, "dcid": {}}, map[string]int{}
		for _, c := range candidates {
			zones[c.Locality["zoneid"]]++
		}
		for _, c := range got {
			for field, counts := range used {
				counts[c.Locality[field]]++
			}
		}
		for field, limit := range limits {
			for value, n := range used[field] {
				if n > limit {
					t.Fatalf("%d in %s %s, at most %d", n, field, value, limit)
				}
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(strings.Fields(ids(got)))))) != count {
			t.Fatalf("%s: one is there twice", ids(got))
		}
		if _, limited := limits["dcid"]; !limited {
			for zone, n := range used["zoneid"] {
				for other, there := range zones {
					if used["zoneid"][other] < min(there, n-1) {
						t.Fatalf("%d in zone %s, %d of %d in zone %s", n, zone, used["zoneid"][other], there, other)
					}
				}
			}
		}
	})
}

// largest is how many can be selected at most when each zone lies in one data center.
func largest(candidates []fdb.Candidate, limits map[string]int) int {
	limit := func(field string, n int) int {
		if most, limited := limits[field]; limited {
			return min(n, most)
		}
		return n
	}
	zones, dcs := map[string]int{}, map[string]int{}
	for _, c := range candidates {
		zones[c.Locality["dcid"]+"/"+c.Locality["zoneid"]]++
	}
	for zone, n := range zones {
		dc, _, _ := strings.Cut(zone, "/")
		dcs[dc] += limit("zoneid", n)
	}
	total := 0
	for _, n := range dcs {
		total += limit("dcid", n)
	}
	return total
}
