package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// Status returns the status document that a client with this cluster file and of this version gets. Its
// members are those of fdbclient/Schemas.cpp at 7.1.67, 7.3.69 and 7.4.6; which of them are there when,
// and their values, follow fdbserver/Status.actor.cpp and fdbclient/StatusClient.actor.cpp at 7.3.69.
func (c *Cluster) Status(from fdb.Connection, v fdb.Version) []byte {
	if f := c.faults.active(FaultStatusStale); f != nil && f.document != nil {
		return f.document
	}
	d := &document{bytes: make([]byte, 0, 3500*(len(c.processes.list)+2))}
	if c.faults.active(FaultStatusPartial) != nil {
		d.drop = func(string) bool { return c.random.IntN(100) < 2 }
	}
	view := c.clientView(from, v)
	d.object("", func() {
		d.object("client", func() { c.writeClient(d, view) })
		d.object("cluster", func() {
			if view.cluster {
				s := &statusWriter{document: d, Cluster: c, line: c.coordination.protocol.Short()}
				s.writeCluster()
			} else {
				d.object("layers", func() { d.truth("_valid", false) })
			}
		})
	})
	return d.bytes
}

// clientView is what a client can reach.
type clientView struct {
	from      fdb.Connection
	reachable []bool
	quorum    bool
	cluster   bool // there is a cluster controller that answers
}

func (c *Cluster) clientView(from fdb.Connection, v fdb.Version) clientView {
	c.coordination.observe()
	view := clientView{from: from}
	count := 0
	for _, a := range from.Coordinators {
		p := c.processes.at(a)
		reached := p != nil && !c.faults.partitioned(a) && p.Version.ProtocolCompatible(v)
		view.reachable = append(view.reachable, reached)
		if reached {
			count++
		}
	}
	view.quorum = count > len(from.Coordinators)/2 && c.coordination.leads(from)
	view.cluster = view.quorum && c.coordination.quorum && c.coordination.controller != nil && v.ProtocolCompatible(c.coordination.protocol)
	return view
}

func (c *Cluster) writeClient(d *document, view clientView) {
	d.object("cluster_file", func() {
		d.text("path", "/var/fdb/data/fdb.cluster")
		d.truth("up_to_date", true)
	})
	d.object("coordinators", func() {
		d.list("coordinators", func() {
			for i, a := range view.from.Coordinators {
				d.object("", func() {
					d.text("address", a.String())
					if p := c.processes.at(a); p != nil && !c.faults.partitioned(a) {
						d.text("protocol", protocolText(p.Version, 16))
					}
					d.truth("reachable", view.reachable[i])
				})
			}
		})
		d.truth("quorum_reachable", view.quorum)
	})
	available := view.cluster && c.Available()
	d.object("database_status", func() {
		d.truth("available", available)
		d.truth("healthy", available && c.healthy())
	})
	d.list("messages", func() {
		message := func(name, text string) {
			d.object("", func() { d.text("name", name); d.text("description", text) })
		}
		switch {
		case !view.quorum:
			message("quorum_not_reachable", "Unable to reach a quorum of coordinators.")
		case !view.cluster:
			message("no_cluster_controller", "Unable to locate a cluster controller within 2 seconds.  Check that there are server processes running.")
		}
	})
	d.whole("timestamp", c.Now().Unix())
}

// healthy tells whether nothing is to be said about the database.
func (c *Cluster) healthy() bool {
	if slices.ContainsFunc(c.processes.workers(), func(p *process) bool { return len(p.messages) > 0 }) || len(c.processes.unreachable()) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.data.teams(), func(t teamState) bool { return t.primary && !t.healthy })
}

// protocolText is a protocol version in hexadecimal. Source: foundationdb 7.1.67, flow/ProtocolVersion.h,
// and 7.3.69 and 7.4.6, flow/ProtocolVersions.cmake: 0FDB00B07x…, where 7.1 has 1 as its development
// digit.
func protocolText(v fdb.Version, width int) string {
	text := "fdb00b0" + itoa(v.Major) + itoa(v.Minor) + "000000"
	if v.Short() == "7.1" {
		text = "fdb00b071010000"
	}
	for len(text) < width {
		text = "0" + text
	}
	return text
}

// statusWriter writes the part of the document that the cluster controller makes.
type statusWriter struct {
	*document
	*Cluster
	line string // major.minor
}

func (s *statusWriter) since(line string) bool { return s.line >= line }

