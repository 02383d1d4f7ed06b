package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view"
)

// Exclusion is what is left on a group that is excluded, or marked for removal.
type Exclusion struct {
	Group    string    `json:"group"`
	Class    string    `json:"class"`
	Marked   time.Time `json:"marked,omitzero"`
	State    string    `json:"state"` // Waiting, Draining, Empty, Drained, Skipped, Silent or Excluded
	Roles    []string  `json:"roles,omitempty"`
	Bytes    int64     `json:"bytes"`          // stored on it
	Note     string    `json:"note,omitempty"` // why it waits
	Excluded bool      `json:"excluded"`       // in the database
}

// ExclusionStatus are the exclusions of a cluster.
type ExclusionStatus struct {
	Cluster    string      `json:"cluster"`
	Exclusions []Exclusion `json:"exclusions"`
	InFlight   int64       `json:"bytesInFlight"` // that data distribution moves now
	InQueue    int64       `json:"bytesInQueue"`  // that it has yet to move
	Silence    string      `json:"silence,omitempty"`
}

// Exclusions says what is left on the groups of a cluster that are excluded or marked.
func Exclusions(f Facts) ExclusionStatus {
	v := ExclusionStatus{Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, Exclusions: []Exclusion{}, Silence: f.Silence}
	waits := map[string]string{}
	for _, e := range PlanOf(f.Cluster).Entries {
		if e.Link == "ExcludeProcesses" && !e.Now {
			waits["*"] = because(e.Reason, e.Message)
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

// Left reports whether something is yet to move.
func (v ExclusionStatus) Left() bool {
	return slices.ContainsFunc(v.Exclusions, func(e Exclusion) bool { return e.State != "Drained" && e.State != "Skipped" && e.State != "Excluded" })
}

// Exit is 3 while data moves.
func (v ExclusionStatus) Exit() int {
	if v.Left() {
		return view.ExitActive
	}
	return view.ExitDone
}

// Text is the status for people.
func (v ExclusionStatus) Text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n", v.Cluster)
	if v.Silence != "" {
		fmt.Fprintf(&b, "  database: %s\n", v.Silence)
	}
	if len(v.Exclusions) == 0 {
		b.WriteString("  no group is excluded or marked for removal\n")
		return b.String()
	}
	t := view.Table{Head: []string{"  GROUP", "STATE", "LEFT", "ROLES", "SO FAR", "NOTE"}}
	var sum int64
	for _, e := range v.Exclusions {
		sum += e.Bytes
		since := none
		if !e.Marked.IsZero() {
			since = view.Age(now.Sub(e.Marked))
		}
		t.Rows = append(t.Rows, []string{"  " + e.Group, e.State, Bytes(e.Bytes), cmp.Or(strings.Join(e.Roles, " "), none), since, e.Note})
	}
	b.WriteString(t.String())
	fmt.Fprintf(&b, "  %s left on them; the database moves %s now, %s are in its queue\n", Bytes(sum), Bytes(v.InFlight), Bytes(v.InQueue))
	return b.String()
}

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "KMGTPE"
	i := -1
	for value >= unit && i < len(names)-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
