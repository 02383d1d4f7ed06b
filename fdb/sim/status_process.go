package sim

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// writeProcess writes one process. Source of members and conditions: foundationdb 7.3.69,
// fdbserver/Status.actor.cpp, processStatusFetcher and RolesInfo.
func (s *statusWriter) writeProcess(p *process, configured bool) {
	s.object(p.id, func() {
		s.text("address", p.Addresses[0].String())
		s.text("class_source", "command_line")
		s.text("class_type", string(p.Class))
		s.text("command_line", p.commandLine())
		s.rates("cpu", "usage_cores", 0.0213)
		s.object("disk", func() {
			s.number("busy", 0.0138)
			s.whole("free_bytes", s.options.DiskBytes)
			s.rates("reads", "counter", 1281, "hz", 0.2, "sectors", 0)
			s.whole("total_bytes", s.options.DiskBytes)
			s.rates("writes", "counter", 19384, "hz", 14.8, "sectors", 216)
		})
		if configured {
			s.truth("excluded", s.exclusions.contain(p.Addresses, p.Locality))
		}
		s.text("fault_domain", p.zone())
		s.object("locality", func() {
			for _, name := range slices.Sorted(maps.Keys(p.Locality)) {
				if name != "processid" && name != "" {
					s.text(name, p.Locality[name])
				}
			}
			s.text("processid", p.id)
		})
		s.text("machine_id", p.machine())
		s.rates("memory", "available_bytes", 8589934592, "limit_bytes", 8589934592, "rss_bytes", 141557760, "unused_allocated_memory", 655360, "used_bytes", 231211008)
		s.list("messages", func() {
			for _, name := range p.messages {
				s.object("", func() {
					s.text("name", name)
					s.number("time", float64(s.Now().Unix()))
					s.text("type", "FileOperationError")
					s.text("description", name)
					s.text("raw_log_message", "")
				})
			}
		})
		s.writeNetwork(p)
		s.list("roles", func() { s.writeRoles(p) })
		s.number("run_loop_busy", 0.0083)
		if s.maintenance.covers(p.zone()) {
			s.truth("under_maintenance", true)
		}
		s.number("uptime_seconds", s.processes.uptime(p))
		s.text("version", p.Version.String())
	})
}

func (s *statusWriter) writeNetwork(p *process) {
	s.object("network", func() {
		for _, name := range []string{"connection_errors", "connections_closed", "connections_established"} {
			s.rates(name, "hz", 0)
		}
		s.whole("current_connections", int64(len(s.processes.list)))
		s.rates("megabits_received", "hz", 0.0731)
		s.rates("megabits_sent", "hz", 0.0688)
		s.rates("tls_policy_failures", "hz", 0)
	})
}

// writeRoles writes everything that a process does.
func (s *statusWriter) writeRoles(p *process) {
	plain := func(name role) {
		s.object("", func() { s.text("id", roleID(p, name)); s.text("role", string(name)) })
	}
	if p == s.coordination.controller {
		plain(clusterController)
	}
	if s.coordination.has(p.Server) {
		s.object("", func() { s.text("role", string(coordinatorRole)) })
	}
	for _, name := range p.roles {
		switch role(name) {
		case logRole: // written below, by generations
		case commitProxy:
			s.object("", func() {
				s.text("id", roleID(p, commitProxy))
				s.text("role", name)
				s.statistics("commit_latency_statistics")
				s.statistics("commit_batching_window_size")
			})
		case grvProxy:
			s.object("", func() {
				s.object("grv_latency_statistics", func() { s.statistics("batch"); s.statistics("default") })
				s.text("id", roleID(p, grvProxy))
				s.text("role", name)
			})
		default:
			plain(role(name))
		}
	}
	if s.recovery.state >= acceptingCommits {
		for i, g := range s.recovery.generations {
			for _, l := range g.all() {
				if l.folder == p.folder {
					s.writeLog(l, i == 0)
				}
			}
		}
	}
	if server := s.storage.of[p.Folder]; server != nil && server.folder == p.folder {
		s.writeStorage(server)
	}
}

func roleID(p *process, name role) string {
	id := p.id + string(name)
	const width = 16
	text := make([]byte, width)
	hash := uint64(14695981039346656037)
	for i := range len(id) {
		hash = (hash ^ uint64(id[i])) * 1099511628211
	}
	for i := range text {
		text[i] = hexadecimal[hash>>(4*i)&15]
	}
	return string(text)
}

