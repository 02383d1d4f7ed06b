package sim

import "github.com/pawl-dev/pawl/fdb"

// fitness is how well a class of processes suits a role; less is better. Source: foundationdb 7.3.69,
// fdbrpc/Locality.cpp, machineClassFitness; 7.1.67 and 7.4.6 say the same of these roles.
type fitness int

const (
	bestFit fitness = iota
	goodFit
	unsetFit
	okayFit
	worstFit
	excludeFit
	neverAssign
)

// role is a role that the cluster controller gives to processes, as the status document names it.
type role string

const (
	clusterController role = "cluster_controller"
	master            role = "master"
	commitProxy       role = "commit_proxy"
	grvProxy          role = "grv_proxy"
	resolver          role = "resolver"
	logRole           role = "log"
	routerRole        role = "router"
	distributor       role = "data_distributor"
	ratekeeper        role = "ratekeeper"
	storageRole       role = "storage"
	coordinatorRole   role = "coordinator"
)

// best has the class that a stateless role is named for.
var best = map[role]fdb.Class{
	clusterController: fdb.ClassClusterController, master: fdb.ClassMaster, commitProxy: fdb.ClassCommitProxy,
	grvProxy: fdb.ClassGRVProxy, resolver: fdb.ClassResolution, routerRole: fdb.ClassRouter,
	distributor: fdb.ClassDataDistributor, ratekeeper: fdb.ClassRatekeeper,
}

func (r role) fitness(class fdb.Class) fitness {
	switch class {
	case fdb.ClassCoordinator, fdb.ClassTest, fdb.ClassStorageCache:
		return neverAssign
	case "", fdb.ClassUnset, fdb.ClassGeneral:
		return unsetFit
	}
	switch r {
	case storageRole:
		switch class {
		case fdb.ClassStorage:
			return bestFit
		case fdb.ClassTransaction, fdb.ClassLog:
			return worstFit
		}
		return neverAssign
	case logRole:
		switch class {
		case fdb.ClassLog:
			return bestFit
		case fdb.ClassTransaction:
			return goodFit
		case fdb.ClassStorage:
			return worstFit
		}
		return neverAssign
	}
	switch class {
	case best[r]:
		return bestFit
	case fdb.ClassStateless:
		return goodFit
	case fdb.ClassMaster:
		if r == clusterController || r == distributor || r == ratekeeper {
			return okayFit
		}
	case fdb.ClassResolution, fdb.ClassCommitProxy, fdb.ClassGRVProxy, fdb.ClassRouter:
		if r == clusterController {
			return okayFit
		}
	case fdb.ClassTransaction:
		if r != distributor && r != ratekeeper {
			return okayFit
		}
	}
	return worstFit
}
