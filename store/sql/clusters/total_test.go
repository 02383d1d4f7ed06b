package clusters

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// A list shows changes of another process after a second, and changes of this process at
// once.
func TestListsAreKeptForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all recentCache[int]
		want := func(when string, want int) {
			t.Helper()
			if got, _ := all.get("k"); got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}
		want("nothing is known", 0)
		_, changes := all.get("k")
		all.put("k", 7, changes)
		time.Sleep(recentTTL - 1)
		want("just before", 7)
		time.Sleep(time.Nanosecond)
		want("a second later", 0)

		all.put("k", 8, changes)
		all.invalidate()
		want("after a change", 0)
		all.put("k", 8, changes)
		want("counted before the change", 0)
	})
}

// The cached totals and positions of many lists have a bounded size.
func TestListsAreBounded(t *testing.T) {
	var all recentCache[int]
	for i := range 3 * maxRecent {
		all.put(fmt.Sprint(i), 1, 0)
	}
	if n := len(all.entries); n > maxRecent {
		t.Errorf("%d totals are kept, at most %d are to be", n, maxRecent)
	}
}

// Adjacent arguments are not confused with other arguments.
func TestListKeysDiffer(t *testing.T) {
	if a, b := listKey("s", []any{"a", "b"}), listKey("s", []any{"a\x00b"}); a == b {
		t.Error("two lists of values have one key")
	}
}

// Cached facts about a list are cleared when the list may have changed: those of a
// steady list only when a cluster is created or removed.
func TestWhatAListForgets(t *testing.T) {
	for _, c := range []struct {
		name           string
		q              cluster.ClusterQuery
		by, whenMember bool
	}{
		{"all", cluster.ClusterQuery{}, false, true},
		{"of an account", cluster.ClusterQuery{AccountID: "a"}, false, true},
		{"in a state", cluster.ClusterQuery{State: cluster.Running}, true, true},
		{"of a name", cluster.ClusterQuery{Name: "a"}, true, true},
		{"with a word", cluster.ClusterQuery{Keyword: "a"}, true, true},
		{"in a network", cluster.ClusterQuery{Network: "n"}, true, true},
		{"destroyed ones too", cluster.ClusterQuery{WithDestroyed: true}, true, true},
	} {
		for came, want := range map[bool]bool{false: c.by, true: c.whenMember} {
			var all lists
			of := all.of(c.q)
			_, changes := of.starts.get("k")
			of.starts.put("k", listPosition{1, 2}, changes)
			of.totals.put("k", 3, 0)
			all.changed(came)
			start, _ := of.starts.get("k")
			total, _ := of.totals.get("k")
			if (start == listPosition{}) != want || (total == 0) != want {
				t.Errorf("%s: a cluster came or went %v: start %v and total %d are known", c.name, came, start, total)
			}
		}
	}
}

// A page stores where the next page begins. The last page and a page after a cluster
// store nothing.
func TestWhereAPageBegins(t *testing.T) {
	page := []cluster.Cluster{{ID: 7, Created: time.Unix(0, 70)}, {ID: 8, Created: time.Unix(0, 80)}}
	for _, c := range []struct {
		name string
		q    cluster.ClusterQuery
		next cluster.ClusterQuery
		want listPosition
	}{
		{"the first", cluster.ClusterQuery{Limit: 2}, cluster.ClusterQuery{Offset: 2}, listPosition{80, 8}},
		{"the second", cluster.ClusterQuery{Limit: 2, Offset: 2}, cluster.ClusterQuery{Offset: 4}, listPosition{80, 8}},
		{"another order", cluster.ClusterQuery{Limit: 2, NewestFirst: true}, cluster.ClusterQuery{Offset: 2}, listPosition{}},
		{"the last", cluster.ClusterQuery{Limit: 3}, cluster.ClusterQuery{Offset: 2}, listPosition{}},
		{"behind a cluster", cluster.ClusterQuery{Limit: 2, AfterID: 1}, cluster.ClusterQuery{Offset: 2}, listPosition{}},
		{"everything", cluster.ClusterQuery{Limit: -1}, cluster.ClusterQuery{Offset: 2}, listPosition{}},
	} {
		var l list
		l.rememberNext("k", c.q, page, 0)
		if got, _ := l.start("k", c.next); got != c.want {
			t.Errorf("%s: the next page begins behind %v, want %v", c.name, got, c.want)
		}
	}
}
