package fdb

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSynchronisation(t *testing.T) {
	now := unix(1700000000)
	ago := func(ages map[string]time.Duration) map[string]time.Time {
		times := map[string]time.Time{}
		for group, age := range ages {
			times[group] = now.Add(-age)
		}
		return times
	}
	type ages = map[string]time.Duration
	const s, m = time.Second, time.Minute
	for _, c := range []struct {
		name           string
		pending, ready ages
		wait           time.Duration
		all            bool
		exclude        []string
		may            bool
	}{
		{"nothing", nil, nil, 0, true, nil, true},
		{"none is ready", ages{"storage-1": m}, nil, 0, false, nil, false},
		{"ready and quiet", ages{"storage-1": m}, ages{"storage-1": m}, 0, true, []string{"storage-1"}, true},
		{"quiet for 30 s", ages{"storage-1": 30 * s}, ages{"storage-1": 30 * s}, 0, true, []string{"storage-1"}, true},
		{"quiet for 29 s", ages{"storage-1": m}, ages{"storage-1": 29 * s}, 0, false, nil, false},
		{"pending for 29 s", ages{"storage-1": 29 * s}, ages{"storage-1": m}, 0, false, nil, false},
		{"wait of 10 s", ages{"storage-1": 10 * s}, ages{"storage-1": 10 * s}, 10 * s, true, []string{"storage-1"}, true},
		{"one of two", ages{"storage-1": m, "storage-2": m}, ages{"storage-1": m}, 0, false, nil, false},
		{"one of two after 5 min", ages{"storage-1": 5 * m, "storage-2": 5 * m}, ages{"storage-1": 5 * m}, 0, false, []string{"storage-1"}, true},
		{"one of two a second earlier", ages{"storage-1": 5 * m, "storage-2": 5*m - s}, ages{"storage-1": 5 * m}, 0, false, nil, false},
		{"one of two, five waits of 2 min", ages{"storage-1": 10 * m, "storage-2": 10 * m}, ages{"storage-1": 10 * m}, 2 * m, false, []string{"storage-1"}, true},
		{"one of two, a second before five waits", ages{"storage-1": 10 * m, "storage-2": 10*m - s}, ages{"storage-1": 10 * m}, 2 * m, false, nil, false},
		{"none of two after 5 min", ages{"storage-1": 5 * m, "storage-2": 5 * m}, nil, 0, false, nil, true},
		{"more ready than pending", ages{"storage-1": m}, ages{"storage-1": m, "storage-2": m}, 0, false, nil, false},
		{"another is ready", ages{"storage-1": 10 * m}, ages{"storage-2": 10 * m}, 0, false, nil, true},
		{"a tester waits", ages{"storage-1": m, "test-1": m}, ages{"storage-1": m}, 0, true, []string{"storage-1"}, true},
		{"a tester with a prefix waits", ages{"storage-1": m, "kc-1-test-1": s}, ages{"storage-1": m}, 0, true, []string{"storage-1"}, true},
		{"a clock that is ahead", ages{"storage-1": -m}, ages{"storage-1": m}, 0, false, nil, false},
	} {
		if all := AllReady(ago(c.pending), ago(c.ready), now, c.wait); all != c.all {
			t.Errorf("%s: all ready: %t", c.name, all)
		}
		exclude, may := ReadyToExclude(ago(c.pending), ago(c.ready), now, c.wait)
		if may != c.may || !slices.Equal(exclude, c.exclude) {
			t.Errorf("%s: exclude %v, %t", c.name, exclude, may)
		}
	}
}

func TestSynchronisationHolds(t *testing.T) {
	now := unix(1700000000)
	groups := rapid.MapOfN(rapid.SampledFrom([]string{"storage-1", "storage-2", "kc1-log-3", "kc1-test-4", "cluster_controller-5"}),
		rapid.Map(rapid.IntRange(-60, 900), func(age int) time.Time { return now.Add(-time.Duration(age) * time.Second) }), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		pending, ready := groups.Draw(t, "pending"), groups.Draw(t, "ready")
		p, r := maps.Clone(pending), maps.Clone(ready)
		exclude, may := ReadyToExclude(pending, ready, now, 0)
		if AllReady(pending, ready, now, 0) && (!may || len(exclude) != len(withoutTests(pending))) {
			t.Fatal("all are ready, and not all may be excluded")
		}
		for _, group := range exclude {
			_, wanted := pending[group]
			if _, isReady := ready[group]; !wanted || !isReady || !may {
				t.Fatalf("%s is excluded", group)
			}
		}
		if !maps.Equal(p, pending) || !maps.Equal(r, ready) {
			t.Fatal("the lists were changed")
		}
	})
}
