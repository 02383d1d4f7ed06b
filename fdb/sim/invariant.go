package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Rules are the numbers of the invariants. A zero field has the default that stands beside it.
type Rules struct {
	// Window is how long after one burst of recoveries that the operator caused the next one may begin:
	// 60 s. Those within Burst of the first count as one: 30 s.
	Window, Burst time.Duration
	Generations   int           // of logs that may be active when the operator causes a recovery: 10
	Mixed         time.Duration // how long two protocols may be there in an upgrade: 2 min
	Sight         time.Duration // what has failed for less than this the operator may not have seen: 10 s

	Locks      bool   // acts need the lock
	LockPrefix string // of its keys; empty: fdb.LockPrefix
	Excluded   int    // servers of a class that may be excluded and not free of roles; 0: not judged
	// Bound is how long after the last disturbance the database must be healthy; 0: not judged.
	Bound time.Duration
}

func (r Rules) withDefaults() Rules {
	or(&r.Window, time.Minute)
	or(&r.Burst, 30*time.Second)
	or(&r.Generations, 10)
	or(&r.Mixed, 2*time.Minute)
	or(&r.Sight, 10*time.Second)
	return r
}

// Violation says that an invariant was broken. The numbers are those of the specification, section 15:
//
//	 1  what is deleted holds no shard, log or other role and is no coordinator, unless others suffice
//	 2  copies are never below 1; by the operator's acts never below R-1, and only in one zone
//	 3  a majority of coordinators stays reachable under the operator's acts
//	 4  at most one recovery in a window is caused by the operator, none with more than 10 generations; what follows
//	    from one is part of it, and while two protocols are there the servers that are behind have to follow
//	 5  the database is created once; every configure is accepted
//	 6  no act without a valid lock; a denied owner does nothing
//	 7  two protocols coexist only within the restart of an upgrade
//	 8  include only after the resources are gone; no exclusion is left over
//	 9  exclusions are within the budget, and none happens while the database is unavailable
//	10  without new faults the database is healthy within a bound
//	11  nothing is done to a settled database
type Violation struct {
	Invariant int
	At        time.Time
	Text      string
}

// String returns the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("invariant %d: %s", v.Invariant, v.Text)
}

// judge judges the invariants after every effect.
type judge struct {
	c          *Cluster
	owner      string // on whose behalf something happens; empty: the world
	violations []Violation
	effects    int

	burst      time.Duration // when the last burst of the operator's recoveries began
	bursts     int
	mixedSince time.Duration
	mixedUntil time.Duration // when two protocols were there last
	mixedBy    string
	mixed      bool
	excludedAt map[string]time.Duration
	disturbed  time.Duration
	unhealthy  bool // a violation of 10 was told

	told    bool          // the owner has heard that the database is available
	heardAt time.Duration // when
}

// hears notes that a status was printed for the owner.
func (j *judge) hears() {
	if j.owner != "" && (j.c.Available() || j.c.faults.active(FaultStatusStale) != nil) {
		j.told, j.heardAt = true, j.c.clock.now
	}
}

// mayBelieve reports whether the owner has heard within a minute that the database is available. What happens between
// a status and the act that follows from it is nobody's fault.
func (j *judge) mayBelieve() bool { return j.told && j.c.clock.now-j.heardAt < time.Minute }

// Violations returns the invariants that were broken, in order.
func (j *judge) Violations() []Violation { return slices.Clone(j.violations) }

// Broken adds a violation that only the world around the database can see.
func (j *judge) Broken(invariant int, format string, args ...any) {
	j.violate(invariant, format, args...)
}

func (j *judge) violate(invariant int, format string, args ...any) {
	v := Violation{Invariant: invariant, At: j.c.Now(), Text: fmt.Sprintf(format, args...)}
	j.violations = append(j.violations, v)
	j.c.say("VIOLATED %s", v)
}

// effect judges any act that changes the database.
func (j *judge) effect() {
	j.disturbed = j.c.clock.now
	if j.owner == "" {
		return
	}
	j.effects++
	if j.c.options.Rules.Locks {
		j.lock()
	}
}

// lock judges whether who acts has the lock.
func (j *judge) lock() {
	keys := fdb.Keys(j.c.options.Rules.LockPrefix)
	if _, denied := j.c.keys.at(keys.Denied(j.owner), 1<<62); denied {
		j.violate(6, "%s acts although it is denied", j.owner)
		return
	}
	value, _ := j.c.keys.at(keys.Global(), 1<<62)
	stored := fdb.DecodeLock(value)
	switch {
	case stored.Err != nil || stored.Record == nil:
		j.violate(6, "%s acts without the lock", j.owner)
	case stored.Record.Owner != j.owner:
		j.violate(6, "%s acts while %s has the lock", j.owner, stored.Record.Owner)
	case !stored.Record.End.After(j.c.Now()):
		j.violate(6, "%s acts with a lock that has expired", j.owner)
	}
}

