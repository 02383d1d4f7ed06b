package foundationdb

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// RoleCounts says on how many processes each role is recruited.
type RoleCounts = fdb.RoleCounts

// Roles returns the counts of roles with their defaults. Separate proxies are there as soon as one of their
// counts is given. -1: FoundationDB decides.
func Roles(spec v1beta2.FoundationDBClusterSpec) RoleCounts {
	return ConfigurationOf(spec.DatabaseConfiguration).Counts()
}

// countable are the classes of processCounts. Source: fdb-kubernetes-operator 2.33.0,
// config/crd/bases/apps.foundationdb.org_foundationdbclusters.yaml, without tester, which is no class of
// FoundationDB.
var countable = map[fdb.Class]bool{
	fdb.ClassUnset: true, fdb.ClassStorage: true, fdb.ClassTransaction: true, fdb.ClassResolution: true, fdb.ClassTest: true, fdb.ClassProxy: true,
	fdb.ClassCommitProxy: true, fdb.ClassGRVProxy: true, fdb.ClassMaster: true, fdb.ClassStateless: true, fdb.ClassLog: true, fdb.ClassClusterController: true,
	fdb.ClassRouter: true, fdb.ClassFastRestore: true, fdb.ClassDataDistributor: true, fdb.ClassCoordinator: true, fdb.ClassRatekeeper: true,
	fdb.ClassStorageCache: true, fdb.ClassBackup: true,
}

// Groups returns the desired number of process groups for storage, log and stateless, and for every other class
// whose number is given. -1: none. What is no class is left out.
func Groups(spec v1beta2.FoundationDBClusterSpec) map[fdb.Class]int {
	groups := map[fdb.Class]int{}
	for class, n := range spec.ProcessCounts {
		if n != 0 && countable[fdb.Class(class)] {
			groups[fdb.Class(class)] = max(-1, n)
		}
	}
	given := func(class fdb.Class) bool { return groups[class] > 0 }
	set := func(class fdb.Class, n int) {
		if groups[class] == 0 {
			groups[class] = n
		}
	}
	roles, tolerance := Roles(spec), fdb.Redundancy(spec.DatabaseConfiguration.RedundancyMode).FaultTolerance()
	main, satellite, satelliteLogs := placeOf(spec)
	if satellite && !main {
		set(fdb.ClassLog, share(spec, 1+satelliteLogs))
		set(fdb.ClassStorage, -1)
		set(fdb.ClassStateless, -1)
		return groups
	}
	set(fdb.ClassStorage, share(spec, roles.Storage))
	set(fdb.ClassLog, share(spec, withSpares(max(roles.Logs+satelliteLogs, roles.RemoteLogs), tolerance)))

	primary := 0
	for _, role := range []struct {
		class fdb.Class
		n     int
	}{
		{fdb.ClassMaster, 1}, {fdb.ClassClusterController, 1}, {fdb.ClassResolution, roles.Resolvers}, {fdb.ClassRatekeeper, 1},
		{fdb.ClassDataDistributor, 1}, {fdb.ClassProxy, roles.Proxies}, {fdb.ClassGRVProxy, roles.GRVProxies}, {fdb.ClassCommitProxy, roles.CommitProxies},
	} {
		if !given(role.class) {
			primary += max(0, role.n)
		}
	}
	set(fdb.ClassStateless, share(spec, withSpares(max(primary, roles.LogRouters), tolerance)))
	return groups
}

// withSpares adds the fault tolerance to a count that is not 0.
func withSpares(n, tolerance int) int {
	if n <= 0 {
		return n
	}
	return n + tolerance
}

// OneOfSeveral reports whether the Kubernetes cluster of an object is one fault domain of several.
func OneOfSeveral(spec v1beta2.FoundationDBClusterSpec) bool {
	return spec.FaultDomain.Key == kubernetesClusterDomain && zonesOf(spec) > 1
}

// zonesOf is the number of Kubernetes clusters that share the groups.
func zonesOf(spec v1beta2.FoundationDBClusterSpec) int {
	if spec.FaultDomain.ZoneCount > 0 {
		return spec.FaultDomain.ZoneCount
	}
	mode := fdb.Redundancy(spec.DatabaseConfiguration.RedundancyMode)
	return mode.FaultDomains() + mode.FaultTolerance()
}

// share returns the part of a count that this Kubernetes cluster runs, or -1 for none.
func share(spec v1beta2.FoundationDBClusterSpec, n int) int {
	domain := spec.FaultDomain
	if n <= 0 || domain.ZoneIndex < 0 {
		return -1
	}
	if domain.Key == kubernetesClusterDomain {
		zones := zonesOf(spec)
		rest := n % zones
		n /= zones
		if domain.ZoneIndex < rest {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	return n
}

// placeOf returns what the regions make of our data center, and the largest number of satellite logs of the
// regions that use it as satellite.
func placeOf(spec v1beta2.FoundationDBClusterSpec) (main, satellite bool, logs int) {
	for _, region := range spec.DatabaseConfiguration.Regions {
		for _, dc := range region.Datacenters {
			switch {
			case dc.ID != spec.DataCenter || dc.ID == "":
			case dc.Satellite == 0:
				main = true
			default:
				satellite, logs = true, max(logs, region.SatelliteLogs)
			}
		}
	}
	return main, satellite, logs
}

// ServersPerPod returns the number of servers in a pod of a class.
func ServersPerPod(spec v1beta2.FoundationDBClusterSpec, class fdb.Class) int {
	switch {
	case class == fdb.ClassStorage:
		return max(1, spec.StorageServersPerPod)
	case class.LogLike():
		return max(1, spec.LogServersPerPod)
	}
	return 1
}

// SharesDatabase reports whether other objects may hold parts of the database.
func SharesDatabase(spec v1beta2.FoundationDBClusterSpec) bool {
	centers := 0
	for _, region := range spec.DatabaseConfiguration.Regions {
		centers += len(region.Datacenters)
	}
	return centers > 1 || OneOfSeveral(spec) || spec.DataHall != "" || spec.SeedConnectionString != ""
}
