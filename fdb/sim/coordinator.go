package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// coordination is what the coordinators decide: who is the cluster controller, and what it speaks.
type coordination struct {
	connection  fdb.Connection
	database    string      // the key of the database: which coordinated state is ours; empty before it is made
	protocol    fdb.Version // what a majority of coordinators speaks, or spoke last
	quorum      bool        // a majority of coordinators works and speaks one protocol
	controller  *process
	incarnation int    // of the controller
	told        string // the controller that the transcript names last
}

// at returns the process that listens on an address and can be reached; nil if there is none. A DNS
// name leads to the process of that name, whatever its address is.
func (c *Cluster) at(a fdb.Address) *process {
	for _, p := range c.processes {
		if p.running && !p.cut && c.listens(p.Server, a) {
			return p
		}
	}
	return nil
}

// coordinate finds out what the coordinators speak, and whether they are a majority.
func (c *Cluster) coordinate() {
	k := &c.coordination
	c.judgeMixed()
	var speakers []*process
	for _, a := range k.connection.Coordinators {
		if p := c.at(a); p != nil && !c.partitioned(a) {
			speakers = append(speakers, p)
		}
	}
	k.quorum = false
	for _, p := range speakers {
		count := 0
		for _, other := range speakers {
			if other.Version.ProtocolCompatible(p.Version) {
				count++
			}
		}
		if count > len(k.connection.Coordinators)/2 {
			if !k.protocol.ProtocolCompatible(p.Version) && k.protocol != (fdb.Version{}) {
				c.say("the coordinators speak %s now", p.Version.Short())
			}
			k.quorum, k.protocol = true, p.Version
			break
		}
	}
	if !k.quorum || k.controller != nil && (!c.works(k.controller) || k.controller.incarnation != k.incarnation) {
		k.controller = nil
	}
}

// stateLost tells whether so many coordinators have lost the coordinated state that it cannot be read.
func (c *Cluster) stateLost() bool {
	blank, all := 0, len(c.coordination.connection.Coordinators)
	for _, a := range c.coordination.connection.Coordinators {
		if p := c.at(a); p != nil && p.folder.coordinates != c.coordination.database {
			blank++
		}
	}
	return c.coordination.database != "" && blank > all/2
}

// writeState has all coordinators that work hold the coordinated state.
func (c *Cluster) writeState() {
	for _, a := range c.coordination.connection.Coordinators {
		if p := c.at(a); p != nil {
			p.folder.coordinates = c.coordination.database
		}
	}
}

// leads tells whether a connection string leads to the coordinators of now: it is theirs, or a majority
// of those it names were coordinators of this database and tell where the new ones are.
func (c *Cluster) leads(from fdb.Connection) bool {
	k := &c.coordination
	if from.Description != k.connection.Description || len(from.Coordinators) == 0 {
		return false
	}
	if from.ID == k.connection.ID && (k.database == "" || slices.Equal(sortedAddresses(from.Coordinators), sortedAddresses(k.connection.Coordinators))) {
		return true
	}
	known := 0
	for _, a := range from.Coordinators {
		if p := c.at(a); p != nil && k.database != "" && p.folder.coordinates == k.database {
			known++
		}
	}
	return known > len(from.Coordinators)/2
}

// WriteClusterFile writes the cluster file of a data folder by hand; a server reads it when it starts. Coordinators
// whose addresses have changed are those of the database again as soon as a majority of them has the file: they
// know themselves by description and id (fdbserver/Coordination.actor.cpp at 7.3.69).
func (c *Cluster) WriteClusterFile(name string, to fdb.Connection) {
	f, k := c.folders[name], &c.coordination
	if f == nil {
		return
	}
	f.connection = to
	c.say("the cluster file of %s is written: %s", name, to)
	if to.Description != k.connection.Description || to.ID != k.connection.ID {
		return
	}
	told := 0
	for _, a := range to.Coordinators {
		if slices.ContainsFunc(c.processes, func(p *process) bool {
			return c.listens(p.Server, a) && p.folder.coordinates == k.database && p.folder.connection.String() == to.String()
		}) {
			told++
		}
	}
	if told > len(to.Coordinators)/2 {
		k.connection.Coordinators = sortedAddresses(to.Coordinators)
		c.review("coordinators have new addresses")
	}
}

// finds tells whether a process can join.
func (c *Cluster) finds(p *process) bool {
	c.coordinate()
	return c.works(p) && c.leads(p.folder.connection)
}

// elect makes the best process the cluster controller, if there is none. It reports whether there is one.
func (c *Cluster) elect(workers []*process) bool {
	k := &c.coordination
	if k.controller != nil {
		return true
	}
	var best *process
	for _, p := range workers {
		if clusterController.fitness(p.Class) < neverAssign && (best == nil || c.rank(clusterController, p) < c.rank(clusterController, best)) {
			best = p
		}
	}
	if best == nil {
		return false
	}
	k.controller, k.incarnation = best, best.incarnation
	if k.told != best.Name && k.database != "" {
		k.told = best.Name
		c.say("%s is the cluster controller", best.Name)
	}
	return true
}

// rank orders processes for a role: excluded ones come last.
func (c *Cluster) rank(r role, p *process) fitness {
	rank := r.fitness(p.Class)
	if c.excluded(p.Addresses, p.Locality) {
		rank += excludeFit
	}
	return rank
}

// isCoordinator tells whether a server listens on the address of a coordinator.
func (c *Cluster) isCoordinator(s Server) bool {
	return slices.ContainsFunc(c.coordination.connection.Coordinators, func(a fdb.Address) bool { return c.listens(s, a) })
}

// changeCoordinators is what coordinators does with addresses that were parsed. A change gives the
// connection string a new id and forces a recovery. Sources: foundationdb 7.3.69,
// fdbclient/ManagementAPI.actor.cpp, changeQuorumChecker.
func (c *Cluster) changeCoordinators(to []fdb.Address, description string) coordinatorsResult {
	k := &c.coordination
	if description == "" {
		description = k.connection.Description
	}
	old, next := sortedAddresses(k.connection.Coordinators), sortedAddresses(to)
	if slices.Equal(old, next) && description == k.connection.Description {
		return sameAddresses
	}
	for _, a := range to {
		if p := c.at(a); p == nil || c.partitioned(a) || !p.Version.ProtocolCompatible(k.protocol) {
			return coordinatorUnreachable
		}
	}
	k.connection = fdb.Connection{Description: description, ID: c.word(alphanumeric, 32), Coordinators: next}
	c.say("new coordinators: %s", k.connection)
	c.writeState()
	for _, p := range c.workers() {
		p.folder.connection = k.connection
	}
	c.recover("new coordinators")
	c.review("new coordinators")
	return coordinatorsChanged
}

// coordinatorsResult is how a change of coordinators ends.
type coordinatorsResult int

const (
	coordinatorsChanged coordinatorsResult = iota
	sameAddresses
	coordinatorUnreachable
)

func sortedAddresses(list []fdb.Address) []fdb.Address {
	return slices.SortedFunc(slices.Values(list), func(a, b fdb.Address) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}
