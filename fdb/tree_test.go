package fdb_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
)

// tree is a JSON object that tests change before they have it parsed.
type tree = map[string]any

// server describes one process of a test document.
type server struct {
	id, class, zone, dc, hall string
	address                   string // 10.0.0.1:4501
	name                      string // DNS name
	version                   string
	binary                    string
	roles                     []string
	excluded                  bool
	lean                      bool // without what no judgement reads
	uptime                    float64
}

func (p server) tree() tree {
	version, binary, uptime := p.version, p.binary, p.uptime
	if version == "" {
		version = "7.3.69"
	}
	if binary == "" {
		binary = "/usr/bin/fdbserver"
	}
	if uptime == 0 {
		uptime = 5000.25
	}
	locality := tree{"instance_id": p.id, "machineid": p.zone, "processid": "p-" + p.id, "zoneid": p.zone}
	for name, value := range map[string]string{"dcid": p.dc, "data_hall": p.hall, "dns_name": p.name} {
		if value != "" {
			locality[name] = value
		}
	}
	roles := []any{}
	for i, role := range p.roles {
		rate := func() tree { return tree{"hz": 12.5, "counter": 123456, "roughness": 0.25} }
		statistics := func() tree {
			return tree{"count": 12, "min": 0.1, "max": 0.2, "median": 0.15, "mean": 0.15, "p25": 0.11, "p90": 0.18, "p95": 0.19, "p99": 0.2, "p99.9": 0.2}
		}
		roles = append(roles, tree{
			"role": role, "id": fmt.Sprintf("%s-%d", p.id, i), "stored_bytes": 12341234, "kvstore_used_bytes": 12341234, "kvstore_total_bytes": 12341234,
			"kvstore_free_bytes": 12341234, "kvstore_available_bytes": 12341234, "queue_disk_used_bytes": 1234, "queue_disk_total_bytes": 12341234,
			"data_lag": tree{"seconds": 1.5, "versions": 1500000}, "durability_lag": tree{"seconds": 5.1, "versions": 5100000},
			"data_version": 74805090, "durable_version": 74800000, "input_bytes": rate(), "durable_bytes": rate(), "total_queries": rate(),
			"finished_queries": rate(), "low_priority_queries": rate(), "bytes_queried": rate(), "keys_queried": rate(), "mutation_bytes": rate(),
			"mutations": rate(), "fetched_versions": rate(), "fetches_from_logs": rate(), "read_latency_statistics": statistics(),
			"storage_metadata": tree{"created_time_datetime": "2026-01-01 00:00:00.000 +0000", "storage_engine": "ssd-2"},
		})
	}
	if p.lean {
		roles = []any{}
		for _, role := range p.roles {
			roles = append(roles, tree{"role": role})
		}
	}
	all := tree{
		"address": p.address, "class_type": p.class, "class_source": "command_line", "version": version, "excluded": p.excluded,
		"command_line": fmt.Sprintf("%s --class=%s --cluster_file=/var/fdb/data/fdb.cluster --datadir=/var/fdb/data/1 --locality_instance_id=%s --locality_machineid=%s "+
			"--locality_zoneid=%s --logdir=/var/log/fdb-trace-logs --loggroup=sample --public_address=%s --seed_cluster_file=/var/dynamic-conf/fdb.cluster",
			binary, p.class, p.id, p.zone, p.zone, p.address),
		"locality": locality, "roles": roles, "messages": []any{}, "uptime_seconds": uptime, "run_loop_busy": 0.01, "fault_domain": p.zone, "machine_id": p.zone,
		"cpu": tree{"usage_cores": 0.01}, "disk": tree{"busy": 0.01, "free_bytes": 84178165760, "total_bytes": 135012552704, "reads": tree{"counter": 6598328, "hz": 0, "sectors": 0}, "writes": tree{"counter": 2167046, "hz": 19.6, "sectors": 1600}},
		"memory":  tree{"available_bytes": 8589934592, "limit_bytes": 8589934592, "rss_bytes": 216772608, "unused_allocated_memory": 0, "used_bytes": 216772608},
		"network": tree{"connection_errors": tree{"hz": 0}, "connections_closed": tree{"hz": 0}, "connections_established": tree{"hz": 0}, "current_connections": 5, "megabits_received": tree{"hz": 0.04}, "megabits_sent": tree{"hz": 0.05}, "tls_policy_failures": tree{"hz": 0}},
	}
	if p.lean {
		for _, name := range []string{"class_source", "messages", "run_loop_busy", "fault_domain", "machine_id", "cpu", "disk", "memory", "network"} {
			delete(all, name)
		}
	}
	return all
}

// lean is one storage server and three logs, without what no judgement reads.
func lean() []server {
	servers := append(sample()[:1], sample()[4:7]...)
	for i := range servers {
		servers[i].lean = true
	}
	return servers
}

// sample is a healthy database with two replicas: four storage, three log and three stateless
// groups, each in its zone. The logs are the coordinators.
func sample() []server {
	var servers []server
	for i := range 4 {
		servers = append(servers, server{id: fmt.Sprintf("storage-%d", i+1), class: "storage", roles: []string{"storage"}})
	}
	for i := range 3 {
		servers = append(servers, server{id: fmt.Sprintf("log-%d", i+1), class: "log", roles: []string{"log", "coordinator"}})
	}
	for i, role := range []string{"cluster_controller", "master", "commit_proxy"} {
		servers = append(servers, server{id: fmt.Sprintf("stateless-%d", i+1), class: "stateless", roles: []string{role}})
	}
	for i := range servers {
		servers[i].zone, servers[i].address = fmt.Sprintf("zone-%d", i+1), fmt.Sprintf("10.0.0.%d:4501", i+1)
	}
	return servers
}

