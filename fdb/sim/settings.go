package sim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// settings are the configuration as the database holds it: values by name, -1 for FoundationDB's own
// default of a count. Sources: foundationdb 7.3.69, fdbclient/ManagementAPI.actor.cpp, configForToken,
// and fdbclient/DatabaseConfiguration.cpp.
type settings struct {
	redundancy      string // single, double, triple, three_data_hall; empty: not configured
	storageReplicas int
	logReplicas     int
	engine          string
	logEngine       string
	regions         []fdb.Region   // by falling priority
	counts          map[string]int // those that were set
	migration       string
	wiggleLocality  string
	wiggleEngine    string
	extra           map[string]string // what := set
}

// countDefaults are the numbers that a configuration can have, with their value until they are set.
// Source: foundationdb 7.3.69, fdbclient/DatabaseConfiguration.cpp, resetInternal.
var countDefaults = map[string]int{
	"logs": -1, "commit_proxies": -1, "grv_proxies": -1, "resolvers": -1, "remote_logs": -1, "log_routers": -1,
	"usable_regions": 1, "log_spill": 2, "log_version": 0, "perpetual_storage_wiggle": 0, "repopulate_anti_quorum": 0,
}

func newSettings() settings {
	return settings{
		counts: map[string]int{}, migration: "disabled", wiggleLocality: "0", extra: map[string]string{},
	}
}

func (s settings) clone() settings {
	s.counts, s.extra = maps.Clone(s.counts), maps.Clone(s.extra)
	s.regions = slices.Clone(s.regions)
	return s
}

func (s settings) created() bool { return s.redundancy != "" }

// The numbers that stand for -1. Source: foundationdb 7.3.69, fdbclient/ClientKnobs.cpp,
// DEFAULT_AUTO_….
func (s settings) count(name string, auto int) int {
	if n := s.number(name); n != -1 {
		return n
	}
	return auto
}

// number returns a number as it was set, or its default.
func (s settings) number(name string) int {
	if n, set := s.counts[name]; set {
		return n
	}
	return countDefaults[name]
}

func (s settings) wantedLogs() int          { return s.count("logs", 3) }
func (s settings) wantedCommitProxies() int { return s.count("commit_proxies", 3) }
func (s settings) wantedGRVProxies() int    { return s.count("grv_proxies", 1) }
func (s settings) wantedResolvers() int     { return s.count("resolvers", 1) }
func (s settings) wantedRemoteLogs() int    { return s.count("remote_logs", s.wantedLogs()) }
func (s settings) wantedRouters() int       { return s.count("log_routers", s.wantedLogs()) }
func (s settings) usableRegions() int       { return s.number("usable_regions") }

// logHalls is in how many data halls logs must be.
func (s settings) logHalls() int {
	if s.redundancy == string(fdb.ThreeDataHall) {
		return 2
	}
	return 0
}

// storageHalls tells whether copies must be in different data halls.
func (s settings) storageHalls() bool { return s.redundancy == string(fdb.ThreeDataHall) }

// mainOf returns the data center of a region that is no satellite.
func mainOf(r fdb.Region) fdb.Datacenter {
	for _, dc := range r.Datacenters {
		if dc.Satellite == 0 {
			return dc
		}
	}
	return fdb.Datacenter{Priority: -1}
}

// datacenters returns where whole copies of the data belong; one "" without regions.
func (s settings) datacenters(primary string) []string {
	switch {
	case len(s.regions) == 0:
		return []string{""}
	case s.usableRegions() == 1:
		return []string{primary}
	}
	var found []string
	for _, r := range s.regions {
		found = append(found, mainOf(r).ID)
	}
	return found
}

