package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// generation is the set of logs of one epoch. Its logs hold data until it is dropped.
type generation struct {
	epoch      int
	begin, end int64 // versions; end is 0 while it is the current one
	primary    logSet
	satellites logSet
	remotes    logSet
}

// logSet is a set of logs of which each entry is in factor of them.
type logSet struct {
	factor int
	logs   []logServer
}

// logServer is one log: where it was recruited, and the folder that has its data.
type logServer struct {
	id      string
	name    string // of the process
	address fdb.Address
	folder  *folder
}

// newGeneration makes the logs that were recruited.
func (r *recovery) newGeneration() generation {
	g := generation{epoch: r.epoch, begin: r.c.version()}
	set := func(factor int, from []holder) logSet {
		made := logSet{factor: factor}
		for _, h := range from {
			l := logServer{id: r.c.word(hexadecimal, 16), name: h.Name, address: h.Addresses[0], folder: h.folder}
			h.folder.logs[l.id] = g.epoch
			made.logs = append(made.logs, l)
		}
		return made
	}
	g.primary = set(r.c.settings.logReplicas, r.roles.roles[logRole])
	for _, at := range r.c.settings.places(r.c.data.replicated) {
		if at.primary == r.roles.primary {
			g.satellites = set(at.satelliteFactor, r.roles.satellites)
		}
	}
	g.remotes = set(r.c.settings.logReplicas, r.roles.remotes)
	return g
}

// names returns the processes of the primary logs.
func (g generation) names() []string {
	var names []string
	for _, l := range g.primary.logs {
		names = append(names, l.name)
	}
	return names
}

// all returns the logs of all sets.
func (g generation) all() []logServer {
	return slices.Concat(g.primary.logs, g.satellites.logs, g.remotes.logs)
}

// drop deletes the data of a generation.
func (g generation) drop() {
	for _, l := range g.all() {
		delete(l.folder.logs, l.id)
	}
}

// serves tells whether a process that reports has the data of a log.
func (r *recovery) serves(l logServer) bool {
	if l.folder.erased {
		return false
	}
	return slices.ContainsFunc(r.c.processes.list, func(p *process) bool { return p.folder == l.folder && p.joined && r.c.processes.works(p) })
}

// missing counts the logs of a set that no process serves.
func (s logSet) missing(c *Cluster) (count int) {
	for _, l := range s.logs {
		if !c.recovery.serves(l) {
			count++
		}
	}
	return count
}

// erased counts the logs of a set whose data are gone for good.
func (s logSet) erased() (count int) {
	for _, l := range s.logs {
		if l.folder.erased {
			count++
		}
	}
	return count
}

// unreadable names a log that is missed, if so many are that entries may be in none of the others.
func (g generation) unreadable(c *Cluster) string {
	for _, set := range []logSet{g.primary, g.satellites} {
		if len(set.logs) > 0 && set.missing(c) < set.factor {
			return ""
		}
	}
	for _, l := range g.primary.logs {
		if !c.recovery.serves(l) {
			return l.id
		}
	}
	return ""
}

// unlockable names a log of the current generation that a recovery has to wait for; empty: none.
func (r *recovery) unlockable() string {
	if len(r.generations) == 0 {
		return ""
	}
	return r.generations[0].unreadable(r.c)
}
