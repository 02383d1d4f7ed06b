package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

func itoa(n int) string { return strconv.Itoa(n) }

// recoveryState is how far a recovery is. Source: foundationdb 7.3.69, fdbserver/Status.actor.cpp,
// RecoveryStatus.
type recoveryState int

const (
	readingCoordinatedState recoveryState = iota
	lockingCoordinatedState
	lockingOldServers
	readingSystemState
	neverCreated
	recruitingServers
	initializingServers
	recoveryTransaction
	writingCoordinatedState
	acceptingCommits
	allLogsRecruited
	storageRecovered
	fullyRecovered
)

// recoveryNames has the name and the description of each state, as the status document gives them.
var recoveryNames = map[recoveryState][2]string{
	readingCoordinatedState: {"reading_coordinated_state", "Requesting information from coordination servers. Verify that a majority of coordination server processes are active."},
	lockingCoordinatedState: {"locking_coordinated_state", "Locking coordination state. Verify that a majority of coordination server processes are active."},
	lockingOldServers:       {"locking_old_transaction_servers", "Locking old transaction servers. Verify that at least one transaction server from the previous generation is running."},
	readingSystemState:      {"reading_transaction_system_state", "Recovering transaction server state. Verify that the transaction server processes are active."},
	neverCreated:            {"configuration_never_created", "The coordinator(s) have no record of this database. Either the coordinator addresses are incorrect, the coordination state on those machines is missing, or no database has been created."},
	recruitingServers:       {"recruiting_transaction_servers", "Recruiting new transaction servers."},
	initializingServers:     {"initializing_transaction_servers", "Initializing new transaction servers and recovering transaction logs."},
	recoveryTransaction:     {"recovery_transaction", "Performing recovery transaction."},
	writingCoordinatedState: {"writing_coordinated_state", "Writing coordinated state. Verify that a majority of coordination server processes are active."},
	acceptingCommits:        {"accepting_commits", "Accepting commits."},
	allLogsRecruited:        {"all_logs_recruited", "Accepting commits. All logs recruited."},
	storageRecovered:        {"storage_recovered", "Accepting commits. All storage servers are reading from the new logs."},
	fullyRecovered:          {"fully_recovered", "Recovery complete."},
}

func (s recoveryState) String() string { return recoveryNames[s][0] }

// recovery is the state of the transaction system.
type recovery struct {
	c           *Cluster
	state       recoveryState
	serial      int // of the recovery that runs: events of an older one are void
	stuck       string
	epoch       int
	generations []generation // the current one first
	roles       recruitment
	recovered   time.Duration // when commits were accepted again
	gap         time.Duration // how long the last one took
	begun       time.Duration
	count       int
	better      bool // a look for better processes is due
	draining    bool // a look for drained logs is due
	reviewing   bool
}

// start starts a recovery, or starts the one that runs anew.
func (r *recovery) start(why cause) {
	if r.c.coordination.database == "" {
		return
	}
	if r.state >= acceptingCommits || r.state == neverCreated {
		r.begun = r.c.clock.now
		r.c.say("recovery: %s", why)
		r.c.judge.recovery(why)
	}
	r.serial++
	r.stuck = ""
	r.state = readingCoordinatedState
	r.clearRoles()
	r.stepLater()
}

// stepLater has the recovery go on after a part of its time.
func (r *recovery) stepLater() {
	serial, owner := r.serial, r.c.judge.owner
	r.c.clock.after(r.c.around(r.c.options.Times.Recovery)/7, func() {
		if r.serial == serial {
			r.c.By(owner, r.step)
		}
	})
}

