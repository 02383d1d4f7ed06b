package fdb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Refusal is why FoundationDB would refuse to be configured. The zero value is no refusal.
type Refusal struct {
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Refuses tells whether FoundationDB would refuse the change from the live to the next
// configuration, and why: the first of the rules that is broken, in its order. Source: foundationdb
// 7.3.69, fdbclient/include/fdbclient/GenericManagementAPI.actor.h, changeConfig; 7.1.67 and 7.4.6
// have the same rules.
func Refuses(live, next Configuration, p Placement) Refusal {
	next = next.over(live)
	if problems := next.Problems(); len(problems) > 0 {
		return refusal(RefusedConfiguration, "%s: %s", problems[0].Field, problems[0].Message)
	}
	live, next = live.Normalized(), next.Normalized()
	for _, rule := range []func(live, next Configuration, p Placement) Refusal{
		refusesRegions, refusesReplication, refusesDatacenter, refusesZones, refusesMigration,
	} {
		if refusal := rule(live, next, p); refusal.Reason != "" {
			return refusal
		}
	}
	return Refusal{}
}

func refusal(reason Reason, format string, args ...any) Refusal {
	return Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// refusesRegions refuses a change of usable_regions together with one of the regions, or with more
// than one active region.
func refusesRegions(live, next Configuration, _ Placement) Refusal {
	if live.UsableRegions == next.UsableRegions {
		return Refusal{}
	}
	for _, region := range live.Regions {
		at := index(next.Regions, region.main().ID)
		if at < 0 || next.Regions[at].main().Priority != region.main().Priority {
			return refusal(RefusedRegions, "usable_regions and the region of %q cannot change together", region.main().ID)
		}
	}
	var active []string
	for _, region := range next.Regions {
		if region.main().Priority >= 0 {
			active = append(active, region.main().ID)
		}
	}
	if len(active) > 1 {
		return refusal(RefusedPriorities, "usable_regions cannot change while %s have a priority of 0 or more", strings.Join(active, " and "))
	}
	return Refusal{}
}

// refusesReplication refuses an active region without a whole copy of the data.
func refusesReplication(_, next Configuration, p Placement) Refusal {
	if next.UsableRegions < 2 {
		return Refusal{}
	}
	for _, region := range next.Regions {
		if dc := region.main(); dc.Priority >= 0 && !slices.Contains(p.Replicated, dc.ID) {
			return refusal(RefusedReplication, "the region of %q does not have all data yet", dc.ID)
		}
	}
	return Refusal{}
}

// refusesDatacenter refuses regions that leave out a data center with storage servers.
func refusesDatacenter(_, next Configuration, p Placement) Refusal {
	if len(next.Regions) == 0 {
		return Refusal{}
	}
	for _, dc := range p.Storage {
		if index(next.Regions, dc) < 0 {
			return refusal(RefusedStorage, "storage servers are in the data center %q, which is in no region", dc)
		}
	}
	return Refusal{}
}

// refusesZones refuses more copies than there are zones for them.
func refusesZones(_, next Configuration, p Placement) Refusal {
	need := next.RedundancyMode.zones()
	if len(next.Regions) == 0 {
		all := map[string]bool{}
		for _, zones := range p.Zones {
			for _, zone := range zones {
				all[zone] = true
			}
		}
		if len(all) < need {
			return refusal(RefusedWorkers, "%s needs %d zones with room for data, there are %d", next.RedundancyMode, need, len(all))
		}
		return Refusal{}
	}
	for _, region := range next.Regions {
		dc := region.main()
		if have := p.zones(dc.ID); have < need {
			return refusal(RefusedWorkers, "%s needs %d zones with room for data in the data center %q, there are %d", next.RedundancyMode, need, dc.ID, have)
		}
		satellites := 0
		for _, satellite := range region.Datacenters {
			if satellite.Satellite != 0 {
				satellites += p.zones(satellite.ID)
			}
		}
		if need := satelliteModes[region.SatelliteRedundancyMode]; dc.Priority >= 0 && satellites < need {
			return refusal(RefusedWorkers, "%s needs %d zones with room for data in the satellites of %q, there are %d", region.SatelliteRedundancyMode, need, dc.ID, satellites)
		}
	}
	return Refusal{}
}

// refusesMigration refuses another storage engine while the data may not be moved to it.
func refusesMigration(live, next Configuration, _ Placement) Refusal {
	migration := cmp.Or(next.StorageMigrationType, "disabled")
	if live.StorageEngine != next.StorageEngine && migration == "disabled" {
		return refusal(RefusedMigration, "the storage engine cannot change from %s to %s while storage_migration_type is disabled", live.StorageEngine, next.StorageEngine)
	}
	return Refusal{}
}

// satelliteModes has the number of copies of the log that satellites hold. Source: foundationdb
// 7.3.69, fdbclient/DatabaseConfiguration.cpp, parse of regions.
var satelliteModes = map[string]int{
	"":                     0,
	"one_satellite_single": 1,
	"one_satellite_double": 2,
	"one_satellite_triple": 3,
	"two_satellite_safe":   4,
	"two_satellite_fast":   4,
}

// ConfigurationProblem is a value that no database can have.
type ConfigurationProblem struct {
	Field   string `json:"field"` // below the configuration: regions[0].datacenters[1].id
	Message string `json:"message"`
}

// Problems returns all values of the configuration that FoundationDB would not take, or that cannot
// become part of a command. Source: foundationdb 7.3.69, fdbclient/DatabaseConfiguration.cpp,
// isValid and parse, and fdbclient/ManagementAPI.actor.cpp, configForToken.
func (c Configuration) Problems() []ConfigurationProblem {
	var problems []ConfigurationProblem
	add := func(wrong bool, field, format string, args ...any) {
		if wrong {
			problems = append(problems, ConfigurationProblem{Field: field, Message: fmt.Sprintf(format, args...)})
		}
	}
	add(!c.RedundancyMode.Known(), "redundancy_mode", "%q is none of single, double, triple, three_data_hall", c.RedundancyMode)
	add(!knownEngine(c.StorageEngine), "storage_engine", "%q is no storage engine", c.StorageEngine) // new or tss would be commands
	add(c.UsableRegions < 0 || c.UsableRegions > 2, "usable_regions", "%d is neither 1 nor 2", c.UsableRegions)
	add(len(c.Regions) > 2, "regions", "there are %d regions, and at most 2 can be", len(c.Regions))
	add(c.UsableRegions == 2 && len(c.Regions) < 2, "regions", "usable_regions is 2, so 2 regions are needed")
	for _, count := range []struct {
		name     string
		n, least int
	}{
		{"logs", c.Logs, 1}, {"proxies", c.Proxies, 2}, {"commit_proxies", c.CommitProxies, 1}, {"grv_proxies", c.GRVProxies, 1},
		{"resolvers", c.Resolvers, 1}, {"log_routers", c.LogRouters, 1}, {"remote_logs", c.RemoteLogs, 1},
	} {
		add(count.n < -1 || count.n > 0 && count.n < count.least, count.name, "%d is not -1 or at least %d", count.n, count.least)
	}
	add(c.LogSpill < 0 || c.LogSpill > 2, "log_spill", "%d is neither 1 nor 2", c.LogSpill)
	add(c.LogVersion < 0, "log_version", "%d is negative", c.LogVersion)
	migration := []string{"", "disabled", "aggressive", "gradual"}
	add(!slices.Contains(migration, c.StorageMigrationType), "storage_migration_type", "%q is none of disabled, aggressive, gradual", c.StorageMigrationType)
	if wiggle := c.PerpetualStorageWiggle; wiggle != nil {
		add(*wiggle < 0 || *wiggle > 1, "perpetual_storage_wiggle", "%d is neither 0 nor 1", *wiggle)
	}
	locality := c.PerpetualStorageWiggleLocality
	add(locality != "" && CheckWord(WordWiggle, locality) != nil, "perpetual_storage_wiggle_locality", "%q is neither name:value nor 0", locality)
	wiggleEngine := c.PerpetualStorageWiggleEngine
	add(wiggleEngine != "none" && !knownEngine(wiggleEngine), "perpetual_storage_wiggle_engine", "%q is neither none nor a storage engine", wiggleEngine)

	ids, highest := map[string]bool{}, -1
	for i, region := range c.Regions {
		field := fmt.Sprintf("regions[%d]", i)
		for _, problem := range region.problems() {
			add(true, strings.TrimSuffix(field+"."+problem.Field, "."), "%s", problem.Message)
		}
		id := region.main().ID
		add(ids[id] && id != "", field, "another region has the data center %q too", id)
		ids[id], highest = true, max(highest, region.main().Priority)
	}
	add(len(c.Regions) > 0 && highest < 0, "regions", "no main data center has a priority of 0 or more")
	return problems
}

// problems returns what is wrong with one region, by fields of the region.
func (r Region) problems() []ConfigurationProblem {
	var problems []ConfigurationProblem
	add := func(wrong bool, field, format string, args ...any) {
		if wrong {
			problems = append(problems, ConfigurationProblem{Field: field, Message: fmt.Sprintf(format, args...)})
		}
	}
	ids, main := map[string]bool{}, 0
	for i, dc := range r.Datacenters {
		field := fmt.Sprintf("datacenters[%d].", i)
		add(CheckWord(WordDatacenter, dc.ID) != nil, field+"id", "%q is not allowed", dc.ID)
		add(ids[dc.ID], field+"id", "%q is there twice", dc.ID)
		add(dc.Satellite != 0 && dc.Satellite != 1, field+"satellite", "%d is neither 0 nor 1", dc.Satellite)
		ids[dc.ID] = true
		if dc.Satellite == 0 {
			main++
		}
	}
	add(main != 1, "datacenters", "there are %d main data centers (satellite: 0), and exactly 1 is needed", main)
	_, known := satelliteModes[r.SatelliteRedundancyMode]
	add(!known, "satellite_redundancy_mode", "%q is none of one_satellite_single, one_satellite_double, one_satellite_triple, two_satellite_safe, two_satellite_fast", r.SatelliteRedundancyMode)
	add(known && r.SatelliteRedundancyMode != "" && len(r.Datacenters) == main, "satellite_redundancy_mode", "the region has no satellites")
	add(r.SatelliteLogs < -1, "satellite_logs", "%d is not -1 or more", r.SatelliteLogs)
	return problems
}

// Placement is where the processes and the data of a database are: what FoundationDB asks before it
// accepts a configuration.
type Placement struct {
	Zones      map[string][]string // by data center: zones with a process that can hold data; "" is no data center
	Storage    []string            // data centers with a storage server
	Replicated []string            // data centers with a whole copy of the data
}

// PlacementOf reads a placement from the status. What may hold data according to a document with
// gaps is taken to hold some, and what is not shown to have all data has not.
func PlacementOf(s *Status) Placement {
	p := Placement{Zones: map[string][]string{}}
	if s == nil {
		return p
	}
	for _, process := range s.Cluster.Processes {
		dc, zone := process.Locality[DatacenterLocality], process.Locality[ZoneLocality]
		if process.Class.fitsStorage() && zone != "" && !slices.Contains(p.Zones[dc], zone) {
			p.Zones[dc] = append(p.Zones[dc], zone)
		}
		if process.mayStore() && !slices.Contains(p.Storage, dc) {
			p.Storage = append(p.Storage, dc)
		}
	}
	for _, zones := range p.Zones {
		slices.Sort(zones)
	}
	slices.Sort(p.Storage)
	if primary := s.Cluster.ActivePrimaryDC; primary != "" {
		p.Replicated = append(p.Replicated, primary)
	}
	// With two usable regions this means all of them. Source: foundationdb 7.3.69,
	// fdbserver/Status.actor.cpp, loadConfiguration.
	full, c := s.Cluster.FullReplication, s.Cluster.Configuration
	if full != nil && *full && c != nil && c.UsableRegions > 1 {
		for _, region := range c.Regions {
			if id := region.main().ID; !slices.Contains(p.Replicated, id) {
				p.Replicated = append(p.Replicated, id)
			}
		}
	}
	return p
}

// fitsStorage tells whether FoundationDB would put data on a process of the class. Source:
// foundationdb 7.3.69, fdbrpc/Locality.cpp, machineClassFitness.
func (c Class) fitsStorage() bool {
	return c == ClassStorage || c == ClassUnset || c.LogLike()
}

// mayStore tells whether the process is a storage server, or could be one for all that the status
// says.
func (p Process) mayStore() bool {
	if p.Roles == nil {
		return p.Class == "" || p.Class.fitsStorage()
	}
	return slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Role == "storage" || r.Role == "" })
}

// zones returns the number of zones of a data center.
func (p Placement) zones(datacenter string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(p.Zones[datacenter]))))
}
