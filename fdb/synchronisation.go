package fdb

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// SynchronisationWait is how long the lists must have been quiet before a common action runs.
const SynchronisationWait = 30 * time.Second

// exclusionPatience is how long an exclusion waits at least for groups that do not become ready
// (internal/coordination/coordination.go at 2.33.0).
const exclusionPatience = 5 * time.Minute

// AllReady says whether a common action may run: the ready groups are exactly the pending ones, and no
// entry of either list is younger than wait. A wait of 0 or less is SynchronisationWait. Groups of
// class test take no part.
func AllReady(pending, ready map[string]time.Time, now time.Time, wait time.Duration) bool {
	pending, ready = withoutTests(pending), withoutTests(ready)
	return len(missing(pending, ready)) == 0 && len(pending) == len(ready) && quiet(pending, ready, now) >= defaultWait(wait)
}

// ReadyToExclude returns the groups that may be excluded now, in order, and whether the exclusion may
// run. Other than AllReady it goes on with the groups that are ready once nothing has changed for five
// waits, and at least five minutes: groups that never become ready must not hold up the others.
func ReadyToExclude(pending, ready map[string]time.Time, now time.Time, wait time.Duration) ([]string, bool) {
	pending, ready = withoutTests(pending), withoutTests(ready)
	wait = defaultWait(wait)
	least := wait
	switch late := missing(pending, ready); {
	case len(late) > 0:
		least = max(5*wait, exclusionPatience)
	case len(pending) != len(ready): // somebody is about to withdraw or to join
		return nil, false
	}
	if quiet(pending, ready, now) < least {
		return nil, false
	}
	maps.DeleteFunc(ready, func(group string, _ time.Time) bool { _, wanted := pending[group]; return !wanted })
	return slices.Sorted(maps.Keys(ready)), true
}

func defaultWait(wait time.Duration) time.Duration {
	if wait <= 0 {
		return SynchronisationWait
	}
	return wait
}

// withoutTests returns a copy without the groups of class test.
func withoutTests(groups map[string]time.Time) map[string]time.Time {
	kept := make(map[string]time.Time, len(groups))
	for group, t := range groups {
		if class, _, _ := strings.Cut(withoutPrefix(group), "-"); Class(class) != ClassTest {
			kept[group] = t
		}
	}
	return kept
}

// withoutPrefix is class and number of an id, [prefix-]class-number.
func withoutPrefix(group string) string {
	last := strings.LastIndexByte(group, '-')
	if last < 0 {
		return group
	}
	return group[strings.LastIndexByte(group[:last], '-')+1:]
}

func missing(pending, ready map[string]time.Time) (late []string) {
	for group := range pending {
		if _, ok := ready[group]; !ok {
			late = append(late, group)
		}
	}
	return late
}

// quiet is how long nothing was added: neither a pending group, nor that a pending group is ready.
// Without entries it is the longest duration.
func quiet(pending, ready map[string]time.Time, now time.Time) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for group, t := range pending {
		shortest = min(shortest, now.Sub(t))
		if readySince, ok := ready[group]; ok {
			shortest = min(shortest, now.Sub(readySince))
		}
	}
	return shortest
}