// step takes a recovery from one state to the next, or finds what it waits for.
func (r *recovery) step() {
	r.stuck = ""
	wait := func(format string) { r.stuck = format }
	switch r.state {
	case readingCoordinatedState:
		switch {
		case r.c.coordination.controller == nil:
			wait("a cluster controller")
		case r.c.coordination.lost():
			wait("the coordinated state, which is lost")
		default:
			r.state = lockingCoordinatedState
		}
	case lockingCoordinatedState:
		r.state = lockingOldServers
	case lockingOldServers:
		if missing := r.unlockable(); missing != "" {
			wait("logs " + missing)
		} else {
			r.state = readingSystemState
		}
	case readingSystemState:
		r.state = recruitingServers
	case recruitingServers:
		roles, missing := r.recruit(r.c.processes.workers())
		if missing != "" {
			wait("processes for " + missing)
			break
		}
		r.roles = roles
		r.giveRoles()
		r.state = initializingServers
	case initializingServers:
		r.state = recoveryTransaction
	case recoveryTransaction:
		r.state = writingCoordinatedState
	case writingCoordinatedState:
		r.accept()
	case acceptingCommits:
		r.state = allLogsRecruited
		r.lookForBetter() // the first to register was elected, which may be excluded
		r.drainLater()
		if r.c.faults.take(FaultSecondRecovery) != nil {
			r.c.By("", func() { r.start(because(changed, "a second one")) })
		}
		return
	default:
		return
	}
	if r.stuck == "" {
		r.stepLater()
	}
}

// accept ends the unavailability: a new generation of logs takes commits.
func (r *recovery) accept() {
	r.state = acceptingCommits
	r.epoch += 2
	r.count++
	r.recovered = r.c.clock.now
	r.gap = r.c.clock.now - r.begun
	r.c.coordination.write()
	if len(r.generations) > 0 {
		r.generations[0].end = r.c.version()
	}
	r.generations = slices.Insert(r.generations, 0, r.newGeneration())
	r.c.say("recovered after %s: generation %d, %d active, logs %s", r.gap.Round(100*time.Millisecond), r.epoch, len(r.generations), strings.Join(r.generations[0].names(), " "))
	r.c.keys.recovered(r.c.version())
	r.c.storage.recruit()
	r.c.data.distribute()
}

// version is the version of the database: a million a second.
func (c *Cluster) version() int64 { return 1_000_000 + int64(c.clock.now/time.Microsecond) }

// drainLater looks after some time whether storage servers have taken everything out of old logs.
func (r *recovery) drainLater() {
	if r.draining {
		return
	}
	r.draining = true
	wait := r.c.options.Times.Drain
	if len(r.generations) == 1 {
		wait = r.c.options.Times.Better
	}
	r.c.clock.after(r.c.around(wait), func() {
		r.draining = false
		r.drain()
	})
}

// drain drops the old generations of logs, once no storage server needs them and they can be read.
func (r *recovery) drain() {
	if r.state != allLogsRecruited && r.state != storageRecovered {
		return
	}
	if len(r.generations) > 1 && r.c.clock.now-r.recovered < r.c.options.Times.Drain {
		r.drainLater()
		return
	}
	for _, s := range r.c.storage.servers {
		if !s.live && s.shards > 0 {
			return // looked at again when it is back or empty
		}
	}
	for _, g := range r.generations[1:] {
		if g.unreadable(r.c) != "" {
			return
		}
	}
	for _, g := range r.generations[1:] {
		g.drop()
	}
	r.generations = r.generations[:1]
	r.state = fullyRecovered
	r.c.say("fully recovered")
	r.review(because(changed, "old logs are empty"))
}

// giveRoles shows the roles at their processes.
func (r *recovery) giveRoles() {
	r.clearRoles()
	r.roles.all(func(name role, h holder) { h.process.roles = append(h.process.roles, string(name)) })
	for _, name := range []role{distributor, ratekeeper} {
		for _, h := range r.roles.roles[name] {
			h.process.roles = append(h.process.roles, string(name))
		}
	}
}

func (r *recovery) clearRoles() {
	for _, p := range r.c.processes.list {
		p.roles = nil
	}
}

