package fdb

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Configuration is the configuration of a database, with the names of the status document. The zero
// value is the default: double redundancy, engine ssd-2, one region without a name.
type Configuration struct {
	RedundancyMode  Redundancy       `json:"redundancy_mode,omitempty"` // default: double
	StorageEngine   string           `json:"storage_engine,omitempty"`  // default: ssd-2
	UsableRegions   int              `json:"usable_regions,omitempty"`  // default: 1
	Regions         []Region         `json:"regions,omitempty"`
	ExcludedServers []ExcludedServer `json:"excluded_servers,omitempty"` // of the status only
	RoleCounts

	// What follows is open while it is not set: the database keeps what it has.
	LogSpill                       int    `json:"log_spill,omitempty"`
	LogVersion                     int    `json:"log_version,omitempty"`
	StorageMigrationType           string `json:"storage_migration_type,omitempty"` // disabled, aggressive or gradual
	PerpetualStorageWiggle         *int   `json:"perpetual_storage_wiggle,omitempty"`
	PerpetualStorageWiggleLocality string `json:"perpetual_storage_wiggle_locality,omitempty"` // name:value; 0: all
	PerpetualStorageWiggleEngine   string `json:"perpetual_storage_wiggle_engine,omitempty"`   // none: none
}

// RoleCounts says how many processes each role is recruited on. 0 is the default of the operator, -1
// that of FoundationDB.
type RoleCounts struct {
	Storage       int `json:"storage,omitempty"` // of the operator: the database has no such count
	Logs          int `json:"logs,omitempty"`
	Proxies       int `json:"proxies,omitempty"`
	CommitProxies int `json:"commit_proxies,omitempty"`
	GRVProxies    int `json:"grv_proxies,omitempty"`
	Resolvers     int `json:"resolvers,omitempty"`
	LogRouters    int `json:"log_routers,omitempty"`
	RemoteLogs    int `json:"remote_logs,omitempty"`
}

// Region is a place that holds a whole copy of the data, with the satellites that hold its logs.
type Region struct {
	Datacenters             []Datacenter `json:"datacenters,omitempty"` // one main data center, and satellites
	SatelliteLogs           int          `json:"satellite_logs,omitempty"`
	SatelliteRedundancyMode string       `json:"satellite_redundancy_mode,omitempty"`
}

// Datacenter is a data center of a region.
type Datacenter struct {
	ID        string `json:"id,omitempty"`
	Priority  int    `json:"priority,omitempty"`  // the highest is the primary; a negative one never
	Satellite int    `json:"satellite,omitempty"` // 1: it holds logs only
}

// ExcludedServer is one entry of the list of excluded servers.
type ExcludedServer struct {
	Address  string `json:"address,omitempty"`
	Locality string `json:"locality,omitempty"`
}

// DefaultEngine is the storage engine of a configuration that names none.
const DefaultEngine = "ssd-2"

// engineAliases has, for each other name of a storage engine, the one that stands for all of them.
// FoundationDB reports memory for memory-1 and memory-2 alike. Sources: foundationdb 7.1.67,
// 7.3.69 and 7.4.6, fdbclient/FDBTypes.cpp, getStoreTypeStr and fromString, and
// fdbclient/ManagementAPI.actor.cpp, configForToken.
var engineAliases = map[string]string{
	"":                           DefaultEngine,
	"ssd":                        DefaultEngine,
	"memory":                     "memory-2",
	"memory-1":                   "memory-2",
	"memory-radixtree":           "memory-radixtree-beta",
	"ssd-redwood-1-experimental": "ssd-redwood-1",
	"ssd-rocksdb-experimental":   "ssd-rocksdb-v1",
}

// engines are the names of storage engines that have no other one. The status says custom of what has
// no name (foundationdb 7.3.69, fdbclient/Schemas.cpp); it cannot be configured.
var engines = []string{DefaultEngine, "ssd-1", "memory-2", "memory-radixtree-beta", "ssd-redwood-1", "ssd-rocksdb-v1", "ssd-sharded-rocksdb", "custom"}

// knownEngine tells whether a name is that of a storage engine; none is the default.
func knownEngine(name string) bool { return slices.Contains(engines, engine(name)) }

// engine returns the name that stands for all names of a storage engine.
func engine(name string) string {
	if alias, ok := engineAliases[name]; ok {
		return alias
	}
	return name
}

// Counts returns the role counts with the defaults of the operator for those that are not set.
func (c Configuration) Counts() RoleCounts {
	counts := c.RoleCounts
	counts.Storage = cmp.Or(counts.Storage, 2*c.RedundancyMode.FaultTolerance()+1)
	counts.Logs = cmp.Or(counts.Logs, c.RedundancyMode.defaultLogs())
	counts.Resolvers = cmp.Or(counts.Resolvers, 1)
	if counts.GRVProxies == 0 && counts.CommitProxies == 0 {
		counts.Proxies = cmp.Or(counts.Proxies, 3)
	} else {
		counts.Proxies = 0
		counts.GRVProxies = cmp.Or(counts.GRVProxies, 1)
		counts.CommitProxies = cmp.Or(counts.CommitProxies, 2)
	}
	remote := -1
	if c.UsableRegions > 1 {
		remote = counts.Logs
	}
	counts.RemoteLogs = cmp.Or(counts.RemoteLogs, remote)
	counts.LogRouters = cmp.Or(counts.LogRouters, remote)
	return counts
}

