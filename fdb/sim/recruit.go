package sim

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// holder is a process that was given a role; a process that has started again has lost it.
type holder struct {
	*process
	since int // the incarnation that was given the role
}

// works tells whether the process still has the role.
func (r *recovery) holds(h holder) bool {
	return h.incarnation == h.since && h.joined && r.c.processes.works(h.process)
}

// recruitment is who has which role of the transaction system.
type recruitment struct {
	primary string // data center; empty: any
	remote  string // data center of the second copy; empty: none
	roles   map[role][]holder
	// The logs of the satellites and of the remote data center; those of the primary are roles[logRole].
	satellites, remotes []holder
}

// transactionRoles are the roles of which each holder is needed. The loss of one forces a recovery;
// that of a data distributor or a ratekeeper does not.
var transactionRoles = []role{master, commitProxy, grvProxy, resolver, logRole, routerRole}

// all calls f for everybody who is needed, in order.
func (r recruitment) all(f func(role, holder)) {
	for _, name := range transactionRoles {
		for _, h := range r.roles[name] {
			f(name, h)
		}
	}
	for _, h := range r.satellites {
		f(logRole, h)
	}
	for _, h := range r.remotes {
		f(logRole, h)
	}
}

// recruit chooses processes for the roles. missing says what there are too few processes for; empty:
// nothing.
func (r *recovery) recruit(workers []*process) (got recruitment, missing string) {
	for _, at := range r.c.settings.places(r.c.data.replicated) {
		if got, missing = r.recruitIn(workers, at); missing == "" {
			return got, ""
		}
	}
	return got, cmp.Or(missing, "no region can be the primary")
}

// place is one way to spread roles over data centers.
type place struct {
	primary, remote string
	satellites      []string
	satelliteLogs   int
	satelliteFactor int
}

func (r *recovery) recruitIn(workers []*process, at place) (recruitment, string) {
	s := &r.c.settings
	got := recruitment{primary: at.primary, remote: at.remote, roles: map[role][]holder{}}
	used := map[*process]int{}
	in := func(datacenters ...string) []*process {
		var found []*process
		for _, p := range workers {
			if (len(datacenters) == 1 && datacenters[0] == "" || slices.Contains(datacenters, p.datacenter())) && !r.c.exclusions.contain(p.Addresses, p.Locality) {
				found = append(found, p)
			}
		}
		return found
	}
	local := in(at.primary)
	if got.roles[logRole] = spread(local, s.wantedLogs(), s.logReplicas, s.logHalls()); got.roles[logRole] == nil {
		return got, "logs"
	}
	if at.satelliteFactor > 0 {
		if got.satellites = spread(in(at.satellites...), cmp.Or(at.satelliteLogs, s.wantedLogs()), at.satelliteFactor, 0); got.satellites == nil {
			return got, "satellite logs"
		}
	}
	if at.remote != "" {
		far := in(at.remote)
		got.remotes = spread(far, s.wantedRemoteLogs(), s.logReplicas, s.logHalls())
		got.roles[routerRole] = pick(far, routerRole, s.wantedRouters(), used)
		if got.remotes == nil {
			got.remotes, got.roles[routerRole] = nil, nil // the primary goes on alone
		}
	}
	for _, want := range []struct {
		role  role
		count int
	}{
		{master, 1}, {distributor, 1}, {ratekeeper, 1}, {commitProxy, s.wantedCommitProxies()}, {grvProxy, s.wantedGRVProxies()}, {resolver, s.wantedResolvers()},
	} {
		if got.roles[want.role] = pick(local, want.role, want.count, used); len(got.roles[want.role]) == 0 {
			return got, string(want.role)
		}
	}
	return got, ""
}

// pick chooses processes for a stateless role: the fittest, and of these the ones with the fewest roles.
// It takes fewer if there are fewer, and prefers not to take less fit ones only for the number.
func pick(from []*process, r role, count int, used map[*process]int) []holder {
	fit := slices.DeleteFunc(slices.Clone(from), func(p *process) bool { return r.fitness(p.Class) >= excludeFit })
	slices.SortStableFunc(fit, func(a, b *process) int {
		return cmp.Or(cmp.Compare(r.fitness(a.Class), r.fitness(b.Class)), cmp.Compare(used[a], used[b]))
	})
	var chosen []holder
	for _, p := range fit {
		if len(chosen) == count || len(chosen) > 0 && r.fitness(p.Class) > max(r.fitness(chosen[0].Class), goodFit) {
			break
		}
		used[p]++
		chosen = append(chosen, holder{p, p.incarnation})
	}
	return chosen
}

// spread chooses processes for logs: at least factor, in as many zones, and with halls in so many data
// halls; nil if that cannot be.
func spread(from []*process, count, factor, halls int) []holder {
	fit := slices.DeleteFunc(slices.Clone(from), func(p *process) bool { return logRole.fitness(p.Class) >= excludeFit })
	zones, inHall := map[string]int{}, map[string]int{}
	var chosen []holder
	for len(chosen) < max(count, factor) {
		at := -1
		for i, p := range fit {
			if at < 0 || cmp.Or(
				cmp.Compare(logRole.fitness(p.Class), logRole.fitness(fit[at].Class)),
				cmp.Compare(inHall[p.hall()], inHall[fit[at].hall()]),
				cmp.Compare(zones[p.zone()], zones[fit[at].zone()]),
			) < 0 {
				at = i
			}
		}
		// A worse class is taken only while there are too few of the better one.
		if at < 0 || len(chosen) >= factor && len(zones) >= factor && logRole.fitness(fit[at].Class) > logRole.fitness(chosen[0].Class) {
			break
		}
		p := fit[at]
		fit = slices.Delete(fit, at, at+1)
		zones[p.zone()]++
		inHall[p.hall()]++
		chosen = append(chosen, holder{p, p.incarnation})
	}
	if len(zones) < factor || len(inHall) < halls {
		return nil
	}
	return chosen
}

// better tells whether a recruitment is better than another in something and worse in nothing.
func (r recruitment) better(than recruitment) bool {
	if r.primary != than.primary {
		return true
	}
	better, worse := false, false
	compare := func(name role, mine, other []holder) {
		left, right := worst(name, mine), worst(name, other)
		switch {
		case len(mine) > len(other) && left <= right || left < right && len(mine) >= len(other):
			better = true
		case len(mine) < len(other) || left > right:
			worse = true
		}
	}
	for _, name := range transactionRoles {
		compare(name, r.roles[name], than.roles[name])
	}
	compare(logRole, r.satellites, than.satellites)
	compare(logRole, r.remotes, than.remotes)
	return better && !worse
}

// worst is the fitness of the least fit holder of a role.
func worst(r role, list []holder) fitness {
	if len(list) == 0 {
		return bestFit
	}
	return r.fitness(slices.MaxFunc(list, func(a, b holder) int { return cmp.Compare(r.fitness(a.Class), r.fitness(b.Class)) }).Class)
}

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
