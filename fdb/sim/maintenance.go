package sim

import "time"

// maintenance is the zone from which no data are moved away for some time.
type maintenance struct {
	zone  string
	until time.Duration
}

// maintained tells whether a zone is under maintenance.
func (c *Cluster) maintained(zone string) bool {
	return zone != "" && c.maintenance.zone == zone && c.clock.now < c.maintenance.until
}

// maintain puts a zone under maintenance; empty ends any.
func (c *Cluster) maintain(zone string, d time.Duration) {
	c.maintenance = maintenance{zone: zone, until: c.clock.now + d}
	c.judgeEffect()
	if zone == "" {
		c.say("no zone is under maintenance")
	} else {
		c.say("%s is under maintenance for %s", zone, d)
	}
	c.clock.after(d, func() {
		c.lookAtStorage()
		c.distribute()
	})
	c.distribute()
}

// endMaintenance ends it when a storage server in another zone fails. Source: foundationdb 7.3.69,
// fdbserver/DDTeamCollection.actor.cpp, and the help of maintenance in
// fdbcli/MaintenanceCommand.actor.cpp.
func (c *Cluster) endMaintenance(failed *storageServer) {
	if c.maintenance.zone != "" && c.clock.now < c.maintenance.until && failed.zone() != c.maintenance.zone {
		c.say("maintenance of %s ends: %s failed", c.maintenance.zone, failed.Name)
		c.maintenance = maintenance{}
	}
}
