package fdb

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// MaintenanceVerdict sorts the entries of the maintenance list; an entry can be in none of the lists.
type MaintenanceVerdict struct {
	Finished []string `json:"finished,omitempty"` // restarted since: the entry is removed
	Stale    []string `json:"stale,omitempty"`    // of no use any more: the entry is removed
	Waiting  []string `json:"waiting,omitempty"`  // not restarted yet: the zone stays under maintenance
}

// JudgeMaintenance judges the entries of the shared maintenance list, group to time of entry. zone is
// the zone under maintenance, prefix the prefix of our groups' ids, and groups those that we have.
//
//	                                     entry
//	every server started after it        finished
//	reports, in the zone                 waiting
//	reports, in another zone             waiting for 5 min, stale after 4 h
//	does not report, ours but gone       stale
//	does not report                      waiting, stale after 4 h
//
// A server of which zone or uptime are not known counts as one that does not report.
func JudgeMaintenance(entries map[string]time.Time, zone, prefix string, groups []string, s *Status, now time.Time, l Limits) MaintenanceVerdict {
	l = l.WithDefaults()
	servers := map[string][]Process{}
	if s != nil {
		for _, p := range s.Cluster.Processes {
			id := p.Locality[InstanceLocality]
			if _, listed := entries[id]; listed {
				servers[id] = append(servers[id], p)
			}
		}
	}
	var v MaintenanceVerdict
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		entered := entries[id]
		age := now.Sub(entered)
		known, started, here := restarted(servers[id], entered, zone, now)
		switch {
		case known && started:
			v.Finished = append(v.Finished, id)
		case known && here:
			v.Waiting = append(v.Waiting, id)
		case age > l.MaintenanceStale:
			v.Stale = append(v.Stale, id)
		case known:
			if age < l.MaintenanceWait {
				v.Waiting = append(v.Waiting, id)
			}
		case s != nil && len(servers[id]) == 0 && ours(id, prefix) && !slices.Contains(groups, id):
			v.Stale = append(v.Stale, id)
		default:
			v.Waiting = append(v.Waiting, id)
		}
	}
	return v
}

// restarted reports whether everything about the servers of a group is known, whether all of them
// started after the entry, and whether one of them is in the zone.
func restarted(servers []Process, entered time.Time, zone string, now time.Time) (known, started, here bool) {
	known, started = len(servers) > 0, true
	for _, p := range servers {
		in, ok := p.Locality[ZoneLocality]
		if !ok || p.UptimeSeconds == nil {
			return false, false, false
		}
		here = here || in == zone
		started = started && now.Add(-durationOf(*p.UptimeSeconds)).After(entered)
	}
	return known, started, here
}

// ours reports whether an id has our prefix.
func ours(id, prefix string) bool {
	if g, err := ParseGroupID(id); err == nil {
		return g.Prefix == prefix
	}
	return prefix != "" && strings.HasPrefix(id, prefix+"-")
}
