package sim

import (
	"net/netip"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// coordination is what the coordinators decide: who is the cluster controller, and what it speaks.
type coordination struct {
	c           *Cluster
	connection  fdb.Connection
	database    string      // the key of the database: which coordinated state is ours; empty before it is made
	protocol    fdb.Version // what a majority of coordinators speaks, or spoke last
	quorum      bool        // a majority of coordinators works and speaks one protocol
	controller  *process
	incarnation int    // of the controller
	told        string // the controller that the transcript names last
}

// observe finds out what the coordinators speak, and whether they are a majority.
func (k *coordination) observe() {
	k.c.judge.protocols()
	var speakers []*process
	for _, a := range k.connection.Coordinators {
		if p := k.c.processes.at(a); p != nil && !k.c.faults.partitioned(a) {
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
				k.c.say("the coordinators speak %s now", p.Version.Short())
			}
			k.quorum, k.protocol = true, p.Version
			break
		}
	}
	if !k.quorum || k.controller != nil && (!k.c.processes.works(k.controller) || k.controller.incarnation != k.incarnation) {
		k.controller = nil
	}
}

// lost tells whether so many coordinators have lost the coordinated state that it cannot be read.
func (k *coordination) lost() bool {
	blank, all := 0, len(k.connection.Coordinators)
	for _, a := range k.connection.Coordinators {
		if p := k.c.processes.at(a); p != nil && p.folder.coordinates != k.database {
			blank++
		}
	}
	return k.database != "" && blank > all/2
}

// write has all coordinators that work hold the coordinated state.
func (k *coordination) write() {
	for _, a := range k.connection.Coordinators {
		if p := k.c.processes.at(a); p != nil {
			p.folder.coordinates = k.database
		}
	}
}

// leads tells whether a connection string leads to the coordinators of now: it is theirs, or a majority
// of those it names were coordinators of this database and tell where the new ones are.
func (k *coordination) leads(from fdb.Connection) bool {
	if from.Description != k.connection.Description || len(from.Coordinators) == 0 {
		return false
	}
	if from.ID == k.connection.ID && (k.database == "" || slices.Equal(sortedAddresses(from.Coordinators), sortedAddresses(k.connection.Coordinators))) {
		return true
	}
	known := 0
	for _, a := range from.Coordinators {
		if p := k.c.processes.at(a); p != nil && k.database != "" && p.folder.coordinates == k.database {
			known++
		}
	}
	return known > len(from.Coordinators)/2
}

// WriteClusterFile writes the cluster file of a data folder by hand; a server reads it when it starts. Coordinators
// whose addresses have changed are those of the database again as soon as a majority of them has the file: they
// know themselves by description and id (fdbserver/Coordination.actor.cpp at 7.3.69).
func (c *Cluster) WriteClusterFile(name string, to fdb.Connection) {
	f, k := c.processes.folders[name], &c.coordination
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
		if slices.ContainsFunc(c.processes.list, func(p *process) bool {
			return c.processes.listens(p.Server, a) && p.folder.coordinates == k.database && p.folder.connection.String() == to.String()
		}) {
			told++
		}
	}
	if told > len(to.Coordinators)/2 {
		k.connection.Coordinators = sortedAddresses(to.Coordinators)
		c.recovery.review(because(changed, "coordinators have new addresses"))
	}
}

// finds tells whether a process can join.
func (k *coordination) finds(p *process) bool {
	k.observe()
	return k.c.processes.works(p) && k.leads(p.folder.connection)
}

// elect makes the best process the cluster controller, if there is none. It reports whether there is one.
func (k *coordination) elect(workers []*process) bool {
	if k.controller != nil {
		return true
	}
	var best *process
	for _, p := range workers {
		if clusterController.fitness(p.Class) < neverAssign && (best == nil || k.rank(clusterController, p) < k.rank(clusterController, best)) {
			best = p
		}
	}
	if best == nil {
		return false
	}
	k.controller, k.incarnation = best, best.incarnation
	if k.told != best.Name && k.database != "" {
		k.told = best.Name
		k.c.say("%s is the cluster controller", best.Name)
	}
	return true
}

// rank orders processes for a role: excluded ones come last.
func (k *coordination) rank(r role, p *process) fitness {
	rank := r.fitness(p.Class)
	if k.c.exclusions.contain(p.Addresses, p.Locality) {
		rank += excludeFit
	}
	return rank
}

// has tells whether a server listens on the address of a coordinator.
func (k *coordination) has(s Server) bool {
	return slices.ContainsFunc(k.connection.Coordinators, func(a fdb.Address) bool { return k.c.processes.listens(s, a) })
}

// change is what coordinators does with addresses that were parsed. A change gives the
// connection string a new id and forces a recovery. Sources: foundationdb 7.3.69,
// fdbclient/ManagementAPI.actor.cpp, changeQuorumChecker.
func (k *coordination) change(to []fdb.Address, description string) coordinatorsResult {
	if description == "" {
		description = k.connection.Description
	}
	old, next := sortedAddresses(k.connection.Coordinators), sortedAddresses(to)
	if slices.Equal(old, next) && description == k.connection.Description {
		return sameAddresses
	}
	for _, a := range to {
		if p := k.c.processes.at(a); p == nil || k.c.faults.partitioned(a) || !p.Version.ProtocolCompatible(k.protocol) {
			return coordinatorUnreachable
		}
	}
	k.connection = fdb.Connection{Description: description, ID: k.c.word(alphanumeric, 32), Coordinators: next}
	k.c.say("new coordinators: %s", k.connection)
	k.write()
	for _, p := range k.c.processes.workers() {
		p.folder.connection = k.connection
	}
	k.c.recovery.start(because(changed, "new coordinators"))
	k.c.recovery.review(because(changed, "new coordinators"))
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

// addresses returns the coordinators with names resolved.
func (k *coordination) addresses() []fdb.Address {
	var found []fdb.Address
	for _, a := range k.connection.Coordinators {
		if _, err := netip.ParseAddr(a.Host); err != nil {
			p := k.c.processes.at(a)
			if p == nil {
				continue
			}
			at := slices.IndexFunc(p.Addresses, func(own fdb.Address) bool { return own.Port == a.Port })
			a = p.Addresses[max(0, at)]
			a.FromHostname = true
		}
		found = append(found, a)
	}
	return found
}
