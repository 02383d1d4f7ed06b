package sim

import (
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// writeConfiguration writes the configuration. Source: foundationdb 7.3.69,
// fdbclient/DatabaseConfiguration.cpp, toJSON and getRegionJSON.
func (s *statusWriter) writeConfiguration() {
	c := &s.settings
	s.object("configuration", func() {
		s.whole("backup_worker_enabled", 0)
		s.whole("blob_granules_enabled", 0)
		s.whole("coordinators_count", int64(len(s.coordination.connection.Coordinators)))
		if s.since("7.3") {
			s.text("encryption_at_rest_mode", "disabled")
		}
		s.list("excluded_servers", func() {
			for _, addresses := range []bool{true, false} {
				for _, target := range s.exclusions.targets {
					switch is := !strings.HasPrefix(target, fdb.LocalityPrefix); {
					case is && addresses:
						s.object("", func() { s.text("address", target) })
					case !is && !addresses:
						s.object("", func() { s.text("locality", target) })
					}
				}
			}
		})
		s.writeCounts()
		if s.since("7.3") {
			s.text("log_engine", engineName(c.logEngine, c.logEngine, s.line))
		}
		s.whole("log_spill", int64(c.number("log_spill")))
		if c.number("log_version") > 0 {
			s.whole("log_version", int64(c.number("log_version")))
		}
		s.whole("perpetual_storage_wiggle", int64(c.number("perpetual_storage_wiggle")))
		s.text("perpetual_storage_wiggle_locality", c.wiggleLocality)
		if c.wiggleEngine != "" {
			s.text("perpetual_storage_wiggle_engine", engineName(c.wiggleEngine, "", s.line))
		}
		s.text("redundancy_mode", c.redundancy)
		if len(c.regions) > 0 {
			s.writeRegions()
		}
		s.text("storage_engine", engineName(c.engine, c.logEngine, s.line))
		s.text("storage_migration_type", c.migration)
		s.text("tenant_mode", "disabled")
		s.whole("usable_regions", int64(c.usableRegions()))
	})
}

// writeCounts writes the counts of roles. 7.3 writes what they amount to; 7.1 and 7.4 write only those
// that were set, -1 included.
func (s *statusWriter) writeCounts() {
	c := &s.settings
	set := func(name string) {
		if n, is := c.counts[name]; is {
			s.whole(name, int64(n))
		}
	}
	set("log_routers")
	set("remote_logs")
	if s.line == "7.3" {
		s.whole("logs", int64(c.wantedLogs()))
		s.whole("commit_proxies", int64(c.wantedCommitProxies()))
		s.whole("grv_proxies", int64(c.wantedGRVProxies()))
		s.whole("resolvers", int64(c.wantedResolvers()))
		s.whole("proxies", int64(c.wantedCommitProxies()+c.wantedGRVProxies()))
		return
	}
	proxies := -1
	for _, name := range []string{"commit_proxies", "grv_proxies"} {
		if n, is := c.counts[name]; is && proxies != -1 {
			proxies += n
		} else if is {
			proxies = n
		}
		set(name)
	}
	set("logs")
	set("resolvers")
	if proxies != -1 {
		s.whole("proxies", int64(proxies))
	}
}

func (s *statusWriter) writeRegions() {
	s.list("regions", func() {
		for _, r := range s.settings.regions {
			s.object("", func() {
				s.list("datacenters", func() {
					main := mainOf(r)
					s.object("", func() { s.text("id", main.ID); s.whole("priority", int64(main.Priority)) })
					for _, dc := range r.Datacenters {
						if dc.Satellite != 0 {
							s.object("", func() {
								s.text("id", dc.ID)
								s.whole("priority", int64(dc.Priority))
								s.whole("satellite", 1)
							})
						}
					}
				})
				if r.SatelliteLogs > 0 {
					s.whole("satellite_logs", int64(r.SatelliteLogs))
				}
				if r.SatelliteRedundancyMode != "" {
					s.text("satellite_redundancy_mode", r.SatelliteRedundancyMode)
				}
			})
		}
	})
}

func (s *statusWriter) writeData() {
	if s.recovery.state < acceptingCommits {
		s.object("data", func() {
			s.object("state", func() {
				s.text("description", "(Re)initializing automatic data distribution")
				s.text("name", "initializing")
			})
		})
		return
	}
	teams := s.data.teams()
	priority := 0
	for _, t := range teams {
		priority = max(priority, t.priority)
	}
	state := func(t teamState) {
		s.object("state", func() {
			if t.text != "" {
				s.text("description", t.text)
			}
			s.truth("healthy", t.healthy)
			s.whole("min_replicas_remaining", int64(t.replicas))
			s.text("name", t.name)
		})
	}
	total := int64(len(s.data.shards)) * s.options.ShardBytes
	s.object("data", func() {
		s.whole("average_partition_size_bytes", s.options.ShardBytes)
		s.whole("least_operating_space_bytes_log_server", s.options.DiskBytes)
		s.whole("least_operating_space_bytes_storage_server", s.options.DiskBytes)
		s.object("moving_data", func() {
			s.whole("highest_priority", int64(priority))
			s.whole("in_flight_bytes", int64(s.data.moving)*s.options.ShardBytes)
			s.whole("in_queue_bytes", 0)
			s.whole("total_written_bytes", s.data.written)
		})
		s.whole("partitions_count", int64(len(s.data.shards)))
		if len(teams) > 0 {
			state(teams[0])
		}
		s.whole("system_kv_size_bytes", 114688)
		s.list("team_trackers", func() {
			for _, t := range teams {
				s.object("", func() {
					s.whole("in_flight_bytes", int64(s.data.moving)*s.options.ShardBytes)
					s.truth("primary", t.primary)
					state(t)
					s.whole("unhealthy_servers", int64(t.unhealthy))
				})
			}
		})
		s.whole("total_disk_used_bytes", total*int64(s.settings.storageReplicas))
		s.whole("total_kv_size_bytes", total)
	})
}

func (s *statusWriter) writeFaultTolerance() {
	tolerance := s.settings.storageReplicas - 1
	for _, t := range s.data.teams() {
		if t.primary && s.recovery.state >= acceptingCommits {
			tolerance = min(tolerance, t.replicas-1)
		}
	}
	if len(s.recovery.generations) > 0 {
		g := s.recovery.generations[0].primary
		tolerance = min(tolerance, g.factor-1-g.missing(s.Cluster))
	}
	tolerance = max(-1, min(tolerance, (len(s.coordination.connection.Coordinators)-1)/2))
	s.rates("fault_tolerance", "max_zone_failures_without_losing_availability", tolerance, "max_zone_failures_without_losing_data", tolerance)
}

func (s *statusWriter) writeQoS() {
	data, durability := s.load.seconds()
	limited := func(name string) {
		s.object(name, func() {
			s.text("description", "The database is not being saturated by the workload.")
			s.text("name", "workload")
			s.whole("reason_id", 2)
		})
	}
	s.object("qos", func() {
		limited("batch_performance_limited_by")
		s.number("batch_released_transactions_per_second", 0)
		s.number("batch_transactions_per_second_limit", 1e9)
		s.lag("limiting_data_lag_storage_server", 0)
		s.lag("limiting_durability_lag_storage_server", idle.Seconds())
		s.whole("limiting_queue_bytes_storage_server", 0)
		limited("performance_limited_by")
		s.number("released_transactions_per_second", 12.3)
		s.object("throttled_tags", func() {
			s.rates("auto", "busy_read", 0, "busy_write", 0, "count", 0, "recommended_only", 0)
			s.rates("manual", "count", 0)
		})
		s.number("transactions_per_second_limit", 1e9)
		s.lag("worst_data_lag_storage_server", data)
		s.lag("worst_durability_lag_storage_server", durability)
		s.whole("worst_queue_bytes_log_server", s.load.logQueue)
		s.whole("worst_queue_bytes_storage_server", s.load.storageQueue)
	})
}

func (s *statusWriter) writeWorkload() {
	group := func(name string, members ...string) {
		s.object(name, func() {
			for _, member := range members {
				s.rates(member, "counter", 91044, "hz", 9.1, "roughness", 2.1)
			}
		})
	}
	s.object("workload", func() {
		group("bytes", "read", "written")
		group("keys", "read")
		group("operations", "location_requests", "low_priority_reads", "memory_errors", "read_requests", "reads", "writes")
		group("transactions", "committed", "conflicted", "rejected_for_queued_too_long", "started", "started_batch_priority",
			"started_default_priority", "started_immediate_priority")
	})
}
