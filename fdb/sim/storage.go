package sim

import (
	"maps"
	"slices"
	"time"
)

// storage is the database's list of storage servers.
type storage struct {
	c       *Cluster
	of      map[string]*storageServer // by data folder
	servers []*storageServer          // in the order of their making
}

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

// recruit makes storage servers on processes that should have one.
func (st *storage) recruit() {
	if st.c.recovery.state < acceptingCommits {
		return
	}
	wanted := st.c.settings.datacenters(st.c.recovery.roles.primary)
	for _, p := range st.c.processes.workers() {
		if st.of[p.Folder] != nil || storageRole.fitness(p.Class) > unsetFit || st.c.exclusions.contain(p.Addresses, p.Locality) {
			continue
		}
		if len(st.c.settings.regions) > 0 && !slices.Contains(wanted, p.datacenter()) {
			continue
		}
		s := &storageServer{Server: p.Server, id: st.c.word(hexadecimal, 16), folder: p.folder, engine: st.c.settings.engine, live: true, made: st.c.clock.now}
		st.of[p.Folder] = s
		st.servers = append(st.servers, s)
	}
}

// returned has the storage server of a process that joined be seen again.
func (st *storage) returned(p *process) {
	if s := st.of[p.Folder]; s != nil && s.folder == p.folder {
		s.Server = p.Server
	}
}

// observe finds out which storage servers are live, and removes those that are not needed.
func (st *storage) observe() {
	serving := map[*folder]bool{}
	for _, p := range st.c.processes.list {
		if p.joined && st.c.processes.works(p) {
			serving[p.folder] = true
		}
	}
	for _, s := range slices.Clone(st.servers) {
		live := serving[s.folder]
		switch {
		case s.live && !live:
			s.silent = st.c.clock.now
			st.c.maintenance.end(s)
			st.c.clock.after(st.c.options.Times.Reaction, func() {
				st.observe()
				st.c.data.distribute()
			})
		case !s.live && live && st.c.recovery.state == allLogsRecruited:
			st.c.recovery.drainLater()
		}
		s.live = live
		if st.removable(s) {
			st.remove(s)
		}
	}
}

// removable tells whether an empty storage server leaves the list: it is excluded, in a place where no
// data belong, or silent for long.
func (st *storage) removable(s *storageServer) bool {
	if s.shards > 0 || st.c.recovery.state < acceptingCommits {
		return false
	}
	return st.c.exclusions.contain(s.Addresses, s.Locality) || st.outside(s) || s.engine != st.c.settings.engine || s.folder.erased ||
		!s.live && st.c.clock.now-s.silent >= st.c.options.Times.Reaction
}

func (st *storage) remove(s *storageServer) {
	delete(st.of, s.folder.name)
	st.servers = slices.DeleteFunc(st.servers, func(other *storageServer) bool { return other == s })
	st.c.say("storage server %s on %s is empty and leaves", s.id, s.Name)
	if s.live {
		st.c.clock.after(st.c.options.Times.Better, func() {
			st.recruit()
			st.c.data.distribute()
		})
	}
	if len(st.c.recovery.generations) > 1 {
		st.c.recovery.drainLater()
	}
}

// outside tells whether a server is in a data center where no data belong.
func (st *storage) outside(s *storageServer) bool {
	return len(st.c.settings.regions) > 0 && !slices.Contains(st.c.settings.datacenters(st.c.recovery.roles.primary), s.datacenter())
}

// good tells whether data may stay on a server. A silent one is given some time, and all of it while its
// zone is under maintenance.
func (st *storage) good(s *storageServer) bool {
	if st.c.exclusions.contain(s.Addresses, s.Locality) || st.outside(s) || st.c.data.changing == s {
		return false
	}
	return st.believed(s)
}

// believed tells whether the data distributor takes a server for one that is there: a minute long it does not take one
// for failed, nor while its zone is under maintenance.
func (st *storage) believed(s *storageServer) bool {
	return s.live || st.c.maintenance.covers(s.zone()) || st.c.clock.now-s.silent < st.c.options.Times.Reaction
}

func (s *storageServer) used(c *Cluster) int64 { return int64(s.shards) * c.options.ShardBytes }
func (s *storageServer) full(c *Cluster) bool {
	return s.used(c)+c.options.ShardBytes > c.options.DiskBytes*19/20
}

// lose forgets the copies and logs that were in an erased data folder only.
func (st *storage) lose(f *folder) {
	if s := st.of[f.name]; s != nil {
		if s.live {
			s.live, s.silent = false, st.c.clock.now
		}
		for i, sh := range st.c.data.shards {
			if slices.Contains(sh.replicas, s) && !slices.ContainsFunc(sh.replicas, func(other *storageServer) bool { return !other.folder.erased }) && !sh.lost {
				sh.lost = true
				st.c.keys.loseShard(i, len(st.c.data.shards))
				st.c.judge.violate(2, "the last copy of shard %d was in %s", i, f.name)
			}
		}
	}
	for _, g := range st.c.recovery.generations {
		if len(g.primary.logs) > 0 && g.primary.erased() >= g.primary.factor && (len(g.satellites.logs) == 0 || g.satellites.erased() >= g.satellites.factor) {
			st.c.judge.violate(1, "too many logs of generation %d are erased, the last of them in %s", g.epoch, f.name)
		}
	}
	if f.coordinates != "" {
		f.coordinates = ""
	}
}

// Holds tells what a data folder holds: shards, data of logs, and the state of a coordinator.
func (st *storage) Holds(name string) Holding {
	var h Holding
	if s := st.of[name]; s != nil {
		h.Shards = s.shards
	}
	if f := st.c.processes.folders[name]; f != nil {
		h.Logs = slices.Sorted(maps.Keys(f.logs))
		h.Coordinator = f.coordinates != "" && slices.ContainsFunc(st.c.processes.list, func(p *process) bool { return p.folder == f && st.c.coordination.has(p.Server) })
	}
	return h
}

// Holding is what a data folder holds.
type Holding struct {
	Shards      int
	Logs        []string // ids
	Coordinator bool
}
