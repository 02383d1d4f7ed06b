package fdb_test

import (
	"testing"

	"github.com/pawl-dev/pawl/fdb"
)

const tolerance = fdb.Gate("FullFaultTolerance")

func tracker(primary bool, left any) tree {
	return tree{"primary": primary, "state": tree{"healthy": true, "min_replicas_remaining": left, "name": "healthy"}}
}

// toleranceChanges has both sides of each boundary of full fault tolerance.
func toleranceChanges() []change {
	reduced := map[fdb.Gate]string{tolerance: fdb.FaultToleranceReduced}
	incomplete := map[fdb.Gate]string{tolerance: fdb.StatusIncomplete}
	logs := func(sets ...any) func(tree) { return setting("cluster/logs", sets) }
	regions := func(more func(tree)) func(tree) {
		return func(doc tree) {
			set(doc, "cluster/configuration/usable_regions", 2)
			set(doc, "cluster/configuration/regions", []any{tree{"datacenters": []any{tree{"id": "a"}}}, tree{"datacenters": []any{tree{"id": "b"}}}})
			set(doc, "cluster/data/team_trackers", []any{tracker(true, 2), tracker(false, 2)})
			set(doc, "cluster/logs", []any{tree{"current": true, "log_fault_tolerance": 1, "log_replication_factor": 2, "remote_log_fault_tolerance": 1, "remote_log_replication_factor": 2, "satellite_log_fault_tolerance": 1, "satellite_log_replication_factor": 2}})
			more(doc)
		}
	}
	return []change{
		{"as it should be", func(tree) {}, nil},
		{"not available", setting("client/database_status/available", false), map[fdb.Gate]string{tolerance: fdb.DatabaseUnavailable}},
		{"incomplete", setting("client/messages", message("status_incomplete")), incomplete},
		{"one replica of two", setting("cluster/data/team_trackers/0/state/min_replicas_remaining", 1), reduced},
		{"two replicas of three", setting("cluster/configuration/redundancy_mode", "triple"), reduced},
		{"one replica of one", setAll(map[string]any{"cluster/configuration/redundancy_mode": "single", "cluster/data/team_trackers": []any{tracker(true, 1)}}), nil},
		{"three replicas of three halls", setAll(map[string]any{"cluster/configuration/redundancy_mode": "three_data_hall", "cluster/data/team_trackers": []any{tracker(true, 3)}}), nil},
		{"a redundancy nobody knows", setting("cluster/configuration/redundancy_mode", "fourfold"), incomplete},
		{"no teams", setting("cluster/data/team_trackers", []any{}), incomplete},
		{"a team that says nothing", setting("cluster/data/team_trackers", []any{tracker(true, 2), tree{}}), incomplete},
		{"one log lost", setting("cluster/logs/0/log_fault_tolerance", 0), reduced},
		{"one log more than it should be", setting("cluster/logs/0/log_fault_tolerance", 2), reduced},
		{"no logs", logs(), incomplete},
		{"a generation of no logs", logs(tree{"current": true}), incomplete},
		{"an old generation with a lost log", logs(tree{"current": true, "log_fault_tolerance": 1, "log_replication_factor": 2}, tree{"current": false, "log_fault_tolerance": 0, "log_replication_factor": 2}), reduced},
		{"an old generation in one piece", logs(tree{"current": true, "log_fault_tolerance": 1, "log_replication_factor": 2}, tree{"current": false, "log_fault_tolerance": 1, "log_replication_factor": 2}), nil},
		{"a factor of 0", logs(tree{"current": true, "log_fault_tolerance": 1, "log_replication_factor": 2, "remote_log_fault_tolerance": 0, "remote_log_replication_factor": 0}), nil},
		{"a coordinator gone", setting("client/coordinators/coordinators/2/reachable", false), reduced},
		{"no quorum", setting("client/coordinators/quorum_reachable", false), reduced},
		{"no coordinators", setting("client/coordinators/coordinators", []any{}), incomplete},
		{"two regions", regions(func(tree) {}), nil},
		{"a remote replica lost", regions(setting("cluster/data/team_trackers/1/state/min_replicas_remaining", 1)), reduced},
		{"a remote log lost", regions(setting("cluster/logs/0/remote_log_fault_tolerance", 0)), reduced},
		{"a satellite log lost", regions(setting("cluster/logs/0/satellite_log_fault_tolerance", 0)), reduced},
		{"two regions without remote teams", regions(setting("cluster/data/team_trackers", []any{tracker(true, 2)})), incomplete},
		{"two regions without remote logs", regions(logs(tree{"current": true, "log_fault_tolerance": 1, "log_replication_factor": 2})), incomplete},
	}
}

func TestFullFaultTolerance(t *testing.T) {
	for _, c := range toleranceChanges() {
		t.Run(c.name, func(t *testing.T) {
			doc := document(sample())
			c.doc(doc)
			v := fdb.FullFaultTolerance(parse(t, doc))
			if v.Reason != c.closed[tolerance] || v.Open != (c.closed[tolerance] == "") {
				t.Errorf("%+v instead of %q", v, c.closed[tolerance])
			}
		})
	}
}
