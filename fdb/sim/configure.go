package sim

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// configureResult is how a configure command ends, with the names of foundationdb 7.3.69,
// fdbclient/include/fdbclient/ManagementAPI.actor.h, ConfigurationResult.
type configureResult int

const (
	configureSuccess configureResult = iota
	configureSuccessGradual
	configureCreated
	configureUsage
	configureInvalid
	configureAlreadyCreated
	configureUnavailable
	configureStorageInUnknownDC
	configureNotReplicated
	configureSeveralActive
	configureRegionsChanged
	configureTooFewWorkers
	configureMigrationDisabled
)

// configure changes the configuration with the words behind the command, or creates the database. The
// rules are those of changeConfig in foundationdb 7.3.69,
// fdbclient/include/fdbclient/GenericManagementAPI.actor.h, in its order; 7.1.67 and 7.4.6 have the same.
func (c *Cluster) configure(words []string, v fdb.Version) (result configureResult, printed string) {
	words, force := slices.Clone(words), false
	if len(words) > 0 && words[0] == "FORCE" {
		words, force = words[1:], true
	}
	next, creating := c.settings.clone(), false
	if len(words) == 0 {
		return configureUsage, ""
	}
	if words[0] == "new" {
		next, creating, words = newSettings(), true, words[1:]
	}
	for _, word := range words {
		text, ok := next.read(word, v)
		printed += text
		if !ok {
			return configureUsage, printed
		}
	}
	if creating {
		return c.create(next), printed
	}
	if !force {
		if result := c.refuses(next); result != configureSuccess {
			return result, printed
		}
	}
	c.apply(next, strings.Join(words, " "))
	if next.migration == "gradual" && next.number("perpetual_storage_wiggle") == 0 {
		return configureSuccessGradual, printed
	}
	return configureSuccess, printed
}

// create makes the database. Without enough processes it is made all the same, and recovers when they
// have come.
func (c *Cluster) create(next settings) configureResult {
	switch {
	case next.redundancy == "" || next.engine == "":
		return configureUsage
	case c.coordination.database != "":
		return configureAlreadyCreated
	}
	c.settings = next
	c.coordination.database = c.word(hexadecimal, 32)
	c.writeState()
	c.say("the database is created: %s %s", next.redundancy, next.engine)
	c.data.create(c.options.Shards)
	c.recover("new database")
	c.review("new database")
	return configureCreated
}

// refuses returns why a configuration is refused, configureSuccess if it is not.
func (c *Cluster) refuses(next settings) configureResult {
	if !next.valid() {
		return configureInvalid
	}
	live := c.settings
	if live.usableRegions() != next.usableRegions() {
		priorities, active := map[string]int{}, 0
		for _, r := range next.regions {
			priorities[mainOf(r).ID] = mainOf(r).Priority
			if mainOf(r).Priority >= 0 {
				active++
			}
		}
		for _, r := range live.regions {
			if priority, there := priorities[mainOf(r).ID]; !there || priority != mainOf(r).Priority {
				return configureRegionsChanged
			}
		}
		if active > 1 {
			return configureSeveralActive
		}
	}
	for _, r := range next.regions {
		if next.usableRegions() == 2 && mainOf(r).Priority >= 0 && !c.hasAllData(mainOf(r).ID) {
			return configureNotReplicated
		}
	}
	if len(next.regions) > 0 {
		for _, s := range c.servers {
			if !slices.ContainsFunc(next.regions, func(r fdb.Region) bool { return mainOf(r).ID == s.datacenter() }) {
				return configureStorageInUnknownDC
			}
		}
	}
	if c.tooFewZones(next) {
		return configureTooFewWorkers
	}
	if live.engine != next.engine && next.migration == "disabled" {
		return configureMigrationDisabled
	}
	return configureSuccess
}

// tooFewZones tells whether there are fewer zones with processes that can hold data than copies.
func (c *Cluster) tooFewZones(next settings) bool {
	zones := map[string]map[string]bool{"": {}}
	for _, p := range c.workers() {
		if storageRole.fitness(p.Class) <= worstFit {
			if zones[p.datacenter()] == nil {
				zones[p.datacenter()] = map[string]bool{}
			}
			zones[p.datacenter()][p.zone()] = true
		}
	}
	need := max(next.storageReplicas, next.logReplicas)
	if len(next.regions) == 0 {
		all := map[string]bool{}
		for _, of := range zones {
			for zone := range of {
				all[zone] = true
			}
		}
		return len(all) < need
	}
	for _, r := range next.regions {
		if len(zones[mainOf(r).ID]) < need {
			return true
		}
		satellites := 0
		for _, dc := range r.Datacenters {
			if dc.Satellite != 0 {
				satellites += len(zones[dc.ID])
			}
		}
		if mainOf(r).Priority >= 0 && satellites < satelliteFactors[r.SatelliteRedundancyMode] {
			return true
		}
	}
	return false
}

// apply makes a configuration the live one. If it changes the transaction system, that recovers.
func (c *Cluster) apply(next settings, words string) {
	before := c.settings
	c.settings = next
	c.say("configured: %s", words)
	c.data.configured(c)
	c.keys.touch("\xff/conf/")
	if before.transactionSystem() != next.transactionSystem() {
		c.recover("configuration")
	}
	c.review("configuration")
}

// transactionSystem is the part of a configuration that a running transaction system cannot take over.
func (s settings) transactionSystem() string {
	var b strings.Builder
	b.WriteString(s.redundancy + " " + s.logEngine)
	for _, name := range []string{"logs", "commit_proxies", "grv_proxies", "resolvers", "remote_logs", "log_routers", "usable_regions", "log_spill", "log_version"} {
		b.WriteString(" " + name + "=" + itoa(s.number(name)))
	}
	for _, r := range s.regions {
		b.WriteString(" " + mainOf(r).ID + " " + itoa(mainOf(r).Priority) + " " + r.SatelliteRedundancyMode + " " + itoa(r.SatelliteLogs))
	}
	return b.String()
}
