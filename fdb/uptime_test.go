package fdb_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func TestMinimumUptime(t *testing.T) {
	const first = "cluster/processes/p-storage-1/"
	for _, c := range []struct {
		name        string
		doc         func(tree)
		recent, old time.Duration // of 7.3.69, of 7.1.21
	}{
		{"since the recovery", func(tree) {}, 5000250 * time.Millisecond, 5000250 * time.Millisecond},
		{"the recovery is later", setting(since, 7), 7 * time.Second, 5000250 * time.Millisecond},
		{"a process is younger", setting(first+"uptime_seconds", 85.5), 85500 * time.Millisecond, 85500 * time.Millisecond},
		{"a process says 0", setting(first+"uptime_seconds", 0), 5000250 * time.Millisecond, 5000250 * time.Millisecond},
		{"an excluded process is younger", setAll(map[string]any{first + "uptime_seconds": 85.5, first + "excluded": true}), 5000250 * time.Millisecond, 5000250 * time.Millisecond},
		{"a tester is younger", setAll(map[string]any{first + "uptime_seconds": 85.5, first + "class_type": "test"}), 5000250 * time.Millisecond, 5000250 * time.Millisecond},
		{"a process says nothing", func(doc tree) { take(doc, first+"uptime_seconds") }, 0, 0},
		{"an excluded process says nothing", func(doc tree) {
			take(doc, first+"uptime_seconds")
			set(doc, first+"excluded", true)
		}, 5000250 * time.Millisecond, 5000250 * time.Millisecond},
		{"not recovered", setting(since, -1), 0, 5000250 * time.Millisecond},
		{"the recovery is not known", func(doc tree) { take(doc, since) }, 0, 5000250 * time.Millisecond},
		{"no processes", setting("cluster/processes", tree{}), 0, 0},
	} {
		doc := document(sample())
		c.doc(doc)
		s := parse(t, doc)
		if got := fdb.MinimumUptime(s, now73); got != c.recent {
			t.Errorf("%s: %s instead of %s", c.name, got, c.recent)
		}
		if got := fdb.MinimumUptime(s, old71); got != c.old {
			t.Errorf("%s before 7.1.22: %s instead of %s", c.name, got, c.old)
		}
	}
	if got := fdb.MinimumUptime(nil, now73); got != 0 {
		t.Errorf("without a status: %s", got)
	}
	only0 := document([]server{{id: "storage-1", class: "storage", address: "10.0.0.1:4501"}})
	set(only0, first+"uptime_seconds", 0)
	if got := fdb.MinimumUptime(parse(t, only0), old71); got != 0 {
		t.Errorf("if all say 0: %s", got)
	}
}

// TestMinimumUptimeIsTheLeast: no process that counts is younger, and large numbers stay large.
func TestMinimumUptimeIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &fdb.Status{}
		recovered := rapid.Float64Range(0, 1e12).Draw(t, "recovered")
		s.Cluster.RecoveryState.SecondsSinceLastRecovered = &recovered
		for range rapid.IntRange(1, 5).Draw(t, "processes") {
			s.Cluster.Processes = append(s.Cluster.Processes, fdb.Process{UptimeSeconds: new(rapid.Float64Range(0, 1e12).Draw(t, "uptime")), Excluded: new(rapid.Bool().Draw(t, "excluded"))})
		}
		got := fdb.MinimumUptime(s, now73)
		if got < 0 || got.Seconds() > recovered+1 {
			t.Fatalf("%s, recovered %g s ago", got, recovered)
		}
		for _, p := range s.Cluster.Processes {
			if !*p.Excluded && *p.UptimeSeconds > 0 && got.Seconds() > *p.UptimeSeconds+1 {
				t.Fatalf("%s, a process is up for %g s", got, *p.UptimeSeconds)
			}
		}
	})
}
