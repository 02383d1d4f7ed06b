package removal

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// youngestFault is how long a group may be silent before it is given up.
const youngestFault = 5 * time.Minute

// Excludable returns the groups to exclude now, how many marked ones have to wait, and why.
func (x Exclusions) Excludable(limits fdb.Limits) (chosen []*v1beta2.ProcessGroupStatus, left int, why string) {
	type count struct {
		candidates     []*v1beta2.ProcessGroupStatus
		valid, ongoing int
		young          bool
	}
	counts := map[fdb.Class]*count{}
	for i := range x.Cluster.Status.ProcessGroups {
		g := &x.Cluster.Status.ProcessGroups[i]
		class := fdb.Class(g.ProcessClass)
		if class == fdb.ClassTest {
			continue
		}
		c := counts[class]
		if c == nil {
			c = &count{}
			counts[class] = c
		}
		silent := g.Has(v1beta2.MissingProcesses)
		excluded := x.Holds(g)
		if silent && !g.Marked() && !g.Lasts(v1beta2.MissingProcesses, youngestFault, x.Now) {
			c.young = true
		}
		if !silent && !g.Excluded() {
			c.valid++
		}
		switch {
		case !g.Marked() || g.Excluded():
		case excluded:
			if x.HasRoles(g) {
				c.ongoing++
			}
		case len(x.Targets(g)) == 0: // no exclusion can name it yet
		default:
			c.candidates = append(c.candidates, g)
		}
	}
	desired := foundationdb.Groups(x.Cluster.Spec)
	tolerance := fdb.Redundancy(x.Cluster.Spec.DatabaseConfiguration.RedundancyMode).FaultTolerance()
	if limits.NoExclusionSpare {
		tolerance = 0
	}
	blocked := false
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		c := counts[class]
		if len(c.candidates) == 0 {
			continue
		}
		allowed := fdb.ExclusionBudget(c.valid, max(0, desired[class]), c.ongoing, tolerance)
		if c.young {
			allowed = 0
			why = "a group of class " + string(class) + " is silent since a moment ago"
		}
		if allowed == 0 && class.Transaction() {
			blocked = true
		}
		if allowed < len(c.candidates) && why == "" {
			why = strconv.Itoa(c.valid) + " groups of class " + string(class) + " serve, " + strconv.Itoa(max(0, desired[class])) + " are desired, " + strconv.Itoa(c.ongoing) + " are being drained"
		}
		n := min(allowed, len(c.candidates))
		chosen, left = append(chosen, c.candidates[:n]...), left+len(c.candidates)-n
	}
	if blocked { // one recovery is to do for all
		return nil, left + len(chosen), why
	}
	return chosen, left, why
}
