package v1beta2

// DatabaseConfiguration is the configuration of a database. Its JSON is that of fdb.Configuration, and close
// to that of the status document.
//
// +kubebuilder:pruning:PreserveUnknownFields
type DatabaseConfiguration struct {
	// RedundancyMode. Default: double.
	// +kubebuilder:validation:Enum=single;double;triple;three_data_hall
	RedundancyMode string `json:"redundancy_mode,omitempty"`
	// StorageEngine. Default: ssd-2.
	// +kubebuilder:validation:Enum=ssd;ssd-1;ssd-2;memory;memory-1;memory-2;ssd-redwood-1-experimental;ssd-redwood-1;ssd-rocksdb-experimental;ssd-rocksdb-v1;ssd-sharded-rocksdb;memory-radixtree-beta;custom
	StorageEngine string `json:"storage_engine,omitempty"`
	// UsableRegions is the number of regions that hold the data. Default: 1.
	UsableRegions int      `json:"usable_regions,omitempty"`
	Regions       []Region `json:"regions,omitempty"`
	// ExcludedServers are read from the database and never compared.
	// +kubebuilder:validation:MaxItems=1024
	ExcludedServers []ExcludedServer `json:"excluded_servers,omitempty"`

	// The counts of roles. 0: the operator's default; -1: FoundationDB's.
	RoleCounts `json:",inline"`

	LogSpill   int `json:"log_spill,omitempty"`
	LogVersion int `json:"log_version,omitempty"`
	// +kubebuilder:validation:Enum="";disabled;aggressive;gradual
	StorageMigrationType string `json:"storage_migration_type,omitempty"`
	// PerpetualStorageWiggle is its speed. Absent: as it is.
	PerpetualStorageWiggle *int `json:"perpetual_storage_wiggle,omitempty"`
	// +kubebuilder:validation:Pattern=`^([\w.-]+:[\w.-]+|0|)$`
	PerpetualStorageWiggleLocality string `json:"perpetual_storage_wiggle_locality,omitempty"`
	// +kubebuilder:validation:Enum="";ssd;ssd-1;ssd-2;memory;memory-1;memory-2;ssd-redwood-1-experimental;ssd-redwood-1;ssd-rocksdb-experimental;ssd-rocksdb-v1;ssd-sharded-rocksdb;memory-radixtree-beta;custom;none
	PerpetualStorageWiggleEngine string `json:"perpetual_storage_wiggle_engine,omitempty"`
}

// RoleCounts are the numbers of processes for each role.
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

// Region is a main data center with its satellites.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Region struct {
	Datacenters   []Datacenter `json:"datacenters,omitempty"`
	SatelliteLogs int          `json:"satellite_logs,omitempty"`
	// +kubebuilder:validation:MaxLength=100
	SatelliteRedundancyMode string `json:"satellite_redundancy_mode,omitempty"`
}

// Datacenter is a data center of a region.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Datacenter struct {
	// ID is the locality dcid.
	ID string `json:"id,omitempty"`
	// Priority: the main data center with the highest one is primary.
	Priority int `json:"priority,omitempty"`
	// Satellite is 1 where the data center holds only logs.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	Satellite int `json:"satellite,omitempty"`
}

// ExcludedServer is a server that the database excludes.
type ExcludedServer struct {
	// +kubebuilder:validation:MaxLength=48
	Address string `json:"address,omitempty"`
	// +kubebuilder:validation:MaxLength=200
	Locality string `json:"locality,omitempty"`
}