// Normalized returns the configuration in the one form in which two that mean the same are equal:
// defaults are filled in, names of engines are the same, proxies are split into commit and GRV
// proxies, data centers and regions are in order; what the database does not report as it was
// configured is gone: -1, the storage count and excluded servers. What is open stays open.
func (c Configuration) Normalized() Configuration {
	n := c
	n.RedundancyMode = c.RedundancyMode.orDefault()
	n.StorageEngine = engine(c.StorageEngine)
	if c.PerpetualStorageWiggleEngine != "" {
		n.PerpetualStorageWiggleEngine = engine(c.PerpetualStorageWiggleEngine)
	}
	n.UsableRegions = max(1, c.UsableRegions)
	n.ExcludedServers = nil
	n.RoleCounts = n.Counts().normalized(n.UsableRegions)
	n.Regions = nil
	for _, region := range c.Regions {
		region.Datacenters = append([]Datacenter(nil), region.Datacenters...)
		slices.SortStableFunc(region.Datacenters, func(a, b Datacenter) int {
			return cmp.Or(cmp.Compare(a.Satellite, b.Satellite), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
		})
		region.SatelliteLogs = max(0, region.SatelliteLogs)
		n.Regions = append(n.Regions, region)
	}
	slices.SortStableFunc(n.Regions, func(a, b Region) int {
		left, right := a.main(), b.main()
		return cmp.Or(cmp.Compare(right.Priority, left.Priority), cmp.Compare(left.ID, right.ID))
	})
	return n
}

// The numbers that FoundationDB takes for -1, and how it splits proxies. Sources: foundationdb
// 7.3.69, fdbclient/ClientKnobs.cpp, DEFAULT_AUTO_… and DEFAULT_MAX_GRV_PROXIES; the split in
// fdbclient/ManagementAPI.actor.cpp, configForToken.
const (
	autoLogs            = 3
	autoResolvers       = 1
	autoCommitProxies   = 3
	autoGRVProxies      = 1
	maxSplitGRVProxies  = 4
	commitProxiesPerGRV = 3
)

// normalized replaces counts, of which none is 0 but unused kinds of proxies, by what the database
// reports of them.
func (r RoleCounts) normalized(usableRegions int) RoleCounts {
	auto := func(count *int, number int) {
		if *count < 0 {
			*count = number
		}
	}
	r.Storage = 0
	auto(&r.Logs, autoLogs)
	auto(&r.Resolvers, autoResolvers)
	if r.GRVProxies == 0 && r.CommitProxies == 0 {
		auto(&r.Proxies, autoCommitProxies+autoGRVProxies)
		r.GRVProxies = max(1, min(maxSplitGRVProxies, r.Proxies/(commitProxiesPerGRV+1)))
		r.CommitProxies = max(1, r.Proxies-r.GRVProxies)
	}
	r.Proxies = 0
	auto(&r.GRVProxies, autoGRVProxies)
	auto(&r.CommitProxies, autoCommitProxies)
	// -1 recruits as many remote logs as logs. Source: foundationdb 7.3.69,
	// fdbclient/include/fdbclient/DatabaseConfiguration.h, getDesiredRemoteLogs.
	remote := 0
	if usableRegions > 1 {
		remote = r.Logs
	}
	auto(&r.RemoteLogs, remote)
	auto(&r.LogRouters, remote)
	return r
}

// Differs tells whether a database with the live configuration has to be configured to become c.
// What c leaves open does not differ.
func (c Configuration) Differs(live Configuration) bool {
	return !reflect.DeepEqual(c.over(live).Normalized(), live.Normalized())
}

// over returns c with what it leaves open taken from the live configuration.
func (c Configuration) over(live Configuration) Configuration {
	c.LogSpill = cmp.Or(c.LogSpill, live.LogSpill)
	c.LogVersion = cmp.Or(c.LogVersion, live.LogVersion)
	c.StorageMigrationType = cmp.Or(c.StorageMigrationType, live.StorageMigrationType)
	if c.PerpetualStorageWiggle == nil {
		c.PerpetualStorageWiggle = live.PerpetualStorageWiggle
	}
	c.PerpetualStorageWiggleLocality = cmp.Or(c.PerpetualStorageWiggleLocality, live.PerpetualStorageWiggleLocality)
	c.PerpetualStorageWiggleEngine = cmp.Or(c.PerpetualStorageWiggleEngine, live.PerpetualStorageWiggleEngine)
	return c
}

// Text returns what follows `configure` in fdbcli: all that is set, and the defaults of what is not
// and is not open either. The quotes of the regions are escaped as fdbcli reads them (foundationdb
// 7.3.69, fdbcli/fdbcli.actor.cpp, parseLine).
func (c Configuration) Text() string {
	counts := c.Counts()
	words := []string{string(c.RedundancyMode.orDefault()), cmp.Or(c.StorageEngine, DefaultEngine)}
	number := func(name string, n int) { words = append(words, name+strconv.Itoa(n)) }
	number("usable_regions=", max(1, c.UsableRegions))
	number("logs=", counts.Logs)
	number("resolvers=", counts.Resolvers)
	number("log_routers=", counts.LogRouters)
	number("remote_logs=", counts.RemoteLogs)
	if counts.Proxies != 0 {
		number("proxies=", counts.Proxies)
	} else {
		number("commit_proxies=", counts.CommitProxies)
		number("grv_proxies=", counts.GRVProxies)
	}
	if c.LogSpill != 0 {
		number("log_spill:=", c.LogSpill)
	}
	if c.LogVersion != 0 {
		number("log_version:=", c.LogVersion)
	}
	words = append(words, "regions="+regionsText(c.Regions))
	if c.StorageMigrationType != "" {
		words = append(words, "storage_migration_type="+c.StorageMigrationType)
	}
	if c.PerpetualStorageWiggle != nil {
		number("perpetual_storage_wiggle=", *c.PerpetualStorageWiggle)
	}
	if c.PerpetualStorageWiggleLocality != "" {
		words = append(words, "perpetual_storage_wiggle_locality="+c.PerpetualStorageWiggleLocality)
	}
	if c.PerpetualStorageWiggleEngine != "" {
		words = append(words, "perpetual_storage_wiggle_engine="+c.PerpetualStorageWiggleEngine)
	}
	return strings.Join(words, " ")
}

// regionsText returns the JSON of regions with its quotes and backslashes escaped.
func regionsText(regions []Region) string {
	if len(regions) == 0 {
		return "[]"
	}
	document, err := json.Marshal(regions)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(document))
}