// document is the status of the servers, at rest. Those with the role coordinator are the
// coordinators, by name if they have one.
func document(servers []server) tree {
	processes, coordinators, addresses := tree{}, []any{}, []string{}
	for _, p := range servers {
		key := "p-" + p.id
		for processes[key] != nil { // another server of the group
			key += "+"
		}
		processes[key] = p.tree()
		if slices.Contains(p.roles, "coordinator") {
			address := p.address
			if p.name != "" {
				_, port, _ := strings.Cut(p.address, ":")
				address = p.name + ":" + port
			}
			coordinators = append(coordinators, tree{"address": address, "reachable": true, "protocol": "0fdb00b073000000"})
			addresses = append(addresses, address)
		}
	}
	return tree{
		"client": tree{
			"cluster_file":    tree{"path": "/var/fdb/data/fdb.cluster", "up_to_date": true},
			"coordinators":    tree{"coordinators": coordinators, "quorum_reachable": true},
			"database_status": tree{"available": true, "healthy": true},
			"messages":        []any{}, "timestamp": 1646933244,
		},
		"cluster": tree{
			"active_primary_dc": "", "bounce_impact": tree{"can_clean_bounce": true}, "generation": 2, "full_replication": true,
			"database_available": true, "database_lock_state": tree{"locked": false}, "incompatible_connections": []any{}, "messages": []any{},
			"connection_string": "sample:aHeD9ocNXOUxi0dyzU3k7Bhg53SpyrBV@" + strings.Join(addresses, ","),
			"configuration": tree{"redundancy_mode": "double", "storage_engine": "ssd-2", "usable_regions": 1, "logs": 3, "log_spill": 2, "excluded_servers": []any{},
				"coordinators_count": 3, "perpetual_storage_wiggle": 0, "perpetual_storage_wiggle_locality": "0", "storage_migration_type": "disabled"},
			"clients": tree{"count": 1, "supported_versions": []any{tree{
				"client_version": "7.3.69", "protocol_version": "fdb00b073000000", "source_version": "abc", "count": 1, "max_protocol_count": 1,
				"connected_clients":    []any{tree{"address": "10.1.0.1:34874", "log_group": "app"}},
				"max_protocol_clients": []any{tree{"address": "10.1.0.1:34874", "log_group": "app"}},
			}}},
			"data": tree{
				"state":               tree{"healthy": true, "min_replicas_remaining": 2, "name": "healthy"},
				"team_trackers":       []any{tree{"primary": true, "in_flight_bytes": 0, "unhealthy_servers": 0, "state": tree{"healthy": true, "min_replicas_remaining": 2, "name": "healthy"}}},
				"moving_data":         tree{"highest_priority": 0, "in_flight_bytes": 0, "in_queue_bytes": 0, "total_written_bytes": 0},
				"total_kv_size_bytes": 1000,
			},
			"layers":         tree{"_valid": true},
			"logs":           []any{tree{"current": true, "epoch": 2, "log_fault_tolerance": 1, "log_replication_factor": 2, "log_write_anti_quorum": 0, "possibly_losing_data": false}},
			"machines":       tree{},
			"processes":      processes,
			"qos":            tree{"worst_data_lag_storage_server": tree{"seconds": 0.5, "versions": 500000}, "worst_durability_lag_storage_server": tree{"seconds": 5.0, "versions": 5000000}, "worst_queue_bytes_log_server": 12144, "worst_queue_bytes_storage_server": 1996},
			"recovery_state": tree{"active_generations": 1, "description": "Recovery complete.", "name": "fully_recovered", "seconds_since_last_recovered": 5000.25},
		},
	}
}

// parse is the status of a tree.
func parse(t interface {
	Helper()
	Fatal(args ...any)
}, doc tree) *fdb.Status {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fdb.ParseStatus(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns the object at a path: names and indexes separated by slashes.
func at(doc any, path string) any {
	for _, name := range strings.Split(path, "/") {
		switch node := doc.(type) {
		case tree:
			doc = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil {
				panic(path)
			}
			doc = node[i]
		default:
			panic("there is no " + path)
		}
	}
	return doc
}

// set puts a value at a path.
func set(doc tree, path string, value any) {
	parent, name := split(path)
	var node any = doc
	if parent != "" {
		node = at(doc, parent)
	}
	switch node := node.(type) {
	case tree:
		node[name] = value
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil {
			panic(path)
		}
		node[i] = value
	default:
		panic("no object at " + parent)
	}
}

func split(path string) (parent, name string) {
	i := strings.LastIndex(path, "/")
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// without is a copy of the document that lacks the member at a path.
func without(t *testing.T, doc tree, path string) tree {
	c := clone(t, doc)
	take(c, path)
	return c
}

// take removes the member at a path; back puts it there again.
func take(doc tree, path string) (back func()) {
	parent, name := split(path)
	node := doc
	if parent != "" {
		node = at(doc, parent).(tree)
	}
	value := node[name]
	delete(node, name)
	return func() { node[name] = value }
}

func clone(t interface {
	Helper()
	Fatal(args ...any)
}, doc tree) tree {
	t.Helper()
	text, err := json.Marshal(doc)
	var c tree
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// members lists the paths of all members of all objects of a document.
func members(node any, prefix string) []string {
	var found []string
	switch node := node.(type) {
	case tree:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			found = append(append(found, prefix+name), members(node[name], prefix+name+"/")...)
		}
	case []any:
		for i, element := range node {
			found = append(found, members(element, fmt.Sprintf("%s%d/", prefix, i))...)
		}
	}
	return found
}
