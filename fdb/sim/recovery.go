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
}

// recover starts a recovery, or starts the one that runs anew.
func (c *Cluster) recover(cause string) {
	r := &c.recovery
	if c.coordination.database == "" {
		return
	}
	if r.state >= acceptingCommits || r.state == neverCreated {
		r.begun = c.clock.now
		c.say("recovery: %s", cause)
		c.judgeRecovery(cause)
	}
	r.serial++
	r.stuck = ""
	r.state = readingCoordinatedState
	c.clearRoles()
	c.stepLater()
}

// stepLater has the recovery go on after a part of its time.
func (c *Cluster) stepLater() {
	serial, owner := c.recovery.serial, c.judge.owner
	c.clock.after(c.around(c.options.Times.Recovery)/7, func() {
		if c.recovery.serial == serial {
			c.By(owner, c.step)
		}
	})
}

// step takes a recovery from one state to the next, or finds what it waits for.
func (c *Cluster) step() {
	r := &c.recovery
	r.stuck = ""
	wait := func(format string) { r.stuck = format }
	switch r.state {
	case readingCoordinatedState:
		switch {
		case c.coordination.controller == nil:
			wait("a cluster controller")
		case c.stateLost():
			wait("the coordinated state, which is lost")
		default:
			r.state = lockingCoordinatedState
		}
	case lockingCoordinatedState:
		r.state = lockingOldServers
	case lockingOldServers:
		if missing := c.unlockable(); missing != "" {
			wait("logs " + missing)
		} else {
			r.state = readingSystemState
		}
	case readingSystemState:
		r.state = recruitingServers
	case recruitingServers:
		roles, missing := c.recruit(c.workers())
		if missing != "" {
			wait("processes for " + missing)
			break
		}
		r.roles = roles
		c.giveRoles()
		r.state = initializingServers
	case initializingServers:
		r.state = recoveryTransaction
	case recoveryTransaction:
		r.state = writingCoordinatedState
	case writingCoordinatedState:
		c.accept()
	case acceptingCommits:
		r.state = allLogsRecruited
		c.drainLater()
		if c.take(FaultSecondRecovery) != nil {
			c.By("", func() { c.recover("a second one") })
		}
		return
	default:
		return
	}
	if r.stuck == "" {
		c.stepLater()
	}
}

// accept ends the unavailability: a new generation of logs takes commits.
func (c *Cluster) accept() {
	r := &c.recovery
	r.state = acceptingCommits
	r.epoch += 2
	r.count++
	r.recovered = c.clock.now
	r.gap = c.clock.now - r.begun
	c.writeState()
	if len(r.generations) > 0 {
		r.generations[0].end = c.version()
	}
	r.generations = slices.Insert(r.generations, 0, c.newGeneration())
	c.say("recovered after %s: generation %d, %d active, logs %s", r.gap.Round(100*time.Millisecond), r.epoch, len(r.generations), strings.Join(r.generations[0].names(), " "))
	c.keys.recovered(c.version())
	c.recruitStorage()
	c.distribute()
}

// version is the version of the database: a million a second.
func (c *Cluster) version() int64 { return 1_000_000 + int64(c.clock.now/time.Microsecond) }

// drainLater looks after some time whether storage servers have taken everything out of old logs.
func (c *Cluster) drainLater() {
	r := &c.recovery
	if r.draining {
		return
	}
	r.draining = true
	wait := c.options.Times.Drain
	if len(r.generations) == 1 {
		wait = c.options.Times.Better
	}
	c.clock.after(c.around(wait), func() {
		r.draining = false
		c.drain()
	})
}

// drain drops the old generations of logs, once no storage server needs them and they can be read.
func (c *Cluster) drain() {
	r := &c.recovery
	if r.state != allLogsRecruited && r.state != storageRecovered {
		return
	}
	if len(r.generations) > 1 && c.clock.now-r.recovered < c.options.Times.Drain {
		c.drainLater()
		return
	}
	for _, s := range c.servers {
		if !s.live && s.shards > 0 {
			return // looked at again when it is back or empty
		}
	}
	for _, g := range r.generations[1:] {
		if g.unreadable(c) != "" {
			return
		}
	}
	for _, g := range r.generations[1:] {
		g.drop()
	}
	r.generations = r.generations[:1]
	r.state = fullyRecovered
	c.say("fully recovered")
	c.review("old logs are empty")
}

