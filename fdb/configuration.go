package fdb

// Configuration is the configuration of a database, with the names of the status document.
type Configuration struct {
	RedundancyMode  Redundancy       `json:"redundancy_mode,omitempty"`
	StorageEngine   string           `json:"storage_engine,omitempty"`
	UsableRegions   int              `json:"usable_regions,omitempty"`
	Regions         []Region         `json:"regions,omitempty"`
	ExcludedServers []ExcludedServer `json:"excluded_servers,omitempty"`
	RoleCounts
	LogSpill   int `json:"log_spill,omitempty"`
	LogVersion int `json:"log_version,omitempty"`

	StorageMigrationType           string `json:"storage_migration_type,omitempty"`
	PerpetualStorageWiggle         *int   `json:"perpetual_storage_wiggle,omitempty"` // nil: as it is
	PerpetualStorageWiggleLocality string `json:"perpetual_storage_wiggle_locality,omitempty"`
	PerpetualStorageWiggleEngine   string `json:"perpetual_storage_wiggle_engine,omitempty"`
}

// RoleCounts says how many processes each role is recruited on. 0: the default; -1: the default of
// FoundationDB.
type RoleCounts struct {
	Storage       int `json:"storage,omitempty"`
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
	Datacenters             []Datacenter `json:"datacenters,omitempty"`
	SatelliteLogs           int          `json:"satellite_logs,omitempty"`
	SatelliteRedundancyMode string       `json:"satellite_redundancy_mode,omitempty"`
}

// Datacenter is a data center of a region.
type Datacenter struct {
	ID        string `json:"id,omitempty"`
	Priority  int    `json:"priority,omitempty"`
	Satellite int    `json:"satellite,omitempty"` // 1: holds logs only
}

// ExcludedServer is one entry of the list of excluded servers.
type ExcludedServer struct {
	Address  string `json:"address,omitempty"`
	Locality string `json:"locality,omitempty"`
}
