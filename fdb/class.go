package fdb

import "strings"

// Class is the class of a process: the roles for which FoundationDB prefers it. Source: foundationdb
// 7.3.69, fdbrpc/include/fdbrpc/Locality.h, and fdb-kubernetes-operator 2.33.0,
// docs/cluster_spec.md, ProcessCounts.
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
	ClassGeneral           Class = "general" // settings of all classes; no process has it
)

// Stateful tells whether processes of the class keep data on disk.
func (c Class) Stateful() bool { return c == ClassStorage || c == ClassCoordinator || c.LogLike() }

// LogLike tells whether the class is made for logs.
func (c Class) LogLike() bool { return c == ClassLog || c == ClassTransaction }

// Transaction tells whether the class is of the transaction system.
func (c Class) Transaction() bool { return c != ClassStorage && c != ClassGeneral }

// CoordinatorEligible tells whether a process of the class can be a coordinator.
func (c Class) CoordinatorEligible() bool { return c.Stateful() }

// CoordinatorPriority is the default priority of a class when coordinators are chosen; the higher
// one comes first. Logs come before storage, whose servers are moved more often.
func (c Class) CoordinatorPriority() int {
	if c.LogLike() {
		return 1
	}
	return 0
}

// ServersVariable names the environment variable with the number of servers of a pod. Source:
// fdb-kubernetes-operator 2.33.0, api/v1beta2/foundationdb_process_class.go.
func (c Class) ServersVariable() string { return strings.ToUpper(string(c)) + "_SERVERS_PER_POD" }
