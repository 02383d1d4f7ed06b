package fdb

import "slices"

// Placement is where the processes and the data of a database are: what FoundationDB asks before it
// accepts a configuration.
type Placement struct {
	Zones      map[string][]string // by data center: zones with a process that can hold data; "" is no data center
	Storage    []string            // data centers with a storage server
	Replicated []string            // data centers with a whole copy of the data
}

// PlacementOf reads a placement from the status. What may hold data according to a document with
// gaps is taken to hold some, and what is not shown to have all data has not.
func PlacementOf(s *Status) Placement {
	p := Placement{Zones: map[string][]string{}}
	if s == nil {
		return p
	}
	for _, process := range s.Cluster.Processes {
		dc, zone := process.Locality[DatacenterLocality], process.Locality[ZoneLocality]
		if process.Class.fitsStorage() && zone != "" && !slices.Contains(p.Zones[dc], zone) {
			p.Zones[dc] = append(p.Zones[dc], zone)
		}
		if process.mayStore() && !slices.Contains(p.Storage, dc) {
			p.Storage = append(p.Storage, dc)
		}
	}
	for _, zones := range p.Zones {
		slices.Sort(zones)
	}
	slices.Sort(p.Storage)
	if primary := s.Cluster.ActivePrimaryDC; primary != "" {
		p.Replicated = append(p.Replicated, primary)
	}
	// With two usable regions this means all of them. Source: foundationdb 7.3.69,
	// fdbserver/Status.actor.cpp, loadConfiguration.
	full, c := s.Cluster.FullReplication, s.Cluster.Configuration
	if full != nil && *full && c != nil && c.UsableRegions > 1 {
		for _, region := range c.Regions {
			if id := region.main().ID; !slices.Contains(p.Replicated, id) {
				p.Replicated = append(p.Replicated, id)
			}
		}
	}
	return p
}

// fitsStorage tells whether FoundationDB would put data on a process of the class. Source:
// foundationdb 7.3.69, fdbrpc/Locality.cpp, machineClassFitness.
func (c Class) fitsStorage() bool {
	return c == ClassStorage || c == ClassUnset || c.LogLike()
}

// mayStore tells whether the process is a storage server, or could be one for all that the status
// says.
func (p Process) mayStore() bool {
	if p.Roles == nil {
		return p.Class == "" || p.Class.fitsStorage()
	}
	return slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Role == "storage" || r.Role == "" })
}

// zones returns the number of zones of a data center.
func (p Placement) zones(datacenter string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(p.Zones[datacenter]))))
}
