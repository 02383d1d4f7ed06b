package fdb

// Class is the class of a process.
type Class string

const (
	ClassUnset             Class = "unset"
	ClassStorage           Class = "storage"
	ClassTransaction       Class = "transaction"
	ClassResolution        Class = "resolution"
	ClassTest              Class = "test"
	ClassProxy             Class = "proxy"
	ClassCommitProxy       Class = "commit_proxy"
	ClassGRVProxy          Class = "grv_proxy"
	ClassMaster            Class = "master"
	ClassStateless         Class = "stateless"
	ClassLog               Class = "log"
	ClassClusterController Class = "cluster_controller"
	ClassRouter            Class = "router"
	ClassFastRestore       Class = "fast_restore"
	ClassDataDistributor   Class = "data_distributor"
	ClassCoordinator       Class = "coordinator"
	ClassRatekeeper        Class = "ratekeeper"
	ClassStorageCache      Class = "storage_cache"
	ClassBackup            Class = "backup"
	ClassGeneral           Class = "general"
)
