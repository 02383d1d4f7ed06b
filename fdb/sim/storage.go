package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// storageServer is a storage server of the database's list. It belongs to a data folder; which process
// serves it, and at which address, can change.
type storageServer struct {
	Server // as it was seen last
	id     string
	folder *folder
	engine string
	shards int
	live   bool
	silent time.Duration // since when it is not live
	made   time.Duration
}

// recruitStorage makes storage servers on processes that should have one.
func (c *Cluster) recruitStorage() {
	if c.recovery.state < acceptingCommits {
		return
	}
	wanted := c.settings.datacenters(c.recovery.roles.primary)
	for _, p := range c.workers() {
		if c.serverOf[p.Folder] != nil || storageRole.fitness(p.Class) > unsetFit || c.excluded(p.Addresses, p.Locality) {
			continue
		}
		if len(c.settings.regions) > 0 && !slices.Contains(wanted, p.datacenter()) {
			continue
		}
		s := &storageServer{Server: p.Server, id: c.word(hexadecimal, 16), folder: p.folder, engine: c.settings.engine, live: true, made: c.clock.now}
		c.serverOf[p.Folder] = s
		c.servers = append(c.servers, s)
	}
}

// returned has the storage server of a process that joined be seen again.
func (c *Cluster) returned(p *process) {
	if s := c.serverOf[p.Folder]; s != nil && s.folder == p.folder {
		s.Server = p.Server
	}
}

// lookAtStorage finds out which storage servers are live, and removes those that are not needed.
func (c *Cluster) lookAtStorage() {
	serving := map[*folder]bool{}
	for _, p := range c.processes {
		if p.joined && c.works(p) {
			serving[p.folder] = true
		}
	}
	for _, s := range slices.Clone(c.servers) {
		live := serving[s.folder]
		switch {
		case s.live && !live:
			s.silent = c.clock.now
			c.endMaintenance(s)
			c.clock.after(c.options.Times.Reaction, func() {
				c.lookAtStorage()
				c.distribute()
			})
		case !s.live && live && c.recovery.state == allLogsRecruited:
			c.drainLater()
		}
		s.live = live
		if c.removable(s) {
			c.removeServer(s)
		}
	}
}

// removable tells whether an empty storage server leaves the list: it is excluded, in a place where no
// data belong, or silent for long.
func (c *Cluster) removable(s *storageServer) bool {
	if s.shards > 0 || c.recovery.state < acceptingCommits {
		return false
	}
	return c.excluded(s.Addresses, s.Locality) || c.outside(s) || s.engine != c.settings.engine || s.folder.erased ||
		!s.live && c.clock.now-s.silent >= c.options.Times.Reaction
}

func (c *Cluster) removeServer(s *storageServer) {
	delete(c.serverOf, s.folder.name)
	c.servers = slices.DeleteFunc(c.servers, func(other *storageServer) bool { return other == s })
	c.say("storage server %s on %s is empty and leaves", s.id, s.Name)
	if s.live {
		c.clock.after(c.options.Times.Better, func() {
			c.recruitStorage()
			c.distribute()
		})
	}
	if len(c.recovery.generations) > 1 {
		c.drainLater()
	}
}

// outside tells whether a server is in a data center where no data belong.
func (c *Cluster) outside(s *storageServer) bool {
	return len(c.settings.regions) > 0 && !slices.Contains(c.settings.datacenters(c.recovery.roles.primary), s.datacenter())
}

// good tells whether data may stay on a server. A silent one is given some time, and all of it while its
// zone is under maintenance.
func (c *Cluster) good(s *storageServer) bool {
	switch {
	case s.folder.erased, c.excluded(s.Addresses, s.Locality), c.outside(s), c.data.changing == s:
		return false
	case s.live, c.maintained(s.zone()):
		return true
	}
	return c.clock.now-s.silent < c.options.Times.Reaction
}

// choose chooses the next server whose engine is to be changed; one at a time.
func (c *Cluster) choose() {
	if s := c.data.changing; s != nil && slices.Contains(c.servers, s) && s.engine != c.settings.engine {
		return
	}
	c.data.changing = nil
	wiggles := c.settings.migration == "gradual" && c.settings.number("perpetual_storage_wiggle") == 1
	if c.settings.migration != "aggressive" && !wiggles {
		return
	}
	for _, s := range c.servers {
		if s.engine != c.settings.engine && s.live {
			c.data.changing = s
			return
		}
	}
}