func (s *statusWriter) writeCluster() {
	configured := s.recovery.state != neverCreated && s.settings.created()
	if configured && s.recovery.roles.primary != "" {
		s.text("active_primary_dc", s.recovery.roles.primary)
	}
	s.whole("active_tss_count", 0)
	s.object("bounce_impact", func() {
		s.truth("can_clean_bounce", s.recovery.state == fullyRecovered)
		if s.recovery.state != fullyRecovered {
			s.text("reason", "cluster hasn't fully recovered yet")
		}
	})
	s.writeClients()
	s.whole("cluster_controller_timestamp", s.Now().Unix())
	if configured {
		s.writeConfiguration()
	}
	s.text("connection_string", s.coordination.connection.String())
	if configured {
		s.writeData()
		s.truth("database_available", s.Available())
		s.object("database_lock_state", func() {
			s.truth("locked", s.keys.locked != "")
			if s.keys.locked != "" {
				s.text("lock_uid", s.keys.locked)
			}
		})
	}
	s.lag("datacenter_lag", 0)
	s.whole("degraded_processes", 0)
	if configured {
		s.writeFaultTolerance()
		full := !slices.ContainsFunc(s.data.teams(), func(t teamState) bool { return !t.healthy || t.name == "healthy_populating_region" })
		s.truth("full_replication", full)
	}
	if s.recovery.count > 0 {
		s.whole("generation", int64(s.recovery.epoch))
	}
	s.list("incompatible_connections", func() {
		for _, p := range s.processes.list {
			if p.running && !p.cut && !p.Version.ProtocolCompatible(s.coordination.protocol) {
				s.text("", p.Addresses[0].String())
			}
		}
	})
	if configured {
		s.rates("latency_probe", "batch_priority_transaction_start_seconds", 0.0021, "commit_seconds", 0.0093,
			"immediate_priority_transaction_start_seconds", 0.0016, "read_seconds", 0.0004, "transaction_start_seconds", 0.0017)
	}
	s.object("layers", func() {
		s.truth("_valid", configured)
		if !configured {
			s.text("_error", "configurationMissing")
		} else {
			s.backups.writeLayer(s)
		}
	})
	if configured && s.recovery.state >= acceptingCommits {
		s.writeLogs()
	}
	s.writeMachines()
	if s.maintenance.zone != "" && s.clock.now < s.maintenance.until {
		s.number("maintenance_seconds_remaining", (s.maintenance.until - s.clock.now).Seconds())
		s.text("maintenance_zone", s.maintenance.zone)
	}
	s.writeMessages()
	if configured {
		s.rates("page_cache", "log_hit_rate", 1, "storage_hit_rate", 0.98)
	}
	s.object("processes", func() {
		doubled := s.faults.active(FaultStatusDoubled) != nil
		for _, p := range s.processes.workers() {
			s.writeProcess(p, configured)
			if doubled && s.random.IntN(4) == 0 {
				s.writeProcess(p, configured)
			}
		}
	})
	s.text("protocol_version", protocolText(s.coordination.protocol, 15))
	if s.since("7.3") {
		s.text("newest_protocol_version", protocolText(s.coordination.protocol, 15))
		s.text("lowest_compatible_protocol_version", protocolText(s.coordination.protocol, 15))
	}
	if configured {
		s.writeQoS()
		s.writeWorkload()
	}
	s.writeRecovery()
}

func (s *statusWriter) lag(name string, seconds float64) {
	s.object(name, func() {
		s.number("seconds", seconds)
		s.whole("versions", int64(seconds*1e6))
	})
}

