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
	configureSuccessExperimental
	configureCreated
	configureCreatedExperimental
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
	seen := map[string]bool{}
	for _, word := range words {
		text, ok := next.read(word, v)
		printed += text
		for _, name := range sets(word, v) {
			ok = ok && !seen[name] // two words that set the same conflict
			seen[name] = true
		}
		if !ok {
			return configureUsage, printed
		}
	}
	if creating {
		result = c.create(next)
		if result == configureCreated && experimental(next.engine, v) != "" {
			result = configureCreatedExperimental
		}
		return result, printed
	}
	if !force {
		if result := c.refuses(next); result != configureSuccess {
			return result, printed
		}
	}
	changes := next.engine != c.settings.engine
	c.apply(next, strings.Join(words, " "))
	switch {
	case next.migration == "gradual" && next.number("perpetual_storage_wiggle") == 0:
		return configureSuccessGradual, printed
	case changes && experimental(next.engine, v) != "":
		return configureSuccessExperimental, printed
	}
	return configureSuccess, printed
}

// experimental names an engine of which fdbcli warns: RocksDB in 7.1, sharded RocksDB afterwards.
// Sources: foundationdb 7.1.67, 7.3.69 and 7.4.6, fdbcli/ConfigureCommand.actor.cpp.
func experimental(engine string, v fdb.Version) string {
	switch {
	case engine == "ssd-rocksdb-v1" && v.Short() == "7.1":
		return "RocksDB"
	case engine == "ssd-sharded-rocksdb" && v.Short() != "7.1":
		return "Sharded RocksDB"
	}
	return ""
}

// sets returns the names of what a word sets.
func sets(word string, v fdb.Version) []string {
	if _, _, is := engines(word, v); is {
		return []string{"storage_engine"}
	}
	if _, is := redundancies[word]; is {
		return []string{"redundancy_mode"}
	}
	name, _, _ := strings.Cut(strings.Replace(word, ":=", "=", 1), "=")
	if name == "proxies" {
		return []string{"commit_proxies", "grv_proxies"}
	}
	return []string{name}
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
	c.coordination.write()
	c.say("the database is created: %s %s", next.redundancy, next.engine)
	c.data.create(c.options.Shards)
	c.recovery.start(because(changed, "new database"))
	c.recovery.review(because(changed, "new database"))
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
		if next.usableRegions() == 2 && mainOf(r).Priority >= 0 && !c.data.replicated[mainOf(r).ID] {
			return configureNotReplicated
		}
	}
	if len(next.regions) > 0 {
		for _, s := range c.storage.servers {
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
	for _, p := range c.processes.workers() {
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
	c.data.configured()
	c.keys.touch("\xff/conf/")
	if before.transactionSystem() != next.transactionSystem() {
		c.recovery.start(because(changed, "configuration"))
	}
	c.recovery.review(because(changed, "configuration"))
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