// main returns the main data center of a region: the first that is no satellite. A region without
// one has the zero data center with the priority -1.
func (r Region) main() Datacenter {
	for _, dc := range r.Datacenters {
		if dc.Satellite == 0 {
			return dc
		}
	}
	return Datacenter{Priority: -1}
}

// Redundancy is how many copies of the data the database keeps, and where. The zero value is Double.
type Redundancy string

const (
	Single        Redundancy = "single"
	Double        Redundancy = "double"
	Triple        Redundancy = "triple"
	ThreeDataHall Redundancy = "three_data_hall"
)

// redundancies has what each mode means: how many fault domains can be lost, how many must be there,
// how many copies of data and of logs are kept, and how many logs are recruited. Sources:
// foundationdb 7.3.69, fdbclient/ManagementAPI.actor.cpp, configForToken; fdb-kubernetes-operator
// 2.33.0, api/v1beta2/foundationdb_database_configuration.go.
var redundancies = map[Redundancy]struct{ tolerance, domains, storage, log, logs int }{
	Single:        {tolerance: 0, domains: 1, storage: 1, log: 1, logs: 3},
	Double:        {tolerance: 1, domains: 2, storage: 2, log: 2, logs: 3},
	Triple:        {tolerance: 2, domains: 3, storage: 3, log: 3, logs: 3},
	ThreeDataHall: {tolerance: 2, domains: 3, storage: 3, log: 4, logs: 4},
}

// orDefault returns the mode, or Double for none.
func (r Redundancy) orDefault() Redundancy {
	if r == "" {
		return Double
	}
	return r
}

// Known tells whether the operator knows the mode.
func (r Redundancy) Known() bool {
	_, known := redundancies[r.orDefault()]
	return known
}

// FaultTolerance returns how many fault domains can be lost without losing data; 0 for an unknown
// mode.
func (r Redundancy) FaultTolerance() int { return redundancies[r.orDefault()].tolerance }

// FaultDomains returns how many fault domains the mode needs, at least 1.
func (r Redundancy) FaultDomains() int { return max(1, redundancies[r.orDefault()].domains) }

// zones returns how many zones with room for data the mode needs before FoundationDB accepts it.
func (r Redundancy) zones() int {
	mode := redundancies[r.orDefault()]
	return max(1, mode.storage, mode.log)
}

// defaultLogs returns how many logs are recruited unless the configuration says so.
func (r Redundancy) defaultLogs() int { return max(3, redundancies[r.orDefault()].logs) }

// CoordinatorCount returns how many coordinators a database has.
func CoordinatorCount(r Redundancy, usableRegions int) int {
	if usableRegions > 1 || r == ThreeDataHall {
		return 9
	}
	return r.FaultDomains() + r.FaultTolerance()
}
