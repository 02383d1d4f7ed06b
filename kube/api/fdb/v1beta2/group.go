package v1beta2

import "time"

// Since returns when a condition of the group was first seen, and whether it is there.
func (g *ProcessGroupStatus) Since(condition ProcessGroupConditionType) (time.Time, bool) {
	for _, c := range g.ProcessGroupConditions {
		if c.Type == condition {
			return time.Unix(c.Timestamp, 0), true
		}
	}
	return time.Time{}, false
}

// Has reports whether a condition of the group is there.
func (g *ProcessGroupStatus) Has(condition ProcessGroupConditionType) bool {
	_, there := g.Since(condition)
	return there
}

// Lasts reports whether a condition of the group is there for longer than a time.
func (g *ProcessGroupStatus) Lasts(condition ProcessGroupConditionType, d time.Duration, now time.Time) bool {
	at, there := g.Since(condition)
	return there && now.Sub(at) > d
}

// Marked reports whether the group is marked for removal.
func (g *ProcessGroupStatus) Marked() bool { return g.RemovalTimestamp != nil }

// Excluded reports whether the exclusion of the group is finished, or left out.
func (g *ProcessGroupStatus) Excluded() bool {
	return g.ExclusionTimestamp != nil || g.ExclusionSkipped
}

// Names reports whether a target is the group with this id, or stands for all.
func (t ProcessGroupTarget) Names(id ProcessGroupID) bool {
	return t == "*" || ProcessGroupID(t) == id
}