// stop judges the deletion of a pod.
func (j *judge) stop(p *process) {
	j.disturbed = j.c.clock.now
	if j.owner == "" {
		return
	}
	j.effects++
	// A server of another protocol serves nothing: its pod comes back with its claim, whose deletion is judged by itself.
	if p.Version.ProtocolCompatible(j.c.coordination.protocol) && j.c.exclusions.contain(p.Addresses, p.Locality) {
		if held := j.held(p.folder, p); held != "" {
			j.violate(1, "%s is removed while it holds %s", p.Name, held)
		}
	}
	j.copies(p)
	for _, g := range j.c.recovery.generations {
		for _, set := range []logSet{g.primary, g.satellites} {
			if slices.ContainsFunc(set.logs, func(l logServer) bool { return l.folder == p.folder }) && j.seenMissing(set)+1 >= set.factor && set.factor > 1 {
				j.violate(1, "%s is deleted while other logs of generation %d are missing", p.Name, g.epoch)
			}
		}
	}
	if j.c.coordination.has(p.Server) && j.c.coordination.quorum {
		reached := 0
		for _, a := range j.c.coordination.connection.Coordinators {
			if other := j.c.processes.at(a); other != nil && other != p && !j.c.faults.partitioned(a) {
				reached++
			}
		}
		if reached <= len(j.c.coordination.connection.Coordinators)/2 {
			j.violate(3, "%s is deleted, and of %d coordinators %d are left", p.Name, len(j.c.coordination.connection.Coordinators), reached)
		}
	}
}

// seen tells whether the operator can know that nobody serves a data folder.
func (j *judge) seen(f *folder) bool {
	return f.erased || f.away && j.c.clock.now-f.left >= j.c.options.Rules.Sight
}

// seenMissing counts the logs of a set that the operator can know to be missed.
func (j *judge) seenMissing(set logSet) (count int) {
	for _, l := range set.logs {
		if j.seen(l.folder) {
			count++
		}
	}
	return count
}

// copies judges whether enough copies can be read without a process, and whether servers with data
// are away in its zone only.
func (j *judge) copies(p *process) {
	s := j.c.storage.of[p.Folder]
	if s == nil || s.shards == 0 || !s.live {
		return
	}
	zones := map[string]bool{p.zone(): true}
	for _, other := range j.c.storage.servers {
		if other != s && other.shards > 0 && j.seen(other.folder) {
			zones[other.zone()] = true
		}
	}
	least := j.c.settings.storageReplicas
	for _, sh := range j.c.data.shards {
		if !slices.Contains(sh.replicas, s) {
			continue
		}
		left := 0
		for _, other := range sh.replicas {
			if other != s && !j.seen(other.folder) {
				left++
			}
		}
		least = min(least, left)
	}
	if least < j.c.settings.storageReplicas-1 || len(zones) > 1 {
		j.violate(2, "%s is deleted, and some shard has %d readable copies, with servers away in %d zones", p.Name, least, len(zones))
	}
}

// erase judges the deletion of a claim.
func (j *judge) erase(f *folder) {
	j.disturbed = j.c.clock.now
	if j.owner == "" {
		return
	}
	j.effects++
	if held := j.held(f, nil); held != "" {
		j.violate(1, "the data folder %s is deleted while it holds %s", f.name, held)
	}
}

// held says what a data folder, and a process, hold; empty: nothing.
func (j *judge) held(f *folder, p *process) string {
	var parts []string
	if f != nil {
		h := j.c.storage.Holds(f.name)
		if h.Shards > 0 {
			parts = append(parts, fmt.Sprintf("%d shards", h.Shards))
		}
		if len(h.Logs) > 0 {
			parts = append(parts, fmt.Sprintf("%d logs", len(h.Logs)))
		}
		if h.Coordinator {
			parts = append(parts, "the state of a coordinator")
		}
	}
	if p != nil && p.joined {
		parts = append(parts, p.roles...)
		if j.c.coordination.has(p.Server) && (f == nil || !j.c.storage.Holds(f.name).Coordinator) {
			parts = append(parts, "the place of a coordinator")
		}
	}
	return strings.Join(parts, ", ")
}

// recovery judges a recovery that begins.
func (j *judge) recovery(why cause) {
	rules := j.c.options.Rules
	if j.owner == "" || len(j.c.recovery.generations) == 0 {
		return
	}
	since := j.c.clock.now - j.burst
	switch {
	case j.bursts > 0 && since < rules.Burst:
	case j.bursts > 0 && since < rules.Window && !(j.mixing() && why.kind == ended):
		j.violate(4, "%s causes a recovery %s after another one: %s", j.owner, since.Round(time.Second), why)
		j.burst = j.c.clock.now
	default:
		j.burst = j.c.clock.now
		j.bursts++
	}
	if n := len(j.c.recovery.generations); n > rules.Generations && !(since < rules.Burst && why.kind == better) {
		j.violate(4, "%s causes a recovery while %d generations are active", j.owner, n)
	}
}

// mixing reports whether two protocols are there, or were a moment ago.
func (j *judge) mixing() bool {
	return j.mixed || j.mixedUntil > 0 && j.c.clock.now-j.mixedUntil < j.c.options.Rules.Burst
}

// CausedRecoveries returns how many recoveries the operator has caused; those of one burst count as one.
func (j *judge) CausedRecoveries() int { return j.bursts }

