package fdb_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func TestJudgeMaintenance(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	one := []string{"storage-1"}
	finished, stale, waiting := fdb.MaintenanceVerdict{Finished: one}, fdb.MaintenanceVerdict{Stale: one}, fdb.MaintenanceVerdict{Waiting: one}
	const first = "cluster/processes/p-storage-1/"
	gone := func(doc tree) { take(doc, "cluster/processes/p-storage-1") }
	for _, c := range []struct {
		name   string
		age    time.Duration
		zone   string
		groups []string
		prefix string
		doc    func(tree) // storage-1 is in zone-1 and up for 1 h
		want   fdb.MaintenanceVerdict
	}{
		{name: "not restarted", age: 10 * time.Minute, zone: "zone-1", groups: one, want: waiting},
		{name: "restarted a second later", age: time.Hour + time.Second, zone: "zone-1", groups: one, want: finished},
		{name: "restarted at that time", age: time.Hour, zone: "zone-1", groups: one, want: waiting},
		{name: "restarted, in another zone", age: time.Hour + time.Second, zone: "zone-2", groups: one, want: finished},
		{name: "not restarted, for 5 h", age: 5 * time.Hour, zone: "zone-1", groups: one, doc: setting(first+"uptime_seconds", 6*3600), want: waiting},
		{name: "another zone, before 5 min", age: 5*time.Minute - time.Second, zone: "zone-2", groups: one, want: waiting},
		{name: "another zone, after 5 min", age: 5 * time.Minute, zone: "zone-2", groups: one},
		{name: "another zone, after 4 h", age: 4 * time.Hour, zone: "zone-2", groups: one, doc: setting(first+"uptime_seconds", 5*3600)},
		{name: "another zone, over 4 h", age: 4*time.Hour + time.Second, zone: "zone-2", groups: one, doc: setting(first+"uptime_seconds", 5*3600), want: stale},
		{name: "no maintenance any more", age: 5 * time.Minute, zone: "", groups: one},
		{name: "does not report", age: time.Hour, zone: "zone-1", groups: one, doc: gone, want: waiting},
		{name: "does not report for over 4 h", age: 4*time.Hour + time.Second, zone: "zone-1", groups: one, doc: gone, want: stale},
		{name: "ours and gone", age: time.Second, zone: "zone-1", doc: gone, want: stale},
		{name: "gone, but it reports", age: time.Second, zone: "zone-1", want: waiting},
		{name: "another's and gone", age: time.Hour, zone: "zone-1", prefix: "kc2", doc: gone, want: waiting},
		{name: "uptime unknown", age: 2 * time.Hour, zone: "zone-1", groups: one, doc: func(doc tree) { take(doc, first+"uptime_seconds") }, want: waiting},
		{name: "zone unknown", age: 2 * time.Hour, zone: "zone-1", groups: one, doc: func(doc tree) { take(doc, first+"locality/zoneid") }, want: waiting},
		{name: "two servers, one restarted", age: 2 * time.Hour, zone: "zone-1", groups: one, doc: func(doc tree) {
			set(doc, "cluster/processes/p-storage-2/locality/instance_id", "storage-1")
			set(doc, "cluster/processes/p-storage-2/uptime_seconds", 3*3600)
		}, want: waiting},
		{name: "two servers, both restarted", age: 2 * time.Hour, zone: "zone-1", groups: one, doc: func(doc tree) {
			set(doc, "cluster/processes/p-storage-2/locality/instance_id", "storage-1")
			set(doc, "cluster/processes/p-storage-2/uptime_seconds", 60)
		}, want: finished},
	} {
		doc := document(sample())
		set(doc, first+"uptime_seconds", 3600)
		if c.doc != nil {
			c.doc(doc)
		}
		got := fdb.JudgeMaintenance(map[string]time.Time{"storage-1": now.Add(-c.age)}, c.zone, c.prefix, c.groups, parse(t, doc), now, fdb.Limits{})
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	for id, prefix := range map[string]string{"kc1-storage-1": "kc1", "a-b-storage-1": "a-b", "old": "", "kc1-old": "kc1"} {
		got := fdb.JudgeMaintenance(map[string]time.Time{id: now}, "z", prefix, nil, &fdb.Status{}, now, fdb.Limits{})
		if ours := id != "old"; (len(got.Stale) == 1) != ours {
			t.Errorf("%s of %q: %+v", id, prefix, got)
		}
		if got := fdb.JudgeMaintenance(map[string]time.Time{id: now}, "z", "kc", nil, &fdb.Status{}, now, fdb.Limits{}); len(got.Waiting) != 1 {
			t.Errorf("%s is not of kc: %+v", id, got)
		}
	}
	if got := fdb.JudgeMaintenance(map[string]time.Time{"storage-1": now}, "zone-1", "", nil, nil, now, fdb.Limits{}); !slices.Equal(got.Waiting, one) {
		t.Errorf("without a status: %+v", got)
	}
}

// TestMaintenanceProperties: an entry is in one list at most; in the zone under maintenance none is
// lost; and who has not restarted is not finished.
func TestMaintenanceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		entries, s, started := map[string]time.Time{}, &fdb.Status{}, map[string]time.Time{}
		var groups []string
		zones := map[string]string{}
		for i := range rapid.IntRange(0, 6).Draw(t, "entries") {
			id := fmt.Sprintf("storage-%d", i+1)
			entries[id] = now.Add(-time.Duration(rapid.IntRange(0, 5*3600).Draw(t, "age")) * time.Second)
			if rapid.Bool().Draw(t, "ours") {
				groups = append(groups, id)
			}
			if rapid.Bool().Draw(t, "reports") {
				uptime := float64(rapid.IntRange(0, 6*3600).Draw(t, "uptime"))
				zones[id], started[id] = fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "zone")), now.Add(-time.Duration(uptime)*time.Second)
				s.Cluster.Processes = append(s.Cluster.Processes, fdb.Process{UptimeSeconds: &uptime, Locality: map[string]string{"instance_id": id, "zoneid": zones[id]}})
			}
		}
		v := fdb.JudgeMaintenance(entries, "0", "", groups, s, now, fdb.Limits{})
		seen := map[string]int{}
		for _, id := range slices.Concat(v.Finished, v.Stale, v.Waiting) {
			seen[id]++
		}
		for id := range entries {
			if seen[id] > 1 || seen[id] == 0 && zones[id] != "1" {
				t.Fatalf("%s is in %d lists: %+v", id, seen[id], v)
			}
		}
		for _, id := range v.Finished {
			if !started[id].After(entries[id]) {
				t.Fatalf("%s is finished: %+v", id, v)
			}
		}
	})
}
