package fdb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func TestParseStatus(t *testing.T) {
	const text = `{
	  "client": {
	    "coordinators": {"coordinators": [
	      {"address": "10.0.0.1:4500:tls", "reachable": true, "protocol": "0fdb00b073000000"},
	      {"address": "10.0.0.2:4501(fromHostname)", "reachable": false},
	      {"address": "log-1.sample.db.svc.cluster.local:4501"},
	      {"address": "[fd00::1]:4501", "reachable": true}
	    ], "quorum_reachable": true},
	    "database_status": {"available": true, "healthy": false},
	    "messages": [{"name": "unreachable_cluster_controller", "description": "No response"}]
	  },
	  "cluster": {
	    "processes": {
	      "b": {"address": "10.0.0.1:4500:tls", "class_type": "storage", "excluded": false, "uptime_seconds": 85.0029, "version": "7.3.69", "run_loop_busy": 0.01,
	        "under_maintenance": true, "locality": {"instance_id": "storage-1", "zoneid": "a\u002db", "dcid": null},
	        "command_line": "fdbserver \"x\"", "roles": [{"role": "storage", "id": "7f", "stored_bytes": 1.2e3}], "messages": [{"name": "io_error", "type": "IoError", "time": 12.5}]},
	      "a": {"roles": []}
	    },
	    "configuration": {"redundancy_mode": "double", "usable_regions": 1, "logs": 3, "excluded_servers": [{"locality": "locality_instance_id:storage-1"}], "storage_engine": 7},
	    "data": {"state": {"healthy": true, "name": "healthy", "min_replicas_remaining": 2}, "team_trackers": [{"primary": true, "unhealthy_servers": 1, "state": {"min_replicas_remaining": 2}}],
	      "moving_data": {"highest_priority": 950, "in_flight_bytes": 1, "in_queue_bytes": 2}, "total_kv_size_bytes": 3},
	    "logs": [{"current": true, "log_replication_factor": 2, "log_fault_tolerance": 1}],
	    "qos": {"worst_queue_bytes_log_server": 460, "worst_data_lag_storage_server": {"seconds": 0.5}},
	    "recovery_state": {"name": "fully_recovered", "active_generations": 1, "seconds_since_last_recovered": -1},
	    "bounce_impact": {"can_clean_bounce": true}, "layers": {"_valid": false, "_error": "configurationMissing"}, "messages": [],
	    "connection_string": "a:b@10.0.0.1:4500", "database_available": true, "database_lock_state": {"locked": true}, "full_replication": true,
	    "generation": 3, "incompatible_connections": ["10.0.0.9:4501"], "maintenance_zone": "z", "maintenance_seconds_remaining": 12.5, "active_primary_dc": "dc1"
	  }
	}`
	got, err := fdb.ParseStatus([]byte("WARNING: something\n" + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &fdb.Status{
		Client: fdb.ClientStatus{
			Coordinators: fdb.CoordinatorStatus{Coordinators: []fdb.Coordinator{
				{Address: fdb.Address{Host: "10.0.0.1", Port: 4500, TLS: true}, Reachable: new(true)},
				{Address: fdb.Address{Host: "10.0.0.2", Port: 4501, FromHostname: true}, Reachable: new(false)},
				{Address: fdb.Address{Host: "log-1.sample.db.svc.cluster.local", Port: 4501}},
				{Address: fdb.Address{Host: "fd00::1", Port: 4501}, Reachable: new(true)},
			}, QuorumReachable: new(true)},
			DatabaseStatus: fdb.DatabaseStatus{Available: new(true), Healthy: new(false)},
			Messages:       []fdb.Message{{Name: "unreachable_cluster_controller", Description: "No response"}},
		},
		Cluster: fdb.ClusterStatus{
			Processes: fdb.Processes{
				{
					ID: "b", Address: fdb.Address{Host: "10.0.0.1", Port: 4500, TLS: true}, Class: fdb.ClassStorage, Excluded: new(false), UptimeSeconds: new(85.0029), Version: "7.3.69",
					RunLoopBusy: new(0.01), UnderMaintenance: true, Locality: map[string]string{"instance_id": "storage-1", "zoneid": "a-b"}, CommandLine: `fdbserver "x"`,
					Roles: []fdb.Role{{Role: "storage", ID: "7f", StoredBytes: new(int64(1200))}}, Messages: []fdb.ProcessMessage{{Name: "io_error", Type: "IoError", Time: new(12.5)}},
				},
				{ID: "a", Roles: []fdb.Role{}},
			},
			Configuration: &fdb.Configuration{RedundancyMode: fdb.Double, UsableRegions: 1, RoleCounts: fdb.RoleCounts{Logs: 3}, ExcludedServers: []fdb.ExcludedServer{{Locality: "locality_instance_id:storage-1"}}},
			Data: fdb.DataStatus{
				State:        fdb.DataState{Healthy: new(true), Name: "healthy", MinReplicasRemaining: new(2)},
				TeamTrackers: []fdb.TeamTracker{{Primary: new(true), UnhealthyServers: new(1), State: fdb.DataState{MinReplicasRemaining: new(2)}}},
				MovingData:   fdb.MovingData{HighestPriority: new(950), InFlightBytes: new(int64(1)), InQueueBytes: new(int64(2))}, TotalKVSizeBytes: new(int64(3)),
			},
			Logs:          []fdb.LogStatus{{Current: new(true), LogFactor: new(2), LogFaultTolerance: new(1)}},
			QoS:           fdb.QoS{WorstLogQueue: new(int64(460)), WorstDataLag: fdb.Lag{Seconds: new(0.5)}},
			RecoveryState: fdb.RecoveryState{Name: "fully_recovered", ActiveGenerations: new(1), SecondsSinceLastRecovered: new(-1.0)},
			BounceImpact:  fdb.BounceImpact{CanCleanBounce: new(true)}, Layers: fdb.Layers{Valid: new(false), Error: "configurationMissing"}, Messages: []fdb.Message{},
			ConnectionString: "a:b@10.0.0.1:4500", DatabaseAvailable: new(true), DatabaseLockState: fdb.LockState{Locked: new(true)}, FullReplication: new(true),
			Generation: new(3), IncompatibleConnections: []string{"10.0.0.9:4501"}, MaintenanceZone: "z", MaintenanceSeconds: new(12.5), ActivePrimaryDC: "dc1",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	back, err := fdb.ParseStatus(again)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, back); d != "" {
		t.Errorf("printed and parsed again: %s", d)
	}
}

func TestParseStatusRefuses(t *testing.T) {
	for _, text := range []string{
		"", "null", "[]", "Unable to communicate with the cluster", "{", "}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\\u0\x1500\"}", "{\"a\":\"\n\"}", `{"a":"b}`, `{} {}`, `{}}`, `{"a" 1}`, `{1:1}`, `{"client":{}`, `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
	} {
		if s, err := fdb.ParseStatus([]byte(text)); !errors.Is(err, fdb.StatusUnreadable) || s != nil {
			t.Errorf("%.40q: %v, %v", text, s, err)
		}
	}
}

// TestParseStatusCutOff: no beginning of a document is taken for the whole.
func TestParseStatusCutOff(t *testing.T) {
	text, err := json.Marshal(document(lean()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		if _, err := fdb.ParseStatus(text[:i]); err == nil {
			t.Fatalf("the first %d bytes of %d are read", i, len(text))
		}
	}
}

// TestParseStatusWrongTypes: a value of another type counts as missing, at any path.
func TestParseStatusWrongTypes(t *testing.T) {
	doc := document(lean())
	paths := members(doc, "")
	rapid.Check(t, func(t *rapid.T) {
		doc := clone(t, doc)
		path := rapid.SampledFrom(paths).Draw(t, "path")
		was := at(doc, path)
		wrong := []any{nil, true, "text", 12.5, []any{}, tree{}}
		wrong = append(wrong[:kindOf(was)], wrong[kindOf(was)+1:]...)
		set(doc, path, rapid.SampledFrom(wrong).Draw(t, "value"))
		changed := parse(t, doc)
		take(doc, path)
		missing := parse(t, doc)
		// An empty object in place of a section says as much as none.
		if d := cmp.Diff(missing, changed, cmp.FilterPath(isLeaf, cmp.Ignore())); d != "" {
			t.Fatalf("%s: %s", path, d)
		}
	})
}

// isLeaf: sections that are objects may be empty instead of absent.
func isLeaf(p cmp.Path) bool {
	s := p.String()
	return s == "Cluster.Configuration" || s == "Cluster.Clients" || strings.HasSuffix(s, ".Locality") || s == "Cluster.Processes" || s == "Cluster.IncompatibleConnections"
}

func kindOf(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case string:
		return 2
	case []any:
		return 4
	case tree:
		return 5
	default:
		return 3
	}
}

// TestDoubledProcesses: an id that stands twice is two processes.
func TestDoubledProcesses(t *testing.T) {
	s, err := fdb.ParseStatus([]byte(`{"cluster":{"processes":{"a":{"uptime_seconds":5},"a":{"uptime_seconds":700}},"recovery_state":{"seconds_since_last_recovered":700}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cluster.Processes) != 2 {
		t.Errorf("%d processes", len(s.Cluster.Processes))
	}
	if up := fdb.MinimumUptime(s, now73); up.Seconds() != 5 {
		t.Errorf("up for %s", up)
	}
}

// TestStatusOfThousand: a real document has some 3 KB a process.
func TestStatusOfThousand(t *testing.T) {
	text := large(t, 100)
	if size := len(text) / 100; size < 2500 || size > 6000 {
		t.Errorf("%d bytes a process", size)
	}
	s, err := fdb.ParseStatus(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cluster.Processes) != 100 {
		t.Errorf("%d processes", len(s.Cluster.Processes))
	}
}

func large(t testing.TB, n int) []byte {
	var servers []server
	for i := range n {
		servers = append(servers, server{id: fmt.Sprintf("storage-%d", i+1), class: "storage", zone: fmt.Sprintf("zone-%d", i), address: fmt.Sprintf("10.0.%d.%d:4501", i/250, i%250+1), roles: []string{"storage"}})
	}
	text, err := json.Marshal(document(servers))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func BenchmarkParseStatus(b *testing.B) {
	text := large(b, 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fdb.ParseStatus(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/process")
}

// BenchmarkJudgements is what a pass over a settled cluster asks.
func BenchmarkJudgements(b *testing.B) {
	s, err := fdb.ParseStatus(large(b, 1000))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 9 {
		s.Client.Coordinators.Coordinators = append(s.Client.Coordinators.Coordinators, fdb.Coordinator{Address: s.Cluster.Processes[i*100].Address, Reachable: new(true)})
	}
	w := fdb.CoordinatorWish{Configuration: fdb.Configuration{RedundancyMode: fdb.ThreeDataHall}}
	b.ReportAllocs()
	for b.Loop() {
		verdicts(s)
		if v, err := fdb.JudgeCoordinators(s, w); err == nil {
			b.Fatal(v)
		}
		w.Configuration.RedundancyMode = fdb.Triple
		if _, err := fdb.JudgeCoordinators(s, w); err != nil {
			b.Fatal(err)
		}
		w.Configuration.RedundancyMode = fdb.ThreeDataHall
		fdb.UnsupportedClients(s, now73, nil, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/process")
}

// FuzzParseStatus: what is read is JSON, no judgement panics, and a gate that opens does so again for
// the document as it is printed.
func FuzzParseStatus(f *testing.F) {
	for _, doc := range []any{document(lean()[:1]), document(nil), tree{"client": tree{}, "cluster": tree{"processes": tree{"": tree{}}}}} {
		text, err := json.Marshal(doc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"cluster":{"processes":{"a":{"locality":{"instance_id":"storage-1"},"address":"[::1]:4501","excluded":true,"roles":[]}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := fdb.ParseStatus(text)
		if err != nil {
			return
		}
		if object := text[strings.IndexByte(string(text), '{'):]; !json.Valid(object) {
			t.Fatalf("%q is read", object)
		}
		for gate, v := range verdicts(s) {
			if v.Open != (v.Reason == "") || v.In < 0 {
				t.Fatalf("%s: %+v", gate, v)
			}
		}
		_, _ = fdb.SelectCoordinators(s, fdb.CoordinatorWish{DNS: true})
		_, _ = fdb.JudgeCoordinators(s, fdb.CoordinatorWish{TLS: true})
		fdb.Removable(s, []string{"locality_instance_id:storage-1,10.0.0.1", ",", "storage"}, fdb.Limits{}, func([]string) fdb.Result { return fdb.Result{Outcome: fdb.Ok} })
		fdb.UnsupportedClients(s, now73, nil, nil)
	})
}
