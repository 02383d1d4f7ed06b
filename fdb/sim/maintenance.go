package sim

import "time"

// maintenance is the zone from which no data are moved away for some time.
type maintenance struct {
	c     *Cluster
	zone  string
	until time.Duration
}

// covers tells whether a zone is under maintenance.
func (m *maintenance) covers(zone string) bool {
	return zone != "" && m.zone == zone && m.c.clock.now < m.until
}

// begin puts a zone under maintenance; empty ends any.
func (m *maintenance) begin(zone string, d time.Duration) {
	m.zone, m.until = zone, m.c.clock.now+d
	m.c.judge.effect()
	if zone == "" {
		m.c.say("no zone is under maintenance")
	} else {
		m.c.say("%s is under maintenance for %s", zone, d)
	}
	m.c.clock.after(d, func() {
		m.c.storage.observe()
		m.c.data.distribute()
	})
	m.c.data.distribute()
}

// end ends it when a storage server in another zone fails. Source: foundationdb 7.3.69,
// fdbserver/DDTeamCollection.actor.cpp, and the help of maintenance in
// fdbcli/MaintenanceCommand.actor.cpp.
func (m *maintenance) end(failed *storageServer) {
	if m.zone != "" && m.c.clock.now < m.until && failed.zone() != m.zone {
		m.c.say("maintenance of %s ends: %s failed", m.zone, failed.Name)
		m.zone, m.until = "", 0
	}
}
