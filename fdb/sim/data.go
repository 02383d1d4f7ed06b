package sim

import (
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
func (d *data) configured(c *Cluster) {
	for dc := range d.replicated {
		used := slices.Contains(c.settings.datacenters(c.recovery.roles.primary), dc)
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
func (c *Cluster) distribute() {
	d := &c.data
	if !c.distributes() {
		return
	}
	c.choose()
	c.firstCopies()
	// The shards with the fewest copies come first.
	for missing := c.settings.storageReplicas; missing >= 0; missing-- {
		for i, sh := range d.shards {
			if d.moving >= c.options.Moves {
				return
			}
			if sh.target == nil && !sh.lost && max(0, c.settings.storageReplicas-sh.liveCopies("", false)) == missing {
				c.move(i, sh)
			}
		}
	}
	c.noteReplicated()
	if d.moving == 0 && c.unplaced() {
		c.distributeLater()
	}
}

// distributes tells whether data can move now. Without a distributor nothing moves.
func (c *Cluster) distributes() bool {
	return len(c.data.shards) > 0 && c.recovery.state >= acceptingCommits && c.coordination.controller != nil &&
		len(c.recovery.roles.roles[distributor]) > 0 && !c.stuckMovement()
}

// unplaced tells whether some shard is where it should not be.
func (c *Cluster) unplaced() bool {
	return slices.ContainsFunc(c.data.shards, func(sh *shard) bool {
		return !sh.lost && (len(sh.replicas) == 0 || slices.ContainsFunc(sh.replicas, func(s *storageServer) bool { return !c.good(s) }))
	})
}

// distributeLater looks again after some time.
func (c *Cluster) distributeLater() {
	if c.data.again {
		return
	}
	c.data.again = true
	c.clock.after(30*time.Second, func() {
		c.data.again = false
		c.distribute()
	})
}

// firstCopies gives the shards of a new database their servers at once: they are empty.
func (c *Cluster) firstCopies() {
	for _, sh := range c.data.shards {
		if len(sh.replicas) > 0 {
			continue
		}
		team := c.team(sh)
		if team == nil {
			return
		}
		c.place(sh, team)
	}
}

// move starts to move a shard, if it is not where it should be.
func (c *Cluster) move(number int, sh *shard) {
	team := c.team(sh)
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
	c.data.moving++
	bytes := int64(added) * c.options.ShardBytes
	took := time.Duration(float64(bytes) / float64(c.options.MoveBytes) * float64(c.options.Moves) * float64(time.Second))
	c.clock.after(took, func() { c.moved(number, sh, bytes) })
}

// moved ends a move, unless a server of the team has gone meanwhile, or nothing moves.
func (c *Cluster) moved(number int, sh *shard, bytes int64) {
	if c.stuckMovement() || c.recovery.state < acceptingCommits {
		c.clock.after(10*time.Second, func() { c.moved(number, sh, bytes) })
		return
	}
	team := sh.target
	sh.target = nil
	c.data.moving--
	gone := slices.ContainsFunc(team, func(s *storageServer) bool { return !slices.Contains(c.servers, s) || s.folder.erased })
	source := sh.liveCopies("", false) > 0
	for _, s := range team {
		if !slices.Contains(sh.replicas, s) {
			s.shards--
		}
	}
	if !gone && source {
		c.data.written += bytes
		c.place(sh, team)
	}
	c.lookAtStorage()
	c.distribute()
}

// place makes a team the servers of a shard.
func (c *Cluster) place(sh *shard, team []*storageServer) {
	for _, s := range sh.replicas {
		s.shards--
	}
	sh.replicas = slices.Clone(team)
	for _, s := range sh.replicas {
		s.shards++
	}
}

// noteReplicated remembers which data centers have a whole copy.
func (c *Cluster) noteReplicated() {
	if len(c.settings.regions) == 0 {
		return
	}
	for _, dc := range c.settings.datacenters(c.recovery.roles.primary) {
		if !c.data.replicated[dc] && c.hasAllData(dc) {
			c.data.replicated[dc] = true
			c.say("%s has all data", dc)
			if dc != c.recovery.roles.primary {
				c.lookForBetter()
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

// teams returns the state of the teams of the primary and the remote region. Source: foundationdb
// 7.3.69, fdbserver/Status.actor.cpp, dataStatusFetcher, and fdbclient/ServerKnobs.cpp, PRIORITY_….
func (c *Cluster) teams() []teamState {
	var states []teamState
	primary := c.recovery.roles.primary
	for _, dc := range c.settings.datacenters(primary) {
		states = append(states, c.teamsIn(dc, dc == primary || dc == ""))
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

func (c *Cluster) teamsIn(dc string, primary bool) teamState {
	full := c.settings.storageReplicas
	state := teamState{primary: primary, replicas: full, name: "healthy", healthy: true, priority: 0}
	least, undesired, moving := full, false, false
	for _, s := range c.servers {
		if dc != "" && s.datacenter() != dc {
			continue
		}
		if !s.live || c.excluded(s.Addresses, s.Locality) {
			state.unhealthy++
		}
	}
	for _, sh := range c.data.shards {
		count := 0
		for _, s := range sh.replicas {
			if dc != "" && s.datacenter() != dc {
				continue
			}
			if !s.folder.erased && (s.live || c.maintained(s.zone())) {
				count++
			}
			undesired = undesired || !c.good(s) && s.live
		}
		least = min(least, count)
		moving = moving || sh.target != nil
	}
	if dc != "" && !primary && !c.data.replicated[dc] {
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
func (c *Cluster) Moving() int { return c.data.moving }