func (s *statusWriter) writeClients() {
	type entry struct {
		version   fdb.Version
		connected []Client
		newest    []Client
	}
	var entries []*entry
	for _, cl := range s.clients.list {
		for _, v := range cl.Versions {
			at := slices.IndexFunc(entries, func(e *entry) bool { return e.version == v })
			if at < 0 {
				at = len(entries)
				entries = append(entries, &entry{version: v})
			}
			entries[at].connected = append(entries[at].connected, cl)
			if cl.newest().ProtocolCompatible(v) {
				entries[at].newest = append(entries[at].newest, cl)
			}
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return a.version.Compare(b.version) })
	write := func(name string, clients []Client) {
		s.list(name, func() {
			for _, cl := range clients[:min(len(clients), sampledClients)] {
				s.object("", func() { s.text("address", cl.Address); s.text("log_group", cl.LogGroup) })
			}
		})
	}
	s.object("clients", func() {
		s.whole("count", int64(len(s.clients.list)))
		if len(entries) == 0 {
			return
		}
		var told []fdb.Version // protocols whose newest clients stand at another version already
		s.list("supported_versions", func() {
			for _, e := range entries {
				s.object("", func() {
					s.text("client_version", e.version.String())
					write("connected_clients", e.connected)
					s.whole("count", int64(len(e.connected)))
					if len(e.newest) > 0 && !slices.ContainsFunc(told, e.version.ProtocolCompatible) {
						told = append(told, e.version)
						write("max_protocol_clients", e.newest)
						s.whole("max_protocol_count", int64(len(e.newest)))
					}
					s.text("protocol_version", protocolText(e.version, 15))
					s.text("source_version", "9430e1127b4991cbc5ab2b17f41cfffa5de07e9d")
				})
			}
		})
	})
}

// sampledClients is how many clients a list of the status names: they are samples. A coordinator reports
// up to 20 of each kind; here that is the bound of all. Source: foundationdb 7.3.69,
// fdbclient/ClientKnobs.cpp, CLIENT_EXAMPLE_AMOUNT.
const sampledClients = 20

func (s *statusWriter) writeLogs() {
	s.list("logs", func() {
		for i, g := range s.recovery.generations {
			s.object("", func() {
				s.whole("begin_version", g.begin)
				s.truth("current", i == 0)
				if i > 0 {
					s.whole("end_version", g.end)
				}
				s.whole("epoch", int64(g.epoch))
				s.list("log_interfaces", func() {
					for _, l := range g.all() {
						s.object("", func() {
							s.text("address", l.address.String())
							s.truth("healthy", s.recovery.serves(l))
							s.text("id", l.id)
						})
					}
				})
				tolerance := func(set logSet) int64 { return int64(set.factor - 1 - set.missing(s.Cluster)) }
				s.whole("log_fault_tolerance", tolerance(g.primary))
				s.whole("log_replication_factor", int64(g.primary.factor))
				s.whole("log_write_anti_quorum", 0)
				s.truth("possibly_losing_data", tolerance(g.primary) < 0)
				if len(g.remotes.logs) > 0 {
					s.whole("remote_log_fault_tolerance", tolerance(g.remotes))
					s.whole("remote_log_replication_factor", int64(g.remotes.factor))
				}
				if len(g.satellites.logs) > 0 {
					s.whole("satellite_log_fault_tolerance", tolerance(g.satellites))
					s.whole("satellite_log_replication_factor", int64(g.satellites.factor))
					s.whole("satellite_log_write_anti_quorum", 0)
				}
			})
		}
	})
}

func (s *statusWriter) writeRecovery() {
	state := s.recovery.state
	s.object("recovery_state", func() {
		if s.recovery.count > 0 || len(s.recovery.generations) > 0 {
			s.whole("active_generations", int64(max(1, len(s.recovery.generations))))
		}
		s.text("description", recoveryNames[state][1])
		if state == lockingOldServers {
			s.text("missing_logs", s.recovery.unlockable())
		}
		s.text("name", state.String())
		if state == recruitingServers {
			s.whole("required_commit_proxies", 1)
			s.whole("required_grv_proxies", 1)
			s.whole("required_logs", int64(s.settings.logReplicas))
			s.whole("required_resolvers", 1)
		}
		switch {
		case state < acceptingCommits || s.recovery.count == 0:
			s.whole("seconds_since_last_recovered", -1)
		default:
			s.number("seconds_since_last_recovered", (s.clock.now - s.recovery.recovered).Seconds())
		}
	})
}

func (s *statusWriter) writeMessages() {
	s.list("messages", func() {
		message := func(name, text string) {
			s.object("", func() { s.text("description", text); s.text("name", name) })
		}
		if s.recovery.state != neverCreated && s.recovery.state < acceptingCommits {
			message("unreadable_configuration", "Unable to read database configuration.")
		}
		if lost := s.processes.unreachable(); len(lost) > 0 {
			s.object("", func() {
				s.text("description", "The cluster has some unreachable processes.")
				s.text("name", "unreachable_processes")
				s.list("unreachable_processes", func() {
					for _, p := range lost {
						s.object("", func() { s.text("address", p.Addresses[0].String()) })
					}
				})
			})
		}
	})
}
