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
func (c *Cluster) newGeneration() generation {
	r := &c.recovery
	g := generation{epoch: r.epoch, begin: c.version()}
	set := func(factor int, from []holder) logSet {
		made := logSet{factor: factor}
		for _, h := range from {
			l := logServer{id: c.word(hexadecimal, 16), name: h.Name, address: h.Addresses[0], folder: h.folder}
			h.folder.logs[l.id] = g.epoch
			made.logs = append(made.logs, l)
		}
		return made
	}
	g.primary = set(c.settings.logReplicas, r.roles.roles[logRole])
	for _, at := range c.settings.places(c.data.replicated) {
		if at.primary == r.roles.primary {
			g.satellites = set(at.satelliteFactor, r.roles.satellites)
		}
	}
	g.remotes = set(c.settings.logReplicas, r.roles.remotes)
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
func (c *Cluster) serves(l logServer) bool {
	if l.folder.erased {
		return false
	}
	return slices.ContainsFunc(c.processes, func(p *process) bool { return p.folder == l.folder && p.joined && c.works(p) })
}

// missing counts the logs of a set that no process serves.
func (s logSet) missing(c *Cluster) (count int) {
	for _, l := range s.logs {
		if !c.serves(l) {
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
		if !c.serves(l) {
			return l.id
		}
	}
	return ""
}

// unlockable names a log of the current generation that a recovery has to wait for; empty: none.
func (c *Cluster) unlockable() string {
	if len(c.recovery.generations) == 0 {
		return ""
	}
	return c.recovery.generations[0].unreadable(c)
}