// team returns the servers that should have a shard: those that have it and are good, and others in new
// zones, the emptiest first. It is nil if there are not enough.
func (c *Cluster) team(sh *shard) []*storageServer {
	var team []*storageServer
	for _, dc := range c.settings.datacenters(c.recovery.roles.primary) {
		part := c.teamIn(sh, dc)
		if part == nil {
			if c.data.replicated[dc] || len(c.settings.regions) == 0 {
				return nil
			}
			continue // this region is still to be filled, and cannot be
		}
		team = append(team, part...)
	}
	return team
}

func (c *Cluster) teamIn(sh *shard, dc string) []*storageServer {
	key := func(s *storageServer) string {
		if c.settings.storageHalls() {
			return s.hall()
		}
		return s.zone()
	}
	used := map[string]bool{}
	var team []*storageServer
	add := func(s *storageServer) {
		if len(team) < c.settings.storageReplicas && (dc == "" || s.datacenter() == dc) && !used[key(s)] && c.good(s) {
			used[key(s)] = true
			team = append(team, s)
		}
	}
	for _, s := range sh.replicas {
		add(s)
	}
	if len(team) < c.settings.storageReplicas {
		free := slices.DeleteFunc(slices.Clone(c.servers), func(s *storageServer) bool { return !s.live || s.full(c) })
		slices.SortStableFunc(free, func(a, b *storageServer) int { return cmp.Compare(a.shards, b.shards) })
		for _, s := range free {
			add(s)
		}
	}
	if len(team) < c.settings.storageReplicas {
		return nil
	}
	return team
}

func (s *storageServer) used(c *Cluster) int64 { return int64(s.shards) * c.options.ShardBytes }
func (s *storageServer) full(c *Cluster) bool {
	return s.used(c)+c.options.ShardBytes > c.options.DiskBytes*19/20
}

// loseFolder forgets the copies and logs that were in an erased data folder only.
func (c *Cluster) loseFolder(f *folder) {
	if s := c.serverOf[f.name]; s != nil {
		s.live = false
		for i, sh := range c.data.shards {
			if slices.Contains(sh.replicas, s) && !slices.ContainsFunc(sh.replicas, func(other *storageServer) bool { return !other.folder.erased }) && !sh.lost {
				sh.lost = true
				c.keys.loseShard(i, len(c.data.shards))
				c.violate(2, "the last copy of shard %d was in %s", i, f.name)
			}
		}
	}
	for _, g := range c.recovery.generations {
		if len(g.primary.logs) > 0 && g.primary.erased() >= g.primary.factor && (len(g.satellites.logs) == 0 || g.satellites.erased() >= g.satellites.factor) {
			c.violate(1, "too many logs of generation %d are erased, the last of them in %s", g.epoch, f.name)
		}
	}
	if f.coordinates != "" {
		f.coordinates = ""
	}
}

// Holds tells what a data folder holds: shards, data of logs, and the state of a coordinator.
func (c *Cluster) Holds(name string) Holding {
	var h Holding
	if s := c.serverOf[name]; s != nil {
		h.Shards = s.shards
	}
	if f := c.folders[name]; f != nil {
		h.Logs = slices.Sorted(maps.Keys(f.logs))
		h.Coordinator = f.coordinates != "" && slices.ContainsFunc(c.processes, func(p *process) bool { return p.folder == f && c.isCoordinator(p.Server) })
	}
	return h
}

// Holding is what a data folder holds.
type Holding struct {
	Shards      int
	Logs        []string // ids
	Coordinator bool
}

// hasAllData tells whether a data center has a whole copy of the data.
func (c *Cluster) hasAllData(dc string) bool {
	if len(c.data.shards) == 0 {
		return false
	}
	for _, sh := range c.data.shards {
		if !slices.ContainsFunc(sh.replicas, func(s *storageServer) bool { return s.datacenter() == dc }) {
			return false
		}
	}
	return true
}
