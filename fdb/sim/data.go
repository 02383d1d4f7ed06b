package sim

import (
	"cmp"
	"slices"
	"time"
)

// shard is a piece of the data, with a copy at each of its servers.
type shard struct {
	replicas []*storageServer
	target   []*storageServer // while it moves
	lost     bool             // no copy is left
}

// data is where the data are and how they move.
type data struct {
	c          *Cluster
	shards     []*shard
	moving     int
	replicated map[string]bool // data centers that have had a whole copy since they are in use
	changing   *storageServer  // whose engine is being changed
	written    int64           // bytes moved
	again      bool            // a look for shards to move is due
}

// create makes the shards; they get their servers when there are some.
func (d *data) create(count int) {
	d.replicated = map[string]bool{}
	for range count {
		d.shards = append(d.shards, &shard{})
	}
}

// configured forgets data centers that are no longer in use.
func (d *data) configured() {
	for dc := range d.replicated {
		used := slices.Contains(d.c.settings.datacenters(d.c.recovery.roles.primary), dc)
		if !used {
			delete(d.replicated, dc)
		}
	}
}

// readable tells whether the system's own data can be read.
func (d *data) readable() bool { return len(d.shards) > 0 && d.shards[0].liveCopies("", false) > 0 }

// liveCopies counts the copies of a shard that can be read, in one data center or in all.
func (sh *shard) liveCopies(dc string, one bool) (count int) {
	for _, s := range sh.replicas {
		if s.live && !s.folder.erased && (!one || s.datacenter() == dc) {
			count++
		}
	}
	return count
}

// distribute has shards move to the servers where they should be.
func (d *data) distribute() {
	if !d.distributes() {
		return
	}
	d.choose()
	d.firstCopies()
	// The shards with the fewest copies come first.
	for missing := d.c.settings.storageReplicas; missing >= 0; missing-- {
		for i, sh := range d.shards {
			if d.moving >= d.c.options.Moves {
				return
			}
			if sh.target == nil && !sh.lost && max(0, d.c.settings.storageReplicas-sh.liveCopies("", false)) == missing {
				d.move(i, sh)
			}
		}
	}
	d.noteReplicated()
	if d.moving == 0 && d.unplaced() {
		d.distributeLater()
	}
}

// distributes tells whether data can move now. Without a distributor nothing moves.
func (d *data) distributes() bool {
	return len(d.shards) > 0 && d.c.recovery.state >= acceptingCommits && d.c.coordination.controller != nil &&
		len(d.c.recovery.roles.roles[distributor]) > 0 && !d.c.faults.stuckMovement()
}

// unplaced tells whether some shard is where it should not be.
func (d *data) unplaced() bool {
	return slices.ContainsFunc(d.shards, func(sh *shard) bool {
		return !sh.lost && (len(sh.replicas) == 0 || slices.ContainsFunc(sh.replicas, func(s *storageServer) bool { return !d.c.storage.good(s) }))
	})
}

// distributeLater looks again after some time.
func (d *data) distributeLater() {
	if d.again {
		return
	}
	d.again = true
	d.c.clock.after(30*time.Second, func() {
		d.again = false
		d.distribute()
	})
}

// firstCopies gives the shards of a new database their servers at once: they are empty.
func (d *data) firstCopies() {
	for _, sh := range d.shards {
		if len(sh.replicas) > 0 {
			continue
		}
		team := d.team(sh)
		if team == nil {
			return
		}
		d.place(sh, team)
	}
}

// move starts to move a shard, if it is not where it should be.
func (d *data) move(number int, sh *shard) {
	team := d.team(sh)
	if team == nil || len(team) == len(sh.replicas) && !slices.ContainsFunc(team, func(s *storageServer) bool { return !slices.Contains(sh.replicas, s) }) {
		return
	}
	added := 0
	for _, s := range team {
		if !slices.Contains(sh.replicas, s) {
			added++
			s.shards++
		}
	}
	if added > 0 && sh.liveCopies("", false) == 0 {
		for _, s := range team {
			if !slices.Contains(sh.replicas, s) {
				s.shards--
			}
		}
		return // there is nothing to copy from
	}
	sh.target = team
	d.moving++
	bytes := int64(added) * d.c.options.ShardBytes
	took := time.Duration(float64(bytes) / float64(d.c.options.MoveBytes) * float64(d.c.options.Moves) * float64(time.Second))
	d.c.clock.after(took, func() { d.moved(number, sh, bytes) })
}

