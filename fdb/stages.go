package fdb

import (
	"cmp"
	"slices"
)

// maxStages is above the longest way between two configurations that FoundationDB accepts: 11 stages
// to replace both regions, and 3 from one that was left in the middle.
const maxStages = 20

// Stages returns the configurations that lead from the current one to the final one, to be
// configured one at a time, each when the one before has taken effect. The last is final; without a
// difference there are none. A region is added or dropped in steps: FoundationDB refuses to change
// usable_regions and priorities together, and drops no region that is still in use:
//
//	add   with priority -1 │ usable_regions 2 │ its priority
//	drop  priority -1      │ usable_regions 1 │ without it
//
// There are never more than two regions, so one leaves before another comes; only the last one stays
// until the new one is the primary. All other fields wait for the last stage, but satellites of
// regions that stay come with the first. The stages depend on the two configurations alone: after
// each of them, Stages returns the rest.
func Stages(current, final Configuration) []Configuration {
	var stages []Configuration
	for final.Differs(current) {
		next := nextStage(current, final)
		if len(stages) == maxStages {
			next = final
		}
		stages = append(stages, next)
		current = next.over(current)
	}
	return stages
}

// nextStage returns the first stage from the current to the final configuration, which differ.
func nextStage(current, final Configuration) Configuration {
	m := newMove(current, final)
	sameRegions := len(m.regions) == len(m.wanted) && !slices.ContainsFunc(m.regions, func(r Region) bool { return !m.stays(r) })
	if sameRegions && m.usable == m.finalUsable || len(m.regions) > 2 || len(m.wanted) > 2 {
		return final
	}
	switch {
	case len(m.regions) == 0:
		m.found()
	case len(m.regions) == 1:
		m.join()
	default:
		m.changeTwo()
	}
	if m.reached() {
		return final
	}
	if stage := m.stage(current); stage.Differs(current) {
		return stage
	}
	return final // FoundationDB refuses it: there is no way
}

// move is one step to the final configuration: it changes the regions or usable_regions.
type move struct {
	regions     []Region // of the step: those of now, with the satellites of the end; the primary first
	usable      int      // usable_regions of the step
	final       Configuration
	finalUsable int
	wanted      []Region // of the end, the primary first
	merges      bool     // the step may change priorities to those of the end
}

// newMove starts a step that changes satellites only.
func newMove(current, final Configuration) *move {
	m := &move{usable: max(1, current.UsableRegions), final: final, finalUsable: max(1, final.UsableRegions), wanted: final.Normalized().Regions}
	for _, region := range current.Normalized().Regions {
		if m.stays(region) {
			region = m.wanted[index(m.wanted, region.main().ID)].withPriority(region.main().Priority)
		}
		m.regions = append(m.regions, region)
	}
	return m
}

// stays tells whether a region is there at the end.
func (m *move) stays(r Region) bool { return index(m.wanted, r.main().ID) >= 0 }

// found gives a database without regions those of the end: the primary, where its data are, and the
// other one with priority -1.
func (m *move) found() {
	for i, region := range m.wanted {
		if i > 0 {
			region = region.withPriority(-1)
		}
		m.regions = append(m.regions, region)
	}
}

// join adds the region of the end that is not there, of two the primary, with priority -1. Without
// regions at the end it drops the one that is there.
func (m *move) join() {
	if len(m.wanted) == 0 {
		m.regions = nil
	}
	for _, region := range m.wanted {
		if index(m.regions, region.main().ID) < 0 {
			m.regions = append(m.regions, region.withPriority(-1))
			return
		}
	}
}

// changeTwo decides the step from two regions.
func (m *move) changeTwo() {
	primary, other := m.regions[0], m.regions[1]
	switch {
	case m.stays(primary) && m.stays(other): // only usable_regions differs
		if m.usable > 1 {
			primary = m.wanted[0]
		}
		m.use(primary, m.finalUsable)
	case m.usable > 1 && m.stays(other):
		m.use(other, 1)
	case m.usable > 1:
		m.use(primary, 1)
	case m.stays(other): // the data are in the one that goes: the other one has to get them first
		m.use(primary, 2)
	case len(m.wanted) == 0:
		m.regions = nil
	default:
		m.regions = m.regions[:1]
		m.merges = true
	}
}

// use changes usable_regions. If a region other than the given one has a priority of 0 or more, it
// changes the priorities first: at a change of usable_regions only one may have that, and that one
// is the primary afterwards.
func (m *move) use(primary Region, usable int) {
	for i, region := range m.regions {
		is, active := region.main().ID == primary.main().ID, region.main().Priority >= 0
		switch {
		case is && !active:
			m.regions[i] = region.withPriority(m.activePriority(region))
		case !is && active:
			m.regions[i] = region.withPriority(-1)
		default:
			continue
		}
		usable = m.usable
	}
	m.usable = usable
}

// activePriority is the priority of a region that becomes the primary: that of the end, if it is one
// at the end.
func (m *move) activePriority(r Region) int {
	if at := index(m.wanted, r.main().ID); at >= 0 && m.wanted[at].main().Priority >= 0 {
		return m.wanted[at].main().Priority
	}
	return 1
}

// reached tells whether the step can be the last one: it has the regions and usable_regions of the
// end, and also the priorities, unless it may change them.
func (m *move) reached() bool {
	if m.usable != m.finalUsable || len(m.regions) != len(m.wanted) {
		return false
	}
	for _, region := range m.regions {
		at := index(m.wanted, region.main().ID)
		if at < 0 || !m.merges && m.wanted[at].main().Priority != region.main().Priority {
			return false
		}
	}
	return true
}

// stage returns the step as a configuration. What can be open is open, so that the step changes
// nothing else. A redundancy that has no name (it is not reported then) becomes that of the end.
func (m *move) stage(current Configuration) Configuration {
	return Configuration{
		RedundancyMode: cmp.Or(current.RedundancyMode, m.final.RedundancyMode),
		StorageEngine:  cmp.Or(current.StorageEngine, m.final.StorageEngine),
		RoleCounts:     current.RoleCounts,
		UsableRegions:  m.usable,
		Regions:        m.regions,
	}
}

// index returns the place of a region, -1 if it is not there.
func index(regions []Region, id string) int {
	return slices.IndexFunc(regions, func(r Region) bool { return r.main().ID == id })
}

// withPriority returns a copy of the region with another priority of its main data center.
func (r Region) withPriority(priority int) Region {
	r.Datacenters = slices.Clone(r.Datacenters)
	for i, dc := range r.Datacenters {
		if dc.Satellite == 0 {
			r.Datacenters[i].Priority = priority
			break
		}
	}
	return r
}