// configure judges how a configure command ended.
func (j *judge) configure(words string, result configureResult) {
	if strings.HasPrefix(words, "new ") { // a database that is not there yet has no lock
		j.disturbed = j.c.clock.now
		if j.owner != "" {
			j.effects++
		}
	} else {
		j.effect()
	}
	if j.owner == "" {
		return
	}
	switch result {
	case configureSuccess, configureSuccessGradual, configureSuccessExperimental, configureCreated, configureCreatedExperimental, configureUnavailable:
	case configureAlreadyCreated:
		j.violate(5, "configure new although the database is there")
	default:
		j.violate(5, "refused: configure %s", words)
	}
}

// exclude judges targets that were excluded.
func (j *judge) exclude(targets []string) {
	j.effect()
	if j.excludedAt == nil {
		j.excludedAt = map[string]time.Duration{}
	}
	for _, target := range targets {
		j.excludedAt[target] = j.c.clock.now
	}
	if j.owner == "" || j.c.options.Rules.Excluded == 0 {
		return
	}
	unfinished := map[fdb.Class]int{}
	for _, p := range j.c.processes.list {
		if p.running && j.c.exclusions.contain(p.Addresses, p.Locality) && j.held(p.folder, p) != "" {
			unfinished[p.Class]++
		}
	}
	for class, n := range unfinished {
		if n > j.c.options.Rules.Excluded {
			j.violate(9, "%d servers of class %s are excluded and not free, at most %d may be", n, class, j.c.options.Rules.Excluded)
		}
	}
}

// include judges targets that are no longer excluded.
func (j *judge) include(targets []string) {
	j.effect()
	if j.owner == "" {
		return
	}
	for _, target := range targets {
		for _, p := range j.c.processes.list {
			if excludedBy(target, p.Addresses, p.Locality) && (strings.HasPrefix(target, fdb.LocalityPrefix) || p.started < j.excludedAt[target]) {
				j.violate(8, "%s is included while %s is there", target, p.Name)
			}
		}
		for _, s := range j.c.storage.servers {
			if !s.folder.erased && excludedBy(target, s.Addresses, s.Locality) && j.c.processes.find(s.Name) == nil {
				j.violate(8, "%s is included while the data folder %s is there", target, s.folder.name)
			}
		}
	}
}

// protocols judges how long processes of two protocols have been there.
func (j *judge) protocols() {
	var first *process
	mixed := false
	for _, p := range j.c.processes.list {
		switch {
		case !p.running:
		case first == nil:
			first = p
		case !p.Version.ProtocolCompatible(first.Version):
			mixed = true
		}
	}
	if !mixed {
		if j.mixed {
			j.mixed, j.mixedUntil = false, j.c.clock.now
		}
		return
	}
	if j.mixed {
		return
	}
	since := j.c.clock.now
	j.mixed, j.mixedSince, j.mixedBy = true, since, j.owner
	j.c.clock.after(j.c.options.Rules.Mixed, func() {
		if j.mixed && j.mixedSince == since && j.mixedBy != "" {
			j.violate(7, "processes of two protocols have been there for %s", j.c.options.Rules.Mixed)
		}
	})
}

// check judges, after every effect, whether the database has become healthy again in time.
func (j *judge) check() {
	bound := j.c.options.Rules.Bound
	if bound == 0 || j.c.coordination.database == "" || j.unhealthy || len(j.c.faults.list) > 0 || j.c.clock.now-j.disturbed <= bound {
		return
	}
	if why := j.Unhealthy(); why != "" {
		j.unhealthy = true
		j.violate(10, "%s after the last disturbance %s", bound, why)
	}
}

// Unhealthy says what keeps the database from full health; empty: nothing.
func (j *judge) Unhealthy() string {
	switch {
	case !j.c.Available():
		return "the database is unavailable: " + strings.TrimSpace("it waits for "+j.c.recovery.stuck)
	case j.c.recovery.state != fullyRecovered:
		return "the recovery is at " + j.c.recovery.state.String()
	case j.c.data.moving > 0:
		return fmt.Sprintf("%d shards move", j.c.data.moving)
	}
	for i, sh := range j.c.data.shards {
		if sh.liveCopies("", false) < j.c.settings.storageReplicas {
			return fmt.Sprintf("shard %d has %d copies", i, sh.liveCopies("", false))
		}
	}
	return ""
}

// Mark returns a mark of what the operator has done so far, for JudgeSettled.
func (j *judge) Mark() int { return j.effects }

// JudgeSettled judges a database that the operator holds for settled: since the mark it has done nothing,
// and nothing is excluded that is not there.
func (j *judge) JudgeSettled(mark int) {
	if j.effects != mark {
		j.violate(11, "%d acts on a settled database", j.effects-mark)
	}
	for _, target := range j.c.exclusions.targets {
		if !slices.ContainsFunc(j.c.processes.list, func(p *process) bool { return excludedBy(target, p.Addresses, p.Locality) }) {
			j.violate(8, "%s is excluded, and nothing of it is there", target)
		}
	}
}