// review looks at everything after a change: who leads, who is missing, what can be done better.
func (r *recovery) review(why cause) {
	if r.reviewing {
		return
	}
	r.reviewing = true
	defer func() { r.reviewing = false }()
	r.c.coordination.observe()
	workers := r.c.processes.workers()
	led := r.c.coordination.controller != nil
	elected := r.c.coordination.elect(workers)
	r.c.storage.observe()
	switch {
	case r.c.coordination.database == "":
		if elected {
			r.c.coordination.controller = nil
			r.c.coordination.elect(workers)
		}
		return
	case !elected || !led:
		if r.state >= acceptingCommits || r.stuck == "" || elected {
			r.start(why)
		}
		return
	case r.stuck != "":
		r.stuck = ""
		r.stepLater()
		return
	}
	if r.state > recruitingServers {
		if lost, by := r.lostRole(); lost != (cause{}) { // whoever makes the controller look
			r.c.By(by, func() { r.start(lost) })
			return
		}
	}
	if r.state >= acceptingCommits {
		r.replaceSingletons(workers)
		r.c.storage.recruit()
		r.lookForBetter()
		if len(r.generations) > 1 {
			r.drainLater()
		}
		r.c.data.distribute()
	}
}

// lostRole returns which role of the transaction system is lost, and on whose behalf; empty: none, by the world.
func (r *recovery) lostRole() (lost cause, by string) {
	r.roles.all(func(name role, h holder) {
		if lost != (cause{}) || r.holds(h) {
			return
		}
		lost = because(ended, "lost the %s on %s", name, h.Name)
		if !h.cut {
			by = h.exitBy
		}
	})
	return lost, by
}

// replaceSingletons gives the roles that need no recovery to other processes.
func (r *recovery) replaceSingletons(workers []*process) {
	roles := r.roles.roles
	for _, name := range []role{distributor, ratekeeper} {
		if len(roles[name]) == 1 && r.holds(roles[name][0]) && !r.c.exclusions.contain(roles[name][0].Addresses, roles[name][0].Locality) {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(workers), func(p *process) bool { return r.c.exclusions.contain(p.Addresses, p.Locality) })
		if chosen := pick(free, name, 1, map[*process]int{}); len(chosen) == 1 {
			roles[name] = chosen
			r.giveRoles()
		}
	}
}

// lookForBetter starts a recovery after some time if the roles can be given to better processes then,
// or if a process that is excluded has one.
func (r *recovery) lookForBetter() {
	if r.better {
		return
	}
	r.better = true
	owner := r.c.judge.owner
	r.c.clock.after(r.c.options.Times.Better, func() {
		r.better = false
		if r.state != allLogsRecruited && r.state != fullyRecovered {
			return
		}
		r.c.By(owner, func() {
			if why := r.worthRecovering(); why != (cause{}) {
				r.start(why)
			}
		})
	})
}

func (r *recovery) worthRecovering() (why cause) {
	next, missing := r.recruit(r.c.processes.workers())
	if missing != "" {
		return cause{}
	}
	if k := &r.c.coordination; k.controller != nil { // its successor begins with a recovery that gives all roles anew
		rank := k.rank(clusterController, k.controller)
		if slices.ContainsFunc(r.c.processes.workers(), func(p *process) bool { return k.rank(clusterController, p) < rank }) {
			if !r.c.exclusions.contain(k.controller.Addresses, k.controller.Locality) {
				r.c.judge.owner = "" // the first to register was elected, whoever has restarted the servers
			}
			k.controller = nil
			k.elect(r.c.processes.workers())
			return because(better, "a better cluster controller")
		}
	}
	r.roles.all(func(name role, h holder) {
		if why == (cause{}) && r.c.exclusions.contain(h.Addresses, h.Locality) {
			why = because(changed, "the %s on %s is excluded", name, h.Name)
		}
	})
	if why == (cause{}) && next.better(r.roles) {
		why = because(better, "better processes for the roles")
	}
	return why
}

// FullyRecovered tells whether no old logs are in use.
func (r *recovery) FullyRecovered() bool { return r.state == fullyRecovered }

// Recoveries returns how many recoveries have ended with commits being accepted.
func (r *recovery) Recoveries() int { return r.count }

// Protocol returns the version whose protocol the coordinators speak, or spoke last.
func (c *Cluster) Protocol() fdb.Version { return c.coordination.protocol }