// giveRoles shows the roles at their processes.
func (c *Cluster) giveRoles() {
	c.clearRoles()
	c.recovery.roles.all(func(name role, h holder) { h.process.roles = append(h.process.roles, string(name)) })
	for _, name := range []role{distributor, ratekeeper} {
		for _, h := range c.recovery.roles.roles[name] {
			h.process.roles = append(h.process.roles, string(name))
		}
	}
}

func (c *Cluster) clearRoles() {
	for _, p := range c.processes {
		p.roles = nil
	}
}

// review looks at everything after a change: who leads, who is missing, what can be done better.
func (c *Cluster) review(cause string) {
	if c.reviewing {
		return
	}
	c.reviewing = true
	defer func() { c.reviewing = false }()
	c.coordinate()
	workers := c.workers()
	led := c.coordination.controller != nil
	elected := c.elect(workers)
	c.lookAtStorage()
	r := &c.recovery
	switch {
	case c.coordination.database == "":
		if elected {
			c.coordination.controller = nil
			c.elect(workers)
		}
		return
	case !elected || !led:
		if r.state >= acceptingCommits || r.stuck == "" || elected {
			c.recover(cause)
		}
		return
	case r.stuck != "":
		r.stuck = ""
		c.stepLater()
		return
	}
	if r.state > recruitingServers {
		if lost := c.lostRole(); lost != "" {
			c.recover(lost)
			return
		}
	}
	if r.state >= acceptingCommits {
		c.replaceSingletons(workers)
		c.recruitStorage()
		c.lookForBetter()
		if len(r.generations) > 1 {
			c.drainLater()
		}
		c.distribute()
	}
}

// lostRole returns which role of the transaction system is lost; empty: none.
func (c *Cluster) lostRole() (lost string) {
	c.recovery.roles.all(func(name role, h holder) {
		if lost == "" && !c.holds(h) {
			lost = "lost the " + string(name) + " on " + h.Name
		}
	})
	return lost
}

// replaceSingletons gives the roles that need no recovery to other processes.
func (c *Cluster) replaceSingletons(workers []*process) {
	roles := c.recovery.roles.roles
	for _, name := range []role{distributor, ratekeeper} {
		if len(roles[name]) == 1 && c.holds(roles[name][0]) && !c.excluded(roles[name][0].Addresses, roles[name][0].Locality) {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(workers), func(p *process) bool { return c.excluded(p.Addresses, p.Locality) })
		if chosen := pick(free, name, 1, map[*process]int{}); len(chosen) == 1 {
			roles[name] = chosen
			c.giveRoles()
		}
	}
}

// lookForBetter starts a recovery after some time if the roles can be given to better processes then,
// or if a process that is excluded has one.
func (c *Cluster) lookForBetter() {
	r := &c.recovery
	if r.better {
		return
	}
	r.better = true
	owner := c.judge.owner
	c.clock.after(c.options.Times.Better, func() {
		r.better = false
		if r.state != allLogsRecruited && r.state != fullyRecovered {
			return
		}
		c.By(owner, func() {
			if cause := c.worthRecovering(); cause != "" {
				c.recover(cause)
			}
		})
	})
}

func (c *Cluster) worthRecovering() (cause string) {
	next, missing := c.recruit(c.workers())
	if missing != "" {
		return ""
	}
	c.recovery.roles.all(func(name role, h holder) {
		if cause == "" && c.excluded(h.Addresses, h.Locality) {
			cause = "the " + string(name) + " on " + h.Name + " is excluded"
		}
	})
	if k := &c.coordination; cause == "" && k.controller != nil {
		rank := c.rank(clusterController, k.controller)
		if slices.ContainsFunc(c.workers(), func(p *process) bool { return c.rank(clusterController, p) < rank }) {
			k.controller = nil
			c.elect(c.workers())
			return "a better cluster controller"
		}
	}
	if cause == "" && next.better(c.recovery.roles) {
		cause = "better processes for the roles"
	}
	return cause
}

// FullyRecovered tells whether no old logs are in use.
func (c *Cluster) FullyRecovered() bool { return c.recovery.state == fullyRecovered }

// Recoveries returns how many recoveries have ended with commits being accepted.
func (c *Cluster) Recoveries() int { return c.recovery.count }

// Protocol returns the version whose protocol the coordinators speak, or spoke last.
func (c *Cluster) Protocol() fdb.Version { return c.coordination.protocol }