// writeLog writes a log. Logs of old generations have no numbers.
func (s *statusWriter) writeLog(l logServer, current bool) {
	s.object("", func() {
		if current {
			s.whole("data_version", s.version())
			s.counter("durable_bytes")
		}
		s.text("id", l.id)
		if current {
			s.counter("input_bytes")
			s.space("kvstore_", 106496, true)
			s.space("queue_disk_", 52428800+s.load.logQueue, false)
		}
		s.text("role", string(logRole))
	})
}

func (s *statusWriter) writeStorage(server *storageServer) {
	data, durability := s.load.seconds()
	s.object("", func() {
		s.rates("bytes_queried", "counter", 10381742, "hz", 4113.6, "roughness", 1243.9)
		s.lag("data_lag", data)
		s.whole("data_version", s.version())
		s.lag("durability_lag", durability)
		s.counter("durable_bytes")
		s.whole("durable_version", s.version()-int64(durability*1e6))
		s.rates("fetched_versions", "counter", 91817288, "hz", 998711.2, "roughness", 251093.1)
		s.rates("fetches_from_logs", "counter", 28174, "hz", 2.8, "roughness", 0.1)
		s.rates("finished_queries", "counter", 174001, "hz", 17.4, "roughness", 3.2)
		s.text("id", server.id)
		s.counter("input_bytes")
		s.rates("keys_queried", "counter", 181033, "hz", 18.1, "roughness", 3.4)
		s.space("kvstore_", server.used(s.Cluster), true)
		s.whole("local_rate", 100)
		s.rates("low_priority_queries", "counter", 0, "hz", 0, "roughness", 0)
		s.rates("mutation_bytes", "counter", 1928371, "hz", 811.2, "roughness", 103.7)
		s.rates("mutations", "counter", 38221, "hz", 7.6, "roughness", 2.4)
		s.whole("query_queue_max", 3)
		s.statistics("read_latency_statistics")
		s.text("role", string(storageRole))
		s.object("storage_metadata", func() {
			s.text("created_time_datetime", s.options.Start.Add(server.made).Format("2006-01-02 15:04:05.000 +0000"))
			s.number("created_time_timestamp", float64(s.options.Start.Add(server.made).Unix()))
			if s.since("7.3") {
				s.text("storage_engine", engineName(server.engine, "", s.line))
			}
		})
		s.whole("stored_bytes", server.used(s.Cluster))
		s.rates("total_queries", "counter", 174002, "hz", 17.4, "roughness", 3.2)
	})
}

func (s *statusWriter) counter(name string) {
	s.rates(name, "counter", 47291038, "hz", 31244.6, "roughness", 8113.2)
}

func (s *statusWriter) space(prefix string, used int64, store bool) {
	total := s.options.DiskBytes
	s.whole(prefix+"available_bytes", total-used)
	s.whole(prefix+"free_bytes", total-used)
	s.whole(prefix+"total_bytes", total)
	s.whole(prefix+"used_bytes", used)
	if store {
		s.whole(prefix+"inline_keys", 0)
		s.whole(prefix+"total_nodes", 0)
		s.whole(prefix+"total_size", 0)
	}
}

func (s *statusWriter) statistics(name string) {
	s.rates(name, "count", 812, "max", 0.00428, "mean", 0.00061, "median", 0.00052, "min", 0.00011,
		"p25", 0.00031, "p90", 0.00103, "p95", 0.00121, "p99", 0.00211, "p99.9", 0.00391)
}

// writeMachines writes a machine for each machine id.
func (s *statusWriter) writeMachines() {
	byID := map[string][]*process{}
	for _, p := range s.processes.workers() {
		byID[p.machine()] = append(byID[p.machine()], p)
	}
	s.object("machines", func() {
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			first := byID[id][0]
			s.object(id, func() {
				s.text("address", first.Addresses[0].Host)
				s.whole("contributing_workers", int64(len(byID[id])))
				s.rates("cpu", "logical_core_utilization", 0.0712)
				if dc := first.datacenter(); dc != "" {
					s.text("datacenter_id", dc)
				}
				s.truth("excluded", s.exclusions.contain(first.Addresses, first.Locality))
				s.object("locality", func() {
					s.text("machineid", id)
					s.text(fdb.ZoneLocality, first.zone())
				})
				s.text("machine_id", id)
				s.rates("memory", "committed_bytes", 10031968256, "free_bytes", 23521968128, "total_bytes", 33553936384)
				s.object("network", func() {
					s.rates("megabits_received", "hz", 0.41)
					s.rates("megabits_sent", "hz", 0.39)
					s.rates("tcp_segments_retransmitted", "hz", 0)
				})
			})
		}
	})
}
