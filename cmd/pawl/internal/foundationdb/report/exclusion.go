package report

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// Exclusions says what is left on the groups of a cluster that are excluded or marked.
func Exclusions(f Facts) ExclusionStatus {
	v := ExclusionStatus{Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, Exclusions: []Exclusion{}, Silence: f.Silence}
	waits := map[string]string{}
	for _, e := range PlanOf(f.Cluster).Entries {
		if e.Link == "ExcludeProcesses" && !e.Now {
			waits["*"] = fdbview.Because(e.Reason, e.Message)
		}
	}
	if f.Status != nil {
		v.InFlight, v.InQueue = whole(f.Status.Cluster.Data.MovingData.InFlightBytes), whole(f.Status.Cluster.Data.MovingData.InQueueBytes)
	}
	for _, g := range f.Cluster.Status.ProcessGroups {
		e := Exclusion{Group: string(g.ProcessGroupID), Class: string(g.ProcessClass)}
		processes := f.processes(g.ProcessGroupID)
		for _, p := range processes {
			e.Excluded = e.Excluded || yes(p.Excluded)
			for _, r := range p.Roles {
				if !slices.Contains(e.Roles, r.Role) {
					e.Roles = append(e.Roles, r.Role)
				}
				e.Bytes += whole(r.StoredBytes)
			}
		}
		e.Excluded = e.Excluded || excludes(f, g.ProcessGroupID)
		if !g.Marked() && !e.Excluded {
			continue
		}
		if g.Marked() {
			e.Marked = g.RemovalTimestamp.UTC()
		}
		e.State, e.Note = drain(f, g, e, len(processes) > 0)
		if e.State == "Waiting" {
			e.Note = cmp.Or(waits["*"], e.Note)
		}
		v.Exclusions = append(v.Exclusions, e)
	}
	slices.SortFunc(v.Exclusions, func(a, b Exclusion) int { return natural(a.Group, b.Group) })
	return v
}

func drain(f Facts, g v1beta2.ProcessGroupStatus, e Exclusion, reports bool) (state, note string) {
	switch {
	case g.ExclusionSkipped:
		return "Skipped", "it is removed without moving its data"
	case g.ExclusionTimestamp != nil:
		return "Drained", "safe to delete"
	case f.Status == nil:
		return "Waiting", "the database was not read"
	case !g.Marked():
		return "Excluded", "it is not marked for removal: pawl fdb include " + e.Group + " -c " + f.Cluster.Name
	case !e.Excluded:
		return "Waiting", "it is not excluded yet"
	case !reports:
		return "Silent", "none of its servers reports: one more exclude decides"
	case len(e.Roles) > 0:
		return "Draining", ""
	}
	return "Empty", "no role is left: the operator proves that it is safe"
}

// excludes reports whether the database has an exclusion of a group.
func excludes(f Facts, id v1beta2.ProcessGroupID) bool {
	if f.Status == nil || f.Status.Cluster.Configuration == nil {
		return false
	}
	return slices.ContainsFunc(f.Status.Cluster.Configuration.ExcludedServers, func(e fdb.ExcludedServer) bool {
		return groupExcludedBy(f.Cluster, cmp.Or(e.Locality, e.Address)) == id
	})
}

func whole(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