// places returns the ways to spread roles over data centers, the best first. With several usable regions
// one can only become the primary if it has all data; with one the data follow.
func (s settings) places(replicated map[string]bool) []place {
	if len(s.regions) == 0 {
		return []place{{}}
	}
	var found []place
	for i, r := range s.regions {
		at := place{primary: mainOf(r).ID, satelliteLogs: max(0, r.SatelliteLogs), satelliteFactor: satelliteFactors[r.SatelliteRedundancyMode]}
		for _, dc := range r.Datacenters {
			if dc.Satellite != 0 {
				at.satellites = append(at.satellites, dc.ID)
			}
		}
		if s.usableRegions() > 1 {
			for j, other := range s.regions {
				if j != i {
					at.remote = mainOf(other).ID
				}
			}
		}
		switch {
		case mainOf(r).Priority < 0:
		case s.usableRegions() == 1 && i == 0, s.usableRegions() > 1 && (replicated[at.primary] || len(replicated) == 0):
			found = append(found, at)
		}
	}
	return found
}

// satelliteFactors has how many copies of the log satellites keep. Source: foundationdb 7.3.69,
// fdbclient/DatabaseConfiguration.cpp, parse.
var satelliteFactors = map[string]int{
	"one_satellite_single": 1, "one_satellite_double": 2, "one_satellite_triple": 3, "two_satellite_safe": 4, "two_satellite_fast": 4,
}

// redundancies has how many copies of data and of logs a mode keeps.
var redundancies = map[string][2]int{
	"single": {1, 1}, "double": {2, 2}, "triple": {3, 3}, "three_data_hall": {3, 4},
}

// engines returns, for a word that chooses storage engines, the engine of storage servers and that of
// logs, with the names of 7.3. Sources: foundationdb 7.1.67, 7.3.69 and 7.4.6,
// fdbclient/ManagementAPI.actor.cpp, configForToken.
func engines(word string, v fdb.Version) (storage, logs string, ok bool) {
	line := v.Short()
	switch word {
	case "ssd", "ssd-2":
		return "ssd-2", "ssd-2", true
	case "ssd-1":
		return "ssd-1", "ssd-1", true
	case "ssd-redwood-1":
		return "ssd-redwood-1", "ssd-2", line != "7.1"
	case "ssd-redwood-1-experimental":
		return "ssd-redwood-1", "ssd-2", line == "7.1" || line == "7.3"
	case "ssd-rocksdb-v1":
		return "ssd-rocksdb-v1", "ssd-2", true
	case "ssd-sharded-rocksdb":
		return word, "ssd-2", line != "7.1"
	case "memory", "memory-2":
		return "memory", "ssd-2", true
	case "memory-1":
		return "memory", "memory", true
	case "memory-radixtree-beta":
		return "memory-radixtree-beta", "ssd-2", true
	case "memory-radixtree":
		return "memory-radixtree-beta", "ssd-2", line >= "7.4"
	}
	return "", "", false
}

// engineName is how the status of a line of versions names an engine. 7.1 names both engines in one
// word. Sources: foundationdb 7.1.67, fdbclient/DatabaseConfiguration.cpp, toJSON; 7.3.69 and 7.4.6,
// fdbclient/FDBTypes.cpp, getStoreTypeStr.
func engineName(storage, logs, line string) string {
	switch {
	case line == "7.1" && storage == "memory" && logs == "memory":
		return "memory-1"
	case line == "7.1" && storage == "memory":
		return "memory-2"
	case line == "7.1" && storage == "ssd-redwood-1":
		return "ssd-redwood-1-experimental"
	case line >= "7.4" && storage == "memory-radixtree-beta":
		return "memory-radixtree"
	}
	return storage
}