// moved ends a move, unless a server of the team has gone meanwhile, or nothing moves.
func (d *data) moved(number int, sh *shard, bytes int64) {
	if d.c.faults.stuckMovement() || d.c.recovery.state < acceptingCommits {
		d.c.clock.after(10*time.Second, func() { d.moved(number, sh, bytes) })
		return
	}
	team := sh.target
	sh.target = nil
	d.moving--
	gone := slices.ContainsFunc(team, func(s *storageServer) bool { return !slices.Contains(d.c.storage.servers, s) || s.folder.erased })
	source := sh.liveCopies("", false) > 0
	for _, s := range team {
		if !slices.Contains(sh.replicas, s) {
			s.shards--
		}
	}
	if !gone && source {
		d.written += bytes
		d.place(sh, team)
	}
	d.c.storage.observe()
	d.distribute()
}

// place makes a team the servers of a shard.
func (d *data) place(sh *shard, team []*storageServer) {
	for _, s := range sh.replicas {
		s.shards--
	}
	sh.replicas = slices.Clone(team)
	for _, s := range sh.replicas {
		s.shards++
	}
}

// noteReplicated remembers which data centers have a whole copy.
func (d *data) noteReplicated() {
	if len(d.c.settings.regions) == 0 {
		return
	}
	for _, dc := range d.c.settings.datacenters(d.c.recovery.roles.primary) {
		if !d.replicated[dc] && d.complete(dc) {
			d.replicated[dc] = true
			d.c.say("%s has all data", dc)
			if dc != d.c.recovery.roles.primary {
				d.c.recovery.lookForBetter()
			}
		}
	}
}

// teamState is the state of the teams of one region, as the data distributor reports it.
type teamState struct {
	primary   bool
	replicas  int
	name      string
	text      string
	healthy   bool
	unhealthy int // servers
	priority  int
}

// teams returns the state of the teams of the primary and the remote region. It does not know of a server that has
// gone within the last Reaction. Source: foundationdb 7.3.69, fdbserver/Status.actor.cpp, dataStatusFetcher,
// fdbserver/DDTeamCollection.actor.cpp, storageServerFailureTracker and teamTracker, and fdbclient/ServerKnobs.cpp,
// PRIORITY_….
func (d *data) teams() []teamState {
	var states []teamState
	primary := d.c.recovery.roles.primary
	for _, dc := range d.c.settings.datacenters(primary) {
		states = append(states, d.teamsIn(dc, dc == primary || dc == ""))
	}
	slices.SortStableFunc(states, func(a, b teamState) int {
		switch {
		case a.primary == b.primary:
			return 0
		case a.primary:
			return -1
		default:
			return 1
		}
	})
	return states
}