// read applies one word of a configure command. ok is false if FoundationDB does not know it; printed
// is what configForToken says of it.
func (s *settings) read(word string, v fdb.Version) (printed string, ok bool) {
	if storage, logs, found := engines(word, v); found {
		s.engine, s.logEngine = storage, logs
		return "", true
	}
	if copies, found := redundancies[word]; found {
		s.redundancy, s.storageReplicas, s.logReplicas = word, copies[0], copies[1]
		return "", true
	}
	if name, value, found := strings.Cut(word, ":="); found {
		if _, known := countDefaults[name]; known {
			n, err := strconv.Atoi(value)
			s.counts[name] = n
			return "", err == nil
		}
		s.extra[name] = value
		return "", true
	}
	name, value, found := strings.Cut(word, "=")
	if !found {
		return "", false
	}
	number, err := strconv.Atoi(value)
	switch name {
	case "proxies":
		return s.readProxies(number, err == nil)
	case "logs", "commit_proxies", "grv_proxies", "resolvers", "remote_logs", "log_routers", "usable_regions", "repopulate_anti_quorum":
		s.counts[name] = number
		return "", err == nil
	case "perpetual_storage_wiggle":
		if err == nil && (number < 0 || number > 1) {
			return "Error: Only 0 and 1 are valid values of perpetual_storage_wiggle at present.\n", false
		}
		s.counts[name] = number
		return "", err == nil
	case "perpetual_storage_wiggle_locality":
		if value != "0" && strings.Count(value, ":") == 0 {
			return "Error: perpetual_storage_wiggle_locality should be in <locality_key>:<locality_value> format or enter 0 to disable the locality match for wiggling.\n", false
		}
		s.wiggleLocality = value
		return "", true
	case "perpetual_storage_wiggle_engine":
		storage, _, found := engines(value, v)
		s.wiggleEngine = storage
		return "", found || value == "none"
	case "storage_migration_type":
		if !slices.Contains([]string{"disabled", "aggressive", "gradual"}, value) {
			return "Error: Only disabled|aggressive|gradual are valid for storage_migration_type.\n", false
		}
		s.migration = value
		return "", true
	case "regions":
		return "", s.readRegions(value)
	}
	return "", false
}

// readProxies splits a number of proxies into commit and GRV proxies, 3 to 1, with at most 4 of the
// latter.
func (s *settings) readProxies(number int, ok bool) (printed string, _ bool) {
	if !ok {
		return "", false
	}
	printed = "Warning: Proxy role is being split into GRV Proxy and Commit Proxy, now prefer configuring 'grv_proxies' and 'commit_proxies' separately." +
		" Generally we should follow that 'commit_proxies' is three times of 'grv_proxies' count and 'grv_proxies' should be not more than 4.\n"
	if number == -1 {
		number = 4
	}
	if number < 2 {
		return printed + "Error: At least 2 proxies (1 GRV proxy and 1 Commit proxy) are required.\n", false
	}
	grv := max(1, min(4, number/4))
	s.counts["grv_proxies"], s.counts["commit_proxies"] = grv, number-grv
	return printed + strconv.Itoa(number) + " proxies are automatically converted into " + strconv.Itoa(grv) +
		" GRV proxies and " + strconv.Itoa(number-grv) + " Commit proxies.\n", true
}

func (s *settings) readRegions(value string) bool {
	var regions []fdb.Region
	if err := json.Unmarshal([]byte(value), &regions); err != nil {
		return false
	}
	slices.SortStableFunc(regions, func(a, b fdb.Region) int { return cmp.Compare(mainOf(b).Priority, mainOf(a).Priority) })
	s.regions = regions
	return true
}

// valid tells whether a database could have this configuration. Source: foundationdb 7.3.69,
// fdbclient/DatabaseConfiguration.cpp, isValid.
func (s settings) valid() bool {
	if s.redundancy == "" || s.engine == "" || s.wantedLogs() < 1 || s.wantedCommitProxies() < 1 || s.wantedGRVProxies() < 1 ||
		s.wantedResolvers() < 1 || s.wantedRemoteLogs() < 1 || s.usableRegions() < 1 || s.usableRegions() > 2 ||
		len(s.regions) > 2 || s.usableRegions() == 2 && len(s.regions) != 2 ||
		len(s.regions) > 0 && mainOf(s.regions[0]).Priority < 0 || s.number("log_spill") < 1 || s.number("log_spill") > 2 {
		return false
	}
	seen := map[string]bool{"": true}
	for _, r := range s.regions {
		id := mainOf(r).ID
		near := map[string]bool{"": true, id: true}
		for _, dc := range r.Datacenters {
			if dc.Satellite == 0 {
				continue
			}
			if near[dc.ID] {
				return false
			}
			near[dc.ID] = true
		}
		factor, known := satelliteFactors[r.SatelliteRedundancyMode]
		if seen[id] || !known && r.SatelliteRedundancyMode != "" || factor > 0 && len(r.Datacenters) < 2 {
			return false
		}
		seen[id] = true
	}
	return true
}