func (d *data) teamsIn(dc string, primary bool) teamState {
	full := d.c.settings.storageReplicas
	state := teamState{primary: primary, replicas: full, name: "healthy", healthy: true, priority: 0}
	least, undesired, moving := full, false, false
	for _, s := range d.c.storage.servers {
		if dc != "" && s.datacenter() != dc {
			continue
		}
		if !s.live || d.c.exclusions.contain(s.Addresses, s.Locality) {
			state.unhealthy++
		}
	}
	for _, sh := range d.shards {
		count := 0
		for _, s := range sh.replicas {
			if dc != "" && s.datacenter() != dc {
				continue
			}
			if d.c.storage.believed(s) {
				count++
			}
			undesired = undesired || s.live && !d.c.storage.good(s)
		}
		least = min(least, count)
		if sh.target != nil { // from the beginning of a move its destination is a team of the shard too
			gone := 0
			for _, s := range sh.target {
				if (dc == "" || s.datacenter() == dc) && !d.c.storage.believed(s) {
					gone++
				}
			}
			least = min(least, full-gone)
		}
		moving = moving || sh.target != nil
	}
	if dc != "" && !primary && !d.replicated[dc] {
		state.name, state.text, state.priority = "healthy_populating_region", "Populating remote region", 600
		return state
	}
	state.replicas = least
	switch {
	case least >= full && undesired:
		state.name, state.text, state.priority = "healthy_removing_server", "Removing storage server", 150
	case least >= full && moving:
		state.name, state.text, state.priority = "healthy_rebalancing", "Rebalancing", 110
	case least >= full:
	case least == 0:
		state.healthy, state.name, state.text, state.priority = false, "missing_data", "No replicas remain of some data", 809
	case least == 1:
		state.healthy, state.name, state.text, state.priority = false, "healing", "Only one replica remains of some data", 800
	case least == 2:
		state.healthy, state.name, state.text, state.priority = false, "healing", "Only two replicas remain of some data", 709
	default:
		state.healthy, state.name, state.text, state.priority = false, "healing", "Restoring replication factor", 700
	}
	return state
}

// Moving tells how many shards move.
func (d *data) Moving() int { return d.moving }

// choose chooses the next server whose engine is to be changed; one at a time.
func (d *data) choose() {
	if s := d.changing; s != nil && slices.Contains(d.c.storage.servers, s) && s.engine != d.c.settings.engine {
		return
	}
	d.changing = nil
	wiggles := d.c.settings.migration == "gradual" && d.c.settings.number("perpetual_storage_wiggle") == 1
	if d.c.settings.migration != "aggressive" && !wiggles {
		return
	}
	for _, s := range d.c.storage.servers {
		if s.engine != d.c.settings.engine && s.live {
			d.changing = s
			return
		}
	}
}

// team returns the servers that should have a shard: those that have it and are good, and others in new
// zones, the emptiest first. It is nil if there are not enough.
func (d *data) team(sh *shard) []*storageServer {
	var team []*storageServer
	for _, dc := range d.c.settings.datacenters(d.c.recovery.roles.primary) {
		part := d.teamIn(sh, dc)
		if part == nil {
			if d.replicated[dc] || len(d.c.settings.regions) == 0 {
				return nil
			}
			continue // this region is still to be filled, and cannot be
		}
		team = append(team, part...)
	}
	return team
}

func (d *data) teamIn(sh *shard, dc string) []*storageServer {
	key := func(s *storageServer) string {
		if d.c.settings.storageHalls() {
			return s.hall()
		}
		return s.zone()
	}
	used := map[string]bool{}
	var team []*storageServer
	add := func(s *storageServer) {
		if len(team) < d.c.settings.storageReplicas && (dc == "" || s.datacenter() == dc) && !used[key(s)] && d.c.storage.good(s) {
			used[key(s)] = true
			team = append(team, s)
		}
	}
	for _, s := range sh.replicas {
		add(s)
	}
	if len(team) < d.c.settings.storageReplicas {
		free := slices.DeleteFunc(slices.Clone(d.c.storage.servers), func(s *storageServer) bool { return !s.live || s.full(d.c) })
		slices.SortStableFunc(free, func(a, b *storageServer) int { return cmp.Compare(a.shards, b.shards) })
		for _, s := range free {
			add(s)
		}
	}
	if len(team) < d.c.settings.storageReplicas {
		return nil
	}
	return team
}

// complete tells whether a data center has a whole copy of the data.
func (d *data) complete(dc string) bool {
	if len(d.shards) == 0 {
		return false
	}
	for _, sh := range d.shards {
		if !slices.ContainsFunc(sh.replicas, func(s *storageServer) bool { return s.datacenter() == dc }) {
			return false
		}
	}
	return true
}
